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

/**
 * Network namespaces, each with one address and no default route: two joined by a cable (veth), or more that have their cables in a
 * switch (a bridge in a namespace of its own). They are removed at the end.
 */
final class TwoNetworks implements AutoCloseable {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final String SWITCH_OF = "switch-";
    private static final AtomicInteger MADE = new AtomicInteger();

    private final String prefix = "svt" + ProcessHandle.current().pid() + "-" + MADE.incrementAndGet() + "-";
    private final Path work;
    private final int hosts;
    private int commands;
    private Running last;

    private TwoNetworks(final Path work, final int hosts) {
        this.work = work;
        this.hosts = hosts;
    }

    /**
     * Skips the test where network namespaces cannot be made.
     *
     * @param work where the output of the commands goes
     */
    static TwoNetworks make(final Path work) throws IOException, InterruptedException {
        return make(work, 2);
    }

    /** @param hosts how many */
    static TwoNetworks make(final Path work, final int hosts) throws IOException, InterruptedException {
        final TwoNetworks networks = new TwoNetworks(work, hosts);
        try {
            networks.make();
            return networks;
        } catch (IOException | InterruptedException | RuntimeException e) {
            networks.close();
            throw e;
        }
    }

    private void make() throws IOException, InterruptedException {
        boolean able = true;
        for (int host = 0; host < hosts; host++) {
            able &= ip("netns", "add", name(host)) == 0;
        }
        Assumptions.assumeTrue(able && (hosts == 2 ? joinedByCable() : joinedBySwitch()),
                "network namespaces cannot be made here: " + last.errors());
        for (int host = 0; host < hosts; host++) {
            mustIp("-n", name(host), "address", "add", address(host) + "/24", "dev", "cable");
            mustIp("-n", name(host), "link", "set", "cable", "up");
            mustIp("-n", name(host), "link", "set", "lo", "up");
        }
        for (int host = 0; host < hosts; host++) {
            awaitUp(host);
        }
    }

    private boolean joinedByCable() throws IOException, InterruptedException {
        return ip("link", "add", "cable", "netns", name(0), "type", "veth", "peer", "name", "cable", "netns", name(1)) == 0;
    }

    private boolean joinedBySwitch() throws IOException, InterruptedException {
        boolean able = ip("netns", "add", SWITCH_OF + prefix) == 0
                && ip("-n", SWITCH_OF + prefix, "link", "add", "bridge", "type", "bridge") == 0
                && ip("-n", SWITCH_OF + prefix, "link", "set", "bridge", "up") == 0;
        for (int host = 0; host < hosts && able; host++) {
            able = ip("link", "add", "cable", "netns", name(host), "type", "veth", "peer", "name", port(host), "netns",
                    SWITCH_OF + prefix) == 0
                    && ip("-n", SWITCH_OF + prefix, "link", "set", port(host), "master", "bridge", "up") == 0;
        }
        return able;
    }

    private static String port(final int host) {
        return "port" + host;
    }

    /** The host's port of the switch lets nothing pass from now on, or all again: to the host, all that it sends is lost. */
    void cut(final int host, final boolean off) throws IOException, InterruptedException {
        if (off) {
            mustIp("-n", SWITCH_OF + prefix, "link", "set", port(host), "nomaster");
        } else {
            mustIp("-n", SWITCH_OF + prefix, "link", "set", port(host), "master", "bridge");
        }
    }

    /** The kernel says only a moment after the fact that a cable is plugged in at both ends, and programs believe it. */
    private void awaitUp(final int host) throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        final Looks looks = new Looks();
        do {
            mustIp("-n", name(host), "link", "show", "dev", "cable");
            if (last.output().contains(" state UP ")) {
                return;
            }
            looks.rest();
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
            for (int host = 0; host < hosts; host++) {
                ip("netns", "delete", name(host));
            }
            if (hosts > 2) {
                ip("netns", "delete", SWITCH_OF + prefix);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
