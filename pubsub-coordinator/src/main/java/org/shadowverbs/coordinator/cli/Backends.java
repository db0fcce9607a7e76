// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.manifest.Manifest;

/** The options {@code --backend} and {@code --link} of launch and restart, and what holds where they are not given. */
final class Backends {
    private static final String VARIABLE = "SHADOWVERBS_BACKEND";
    private static final String INFINIBAND = "infiniband";
    private static final String ETHERNET = "ethernet";
    private static final Path DEVICES = Path.of("/sys/class/infiniband");

    private final CliCommand command;
    private final Supplier<String> backend;
    private final Supplier<String> link;

    /** The parameters say what holds when an option is not given. */
    Backends(final CliCommand command, final String otherBackend, final String otherLink) {
        this.command = command;
        backend = command.choice("--backend", "NAME", List.of(BackendName.HCA, BackendName.TCP),
                "hca, or ib2tcp: over TCP, without an RDMA device (" + otherBackend + ")");
        link = command.choice("--link", "LAYER", List.of(INFINIBAND, ETHERNET), "what the port of ib2tcp says that it is:"
                + " ethernet, or infiniband, with a lid, for programs that need one (" + otherLink + ")");
    }

    /** The backend with the link layer that {@code --link} asks for. */
    private String withLink(final String chosen) throws UsageException {
        if (link.get() == null) {
            return chosen;
        }
        if (!BackendName.overTcp(chosen)) {
            throw new UsageException(command.name()
                    + ": --link is for --backend ib2tcp: an HCA's port has the link layer that it has");
        }
        return link.get().equals(INFINIBAND) ? BackendName.TCP_INFINIBAND : BackendName.TCP;
    }

    /** Where none is named a restored program goes on with the kind that it had. */
    String ofRestart() throws UsageException {
        return withLink(backend.get() != null ? backend.get() : Verdict.SAME_BACKEND);
    }

    /**
     * @param named by {@link #ofRestart}
     * @return with what the checkpoint says where the command says nothing
     */
    String ofRestart(final String named, final Manifest manifest) {
        if (named.equals(Verdict.SAME_BACKEND)) {
            // The choice of an earlier restart holds also for processes of the job that have not used verbs yet.
            return manifest.backend() != null ? manifest.backend() : named;
        }
        // Programs that began on InfiniBand start others that expect it.
        return named.equals(BackendName.TCP) && link.get() == null && manifest.needs().stream().anyMatch(Needs::infiniband)
                ? BackendName.TCP_INFINIBAND : named;
    }

    /** Where none is named: that of the launch around this one; else, on a host without a verbs device, TCP. */
    String ofLaunch(final boolean fabric, final Map<String, String> environment) throws UsageException {
        return withLink(ofLaunchWithoutLink(fabric, environment));
    }

    private String ofLaunchWithoutLink(final boolean fabric, final Map<String, String> environment) throws UsageException {
        if (backend.get() != null || fabric) {
            return backend.get() != null ? backend.get() : BackendName.HCA;
        }
        final String around = environment.getOrDefault(VARIABLE, "");
        if (!around.isEmpty()) {
            if (!BackendName.exists(around)) {
                throw new UsageException(VARIABLE + " takes hca or ib2tcp, not " + around);
            }
            return around;
        }
        return hostHasDevice() ? BackendName.HCA : BackendName.TCP;
    }

    /** One line for the user of a launch without a named backend; empty when there is nothing to say. */
    String note(final String chosen, final Map<String, String> environment) {
        return BackendName.overTcp(chosen) && backend.get() == null && environment.getOrDefault(VARIABLE, "").isEmpty()
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
