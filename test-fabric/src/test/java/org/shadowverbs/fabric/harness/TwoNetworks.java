// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Assumptions;

/** Two network namespaces joined by a cable (veth), each with one address and no default route. They are removed at the end. */
final class TwoNetworks implements AutoCloseable {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final AtomicInteger MADE = new AtomicInteger();

    private final String prefix = "svt" + ProcessHandle.current().pid() + "-" + MADE.incrementAndGet() + "-";
    private final Path work;
    private int commands;
    private Running last;

    private TwoNetworks(final Path work) {
        this.work = work;
    }

    /**
     * Skips the test where network namespaces cannot be made.
     *
     * @param work where the output of the commands goes
     */
    static TwoNetworks make(final Path work) throws IOException, InterruptedException {
        final TwoNetworks networks = new TwoNetworks(work);
        try {
            networks.make();
            return networks;
        } catch (IOException | InterruptedException | RuntimeException e) {
            networks.close();
            throw e;
        }
    }

    private void make() throws IOException, InterruptedException {
        final boolean able = ip("netns", "add", name(0)) == 0 && ip("netns", "add", name(1)) == 0
                && ip("link", "add", "cable", "netns", name(0), "type", "veth", "peer", "name", "cable", "netns", name(1)) == 0;
        Assumptions.assumeTrue(able, "network namespaces cannot be made here: " + last.errors());
        for (int host = 0; host < 2; host++) {
            mustIp("-n", name(host), "address", "add", address(host) + "/24", "dev", "cable");
            mustIp("-n", name(host), "link", "set", "cable", "up");
            mustIp("-n", name(host), "link", "set", "lo", "up");
        }
        for (int host = 0; host < 2; host++) {
            awaitUp(host);
        }
    }

    /** The kernel says only a moment after the fact that a cable is plugged in at both ends, and programs believe it. */
    private void awaitUp(final int host) throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        do {
            mustIp("-n", name(host), "link", "show", "dev", "cable");
            if (last.output().contains(" state UP ")) {
                return;
            }
            Thread.sleep(Job.PAUSE);
        } while (System.nanoTime() < end);
        throw new IOException("waited " + COMMAND.toSeconds() + " s for the cable to be up: " + last.output());
    }

    private String name(final int host) {
        return prefix + host;
    }

    /** The file that nsenter(1) enters a network by. */
    Path file(final int host) {
        return Path.of("/run/netns", name(host));
    }

    static String address(final int host) {
        return "10.77.0." + (host + 1);
    }

    private int ip(final String... arguments) throws IOException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of("ip"));
        command.addAll(List.of(arguments));
        last = Running.start("ip-" + commands++, work, System.getenv(), command);
        return last.awaitEnd(COMMAND);
    }

    private void mustIp(final String... arguments) throws IOException, InterruptedException {
        if (ip(arguments) != 0) {
            throw new IOException("ip " + String.join(" ", arguments) + ": " + last.errors());
        }
    }

    /** When nothing runs in them any more. */
    @Override
    public void close() throws IOException {
        try {
            for (int host = 0; host < 2; host++) {
                ip("netns", "delete", name(host));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
