// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.client.Verdict;

/** What {@code --backend} says, and what holds where it says nothing. */
final class Backends {
    private static final String HCA = "hca";
    private static final String TCP = "ib2tcp";
    private static final String VARIABLE = "SHADOWVERBS_BACKEND";
    private static final Path DEVICES = Path.of("/sys/class/infiniband");

    private Backends() {
    }

    private static String check(final String what, final String name) throws UsageException {
        if (!name.equals(HCA) && !name.equals(TCP)) {
            throw new UsageException(what + " takes hca or ib2tcp, not " + name);
        }
        return name;
    }

    /** Where none is named a restored program goes on with the kind that it had. */
    static String ofRestart(final String command, final Arguments a) throws UsageException {
        return a.has("--backend") ? check(command + ": --backend", a.value("--backend", "")) : Verdict.SAME_BACKEND;
    }

    /** Where none is named: that of the launch around this one; else, on a host without a verbs device, TCP. */
    static String ofLaunch(final Arguments a, final Map<String, String> environment) throws UsageException {
        if (a.has("--backend")) {
            return check("launch: --backend", a.value("--backend", ""));
        }
        if (a.has("--test-fabric")) {
            return HCA;
        }
        final String around = environment.getOrDefault(VARIABLE, "");
        if (!around.isEmpty()) {
            return check(VARIABLE, around);
        }
        return hostHasDevice() ? HCA : TCP;
    }

    /** One line for the user of a launch whose backend nobody has named; empty when there is nothing to say. */
    static String note(final String chosen, final Arguments a, final Map<String, String> environment) {
        return chosen.equals(TCP) && !a.has("--backend") && environment.getOrDefault(VARIABLE, "").isEmpty()
                ? "this host has no verbs device (" + DEVICES + "): verbs go over TCP, as with --backend ib2tcp" : "";
    }

    private static boolean hostHasDevice() {
        try (Stream<Path> devices = Files.list(DEVICES)) {
            return devices.findAny().isPresent();
        } catch (IOException e) {
            return false; // no such folder: the kernel has no RDMA at all
        }
    }
}
