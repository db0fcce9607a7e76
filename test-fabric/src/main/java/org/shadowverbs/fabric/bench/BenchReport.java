// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Locale;
import java.util.Map;

/** The results as a table for people or as one JSON object. */
final class BenchReport {
    private static final int SCHEMA = 1;
    private static final int GOAL_REQUEST_NS = 15;
    private static final int GOAL_EMPTY_POLL_NS = 4;
    private static final int GOAL_MANY_QUEUE_PAIRS_NS = 5;
    private static final int GOAL_BOOT_MS = 80;
    private static final int GOAL_MEMORY_MB = 20;
    private static final int GOAL_IMAGE_MB = 8;

    private BenchReport() {
    }

    static String json(final BenchResults results) {
        final ObjectNode report = new ObjectMapper().createObjectNode();
        report.put("schema", SCHEMA);
        final ArrayNode rows = report.putArray("rows");
        for (final Map.Entry<String, BenchSamples> row : results.rows.entrySet()) {
            final BenchSamples samples = row.getValue().undisturbed();
            rows.addObject()
                    .put("name", row.getKey())
                    .put("native_ns", rounded(samples.nativeMedian()))
                    .put("preloaded_ns", rounded(samples.preloadedMedian()))
                    .put("added_ns", rounded(samples.added()))
                    .put("spread_ns", rounded(samples.spread()))
                    .put("pairs", samples.pairs())
                    .put("disturbed_pairs", row.getValue().pairs() - samples.pairs());
        }
        report.put("jvm_boot_ms", rounded(results.boot.added()));
        report.put("jvm_private_mb", rounded(results.memory.added()));
        report.put("jvm_image_mb", rounded(results.image.added()));
        report.put("malloc_calls", results.allocations);
        report.put("syscalls", results.systemCalls);
        return report.toString();
    }

    static String table(final BenchResults results) {
        final StringBuilder text = new StringBuilder();
        line(text, "%-26s %9s %9s %9s %9s %9s  %s", "ns per operation", "native", "preloaded", "added", "spread",
                "pairs", "goal");
        for (final Map.Entry<String, BenchSamples> row : results.rows.entrySet()) {
            final BenchSamples samples = row.getValue().undisturbed();
            line(text, "%-26s %9.1f %9.1f %9.1f %9.1f %9s  at most %d added", row.getKey(), samples.nativeMedian(),
                    samples.preloadedMedian(), samples.added(), samples.spread(),
                    samples.pairs() + " of " + row.getValue().pairs(),
                    row.getKey().startsWith("empty_poll") ? GOAL_EMPTY_POLL_NS : GOAL_REQUEST_NS);
        }
        line(text, "1,024 queue pairs add %.1f ns more than one (goal: at most %d)",
                results.rows.get(BenchCase.SEND_1024QP.name()).undisturbed().added()
                        - results.rows.get(BenchCase.SEND_1QP.name()).undisturbed().added(), GOAL_MANY_QUEUE_PAIRS_NS);
        line(text, "boot of the JVM: %.0f ms, spread %.0f (goal: at most %d)", results.boot.added(),
                results.boot.spread(), GOAL_BOOT_MS);
        line(text, "private memory of the JVM: %.1f MB, spread %.1f (goal: at most %d)", results.memory.added(),
                results.memory.spread(), GOAL_MEMORY_MB);
        line(text, "the JVM's share of an image: %.1f MB, spread %.1f (goal: at most %d)", results.image.added(),
                results.image.spread(), GOAL_IMAGE_MB);
        line(text, "in %d operations under the preload: %d allocations, %d system calls (goal: none)",
                results.countedRequests, results.allocations, results.systemCalls);
        return text.toString();
    }

    private static void line(final StringBuilder text, final String format, final Object... values) {
        text.append(String.format(Locale.ROOT, format, values)).append('\n');
    }

    private static double rounded(final double value) {
        return Math.round(value * 100) / 100.0;
    }
}
