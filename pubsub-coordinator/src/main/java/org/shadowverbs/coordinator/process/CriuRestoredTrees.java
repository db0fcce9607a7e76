// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.shadowverbs.coordinator.system.Processes;

/** Trees that CRIU has restored in a pid namespace of ours. */
final class CriuRestoredTrees implements RestoredTrees {
    private final RestoreInit init;
    private final Map<String, Long> hostPids = new LinkedHashMap<>();
    private final Map<String, Long> ownPids = new LinkedHashMap<>();
    private final Map<String, CompletableFuture<Integer>> exitStatuses = new LinkedHashMap<>();
    private final List<Long> restoreNanos;

    CriuRestoredTrees(
            final RestoreInit init, final long initPid, final HostImages images, final List<Long> restoreNanos)
            throws IOException {
        this.init = init;
        this.restoreNanos = List.copyOf(restoreNanos);
        final Map<Long, Long> hostPidOf = members(initPid);
        for (final TreeImage tree : images.trees()) {
            ownPids.put(tree.name(), tree.rootPid());
            exitStatuses.put(tree.name(), init.ended(tree.rootPid()));
            for (final ProcessImage process : tree.processes()) {
                if (!process.root().isEmpty() && hostPidOf.containsKey(process.pid())) {
                    hostPids.put(process.root(), hostPidOf.get(process.pid()));
                }
            }
        }
    }

    /** Host pids of the processes in the namespace, by the pid that they have there. */
    private static Map<Long, Long> members(final long initPid) throws IOException {
        final String namespace = Proc.namespace(initPid, "pid");
        final Map<Long, Long> members = new HashMap<>();
        for (final long pid : Processes.all()) {
            try {
                if (Proc.namespace(pid, "pid").equals(namespace)) {
                    members.put(Proc.ids(pid).ownPid(), pid);
                }
            } catch (final IOException e) {
                continue; // It has ended meanwhile.
            }
        }
        return members;
    }

    @Override
    public Map<String, Long> hostPids() {
        return Map.copyOf(hostPids);
    }

    @Override
    public Map<String, CompletableFuture<Integer>> exitStatuses() {
        return Map.copyOf(exitStatuses);
    }

    @Override
    public List<Long> restoreNanos() {
        return restoreNanos;
    }

    @Override
    public void signal(final int signal) {
        ownPids.forEach((name, pid) -> {
            if (!exitStatuses.get(name).isDone()) {
                try {
                    init.signal(pid, signal);
                } catch (final IOException e) {
                    init.close(); // It does not read commands any more, and with it all ends.
                }
            }
        });
    }

    @Override
    public void close() {
        init.close();
    }
}
