// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The command by which CRIU saves a tree. */
final class DumpCommand {
    private DumpCommand() {
    }

    /**
     * Makes it.
     *
     * @param group  in which the tree is frozen; null: CRIU holds it
     * @param folder for the image
     * @param hold   null: the tree stands still in its group
     * @param parent where CRIU finds which pages the image need not have; null: it is whole
     */
    static List<String> of(final Path criu, final CriuTools tools, final ProcessTree tree, final Sharing sharing, final Path group,
            final Path folder, final HeldDump hold, final ImagePlan plan, final Path parent) throws IOException, CheckpointException {
        final Proc.Ids top = tree.top();
        // CRIU makes the images readable by everybody but for the umask. It is to bear that it cannot write: see CriuDump.
        final List<String> command = new ArrayList<>(List.of("sh", "-c", "trap '' XFSZ; umask 077; exec \"$@\"", "sh"));
        final List<String> namespaces = new ArrayList<>();
        // CRIU sees a tree as from inside its pid namespace, with the /proc that belongs to it.
        if (isElsewhere(top.pid(), "pid")) {
            namespaces.addAll(List.of("--pid", "--mount"));
        }
        // One that it does not share with the tree it would make again by itself, from what it has read itself.
        if (Files.exists(Proc.path(top.pid(), "ns/time")) && isElsewhere(top.pid(), "time")) {
            namespaces.add("--time");
        }
        if (hold != null) {
            command.addAll(JobRoot.enter(top.pid()));
            command.addAll(List.of("/usr/bin/env", "XDG_RUNTIME_DIR=" + hold.work()));
        } else if (!namespaces.isEmpty()) {
            command.addAll(List.of("nsenter", "--target", Long.toString(top.pid())));
            command.addAll(namespaces);
            command.add("--");
        }
        command.addAll(CriuCommand.dump(criu, parent != null && !tools.softDirty()));
        command.addAll(List.of(
                "--tree", Long.toString(top.ownPid()), "--images-dir", folder.toString(),
                "--log-file", CriuCommand.LOG, "-v2", "--leave-running",
                "--ghost-limit", Long.toString(Sharing.GHOST_LIMIT), "--file-locks", "--manage-cgroups=ignore",
                "--network-lock", "skip"));
        if (hold == null) {
            command.addAll(List.of("--freeze-cgroup", group.toString()));
        } else {
            command.add("--unprivileged");
            command.addAll(hold.options());
        }
        command.addAll(CriuCommand.plugins());
        if (parent != null || plan.increments() && tools.softDirty()) {
            command.add("--track-mem");
        }
        if (parent != null) {
            command.addAll(List.of("--prev-images-dir", parent.toString()));
        }
        if (tree.sessionLedFromOutside()) {
            command.add("--shell-job");
        }
        if (!sharing.connections(tree).isEmpty()) {
            command.add(CriuCommand.CONNECTED);
        }
        final Set<String> terminals = new HashSet<>();
        for (final long pid : tree.hostPids()) {
            for (final ExternalDescriptor external : sharing.externals(pid)) {
                if (external.kind() == ExternalDescriptor.Kind.TERMINAL && !external.resource().isEmpty()
                        && terminals.add(external.resource())) {
                    command.addAll(List.of("--external", external.resource()));
                }
            }
        }
        return command;
    }

    private static boolean isElsewhere(final long pid, final String namespace) throws IOException {
        return !Proc.namespace(pid, namespace).equals(Proc.namespace(ProcessHandle.current().pid(), namespace));
    }
}
