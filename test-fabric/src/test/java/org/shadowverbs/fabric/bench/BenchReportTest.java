// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.junit.jupiter.api.Test;

class BenchReportTest {
    @Test
    void addedIsTheMedianOfThePairedDifferences() {
        final BenchSamples samples = new BenchSamples();
        // A machine that slows down: the medians differ by 9, the pairs by 1, 9 and 2.
        samples.add(10, 11);
        samples.add(20, 29);
        samples.add(30, 32);
        assertEquals(2, samples.added());
        assertEquals(20, samples.nativeMedian());
        assertEquals(29, samples.preloadedMedian());
        assertEquals(3, samples.pairs());
    }

    @Test
    void spreadIsTheDistanceBetweenTheQuartiles() {
        final BenchSamples samples = new BenchSamples();
        for (final int difference : new int[] {5, 1, 3, 2, 4}) {
            samples.add(100, 100 + difference);
        }
        assertEquals(2, samples.spread());
    }

    @Test
    void pairsWithASlowNativeRunDoNotCountHoweverSlowTheOtherWas() {
        final BenchSamples samples = new BenchSamples();
        samples.add(12.0, 20);
        samples.add(12.7, 13);
        samples.add(12.5, 40);
        samples.add(14.0, 33);
        final BenchSamples undisturbed = samples.undisturbed();
        assertEquals(2, undisturbed.pairs());
        assertEquals((8 + 27.5) / 2, undisturbed.added());
        assertEquals(0, new BenchSamples().undisturbed().pairs());
    }

    @Test
    void quantilesAreInterpolated() {
        assertEquals(2.5, BenchSamples.quantile(new double[] {4, 1, 2, 3}, 0.5));
        assertEquals(7, BenchSamples.quantile(new double[] {7}, 0.75));
        assertThrows(IllegalStateException.class, () -> BenchSamples.quantile(new double[] {}, 0.5));
    }

    @Test
    void reportsRowsAndTheCostOfTheJvm() throws Exception {
        final BenchResults results = new BenchResults();
        results.row(BenchCase.SEND_1QP).add(12.5, 22.75);
        results.row(BenchCase.SEND_1024QP).add(13, 26);
        results.row(BenchCase.EMPTY_POLL).add(2, 4);
        results.row(BenchCase.EMPTY_POLL).add(3, 9);
        results.boot.add(0.05, 90.05);
        results.memory.add(1, 24);
        results.image.add(1, 8.5);
        results.allocations = 3;
        results.systemCalls = 4;
        final JsonNode report = new ObjectMapper().readTree(BenchReport.json(results));
        assertEquals(1, report.get("schema").asInt());
        assertEquals(3, report.get("rows").size());
        final JsonNode row = report.get("rows").get(0);
        assertEquals("send_1qp", row.get("name").asText());
        assertEquals(12.5, row.get("native_ns").asDouble());
        assertEquals(22.75, row.get("preloaded_ns").asDouble());
        assertEquals(10.25, row.get("added_ns").asDouble());
        assertEquals(0, row.get("spread_ns").asDouble());
        assertEquals(1, row.get("pairs").asInt());
        assertEquals(0, row.get("disturbed_pairs").asInt());
        assertEquals(2, report.get("rows").get(2).get("added_ns").asDouble());
        assertEquals(1, report.get("rows").get(2).get("disturbed_pairs").asInt());
        assertEquals(90, report.get("jvm_boot_ms").asDouble());
        assertEquals(23, report.get("jvm_private_mb").asDouble());
        assertEquals(7.5, report.get("jvm_image_mb").asDouble());
        assertEquals(3, report.get("malloc_calls").asLong());
        assertEquals(4, report.get("syscalls").asLong());
        final String table = BenchReport.table(results);
        assertTrue(table.contains("1,024 queue pairs add 2.8 ns more than one"), table);
        assertTrue(table.contains("1 of 2"), table);
        assertTrue(table.contains("3 allocations, 4 system calls"), table);
    }
}
