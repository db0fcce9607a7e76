// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.system.Processes;

/** A process that was launched with all its descendants, and what /proc says of each. */
final class ProcessTree {
    /** Roots by host pid, the topmost first. */
    private final Map<Long, String> roots = new LinkedHashMap<>();

    private final List<Member> members = new ArrayList<>();

    /**
     * A process of the tree.
     *
     * @param ids         its ids
     * @param descriptors its open files
     * @param mappings    its mappings of files and shared memory
     */
    record Member(Proc.Ids ids, List<Proc.Descriptor> descriptors, List<Proc.Mapping> mappings) {
    }

    private ProcessTree() {
    }

    /**
     * Finds the trees of processes that were launched. A root below another one is part of the other's tree.
     *
     * @param launched the processes that were launched
     * @return the trees, in the order of their topmost roots
     * @throws CheckpointException if one of the processes is gone
     */
    static List<ProcessTree> of(final List<ProcessRoot> launched) throws CheckpointException {
        return find(launched, true);
    }

    /** Likewise, without what the processes have open and mapped, which takes longer to read. */
    static List<ProcessTree> outline(final List<ProcessRoot> launched) throws CheckpointException {
        return find(launched, false);
    }

    private static List<ProcessTree> find(final List<ProcessRoot> launched, final boolean whole) throws CheckpointException {
        try {
            final Map<Long, List<Long>> children = Processes.children();
            final Map<Long, Long> parents = new HashMap<>();
            children.forEach((parent, pids) -> pids.forEach(pid -> parents.put(pid, parent)));
            final Map<Long, String> names = new LinkedHashMap<>();
            for (final ProcessRoot root : launched) {
                if (!parents.containsKey(root.hostPid()) || Proc.ended(root.hostPid())) {
                    throw new CheckpointException(root.name() + ": process " + root.hostPid() + " has ended");
                }
                names.put(root.hostPid(), root.name());
            }
            final List<Long> tops = names.keySet().stream().filter(pid -> !hasAncestorIn(pid, parents, names)).toList();
            final List<Long> below = new ArrayList<>(tops);
            for (int i = 0; i < below.size(); i++) {
                below.addAll(children.getOrDefault(below.get(i), List.of()));
            }
            final List<Member> read = Parallel.each(below, whole ? Parallel.threads() : 1, pid -> member(pid, tops, whole));
            final Map<Long, Member> members = new HashMap<>();
            for (int i = 0; i < below.size(); i++) {
                members.put(below.get(i), read.get(i));
            }
            final List<ProcessTree> trees = new ArrayList<>();
            for (final long top : tops) {
                final ProcessTree tree = collect(top, children, names, members);
                final long self = ProcessHandle.current().pid();
                if (tree.hostPids().contains(self)) {
                    // It would freeze itself, and nobody would be there to thaw it.
                    throw new CheckpointException(List.of(new Finding(tree.name(),
                            "the process that saves (pid " + self + ") is itself below what is to be saved (pid "
                                    + top + ")", "start the agent so that it is no child of the program")));
                }
                trees.add(tree);
            }
            return trees;
        } catch (final IOException e) {
            throw new CheckpointException("reading /proc: " + e.getMessage(), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("reading /proc: interrupted", e);
        }
    }

    private static boolean hasAncestorIn(
            final long pid, final Map<Long, Long> parents, final Map<Long, String> names) {
        for (Long at = parents.get(pid); at != null && at != 0; at = parents.get(at)) {
            if (names.containsKey(at)) {
                return true;
            }
        }
        return false;
    }

    /** @param members null: one that has ended meanwhile, and what is below it is somebody else's now */
    private static ProcessTree collect(final long top, final Map<Long, List<Long>> children, final Map<Long, String> names,
            final Map<Long, Member> members) {
        final ProcessTree tree = new ProcessTree();
        final Deque<Long> left = new ArrayDeque<>(List.of(top));
        while (!left.isEmpty()) {
            final long pid = left.removeFirst();
            if (names.containsKey(pid)) {
                tree.roots.put(pid, names.get(pid));
            }
            if (members.get(pid) != null) {
                tree.members.add(members.get(pid));
                left.addAll(children.getOrDefault(pid, List.of()));
            }
        }
        return tree;
    }

    /** Null: it has ended meanwhile, and is none of the topmost. */
    private static Member member(final long pid, final List<Long> tops, final boolean whole) throws IOException {
        try {
            final Proc.Ids ids = Proc.ids(pid);
            return ids.ended() || !whole ? new Member(ids, List.of(), List.of())
                    : new Member(ids, Proc.descriptors(pid), Proc.mappings(pid));
        } catch (final IOException e) {
            if (tops.contains(pid) || !Proc.ended(pid)) {
                throw e;
            }
            return null;
        }
    }

    String name() {
        return roots.values().iterator().next();
    }

    List<String> rootNames() {
        return List.copyOf(roots.values());
    }

    /** The name of the root that a process is, empty when it is a descendant. */
    String rootName(final long hostPid) {
        return roots.getOrDefault(hostPid, "");
    }

    /** How messages call a process: its root's name, pid and command. */
    String subject(final Member member) {
        final String root = rootName(member.ids().pid());
        return (root.isEmpty() ? name() : root) + " (pid " + member.ids().pid() + ", " + member.ids().command() + ")";
    }

    List<Member> members() {
        return members;
    }

    Proc.Ids top() {
        return members.getFirst().ids();
    }

    List<Long> hostPids() {
        return members.stream().map(member -> member.ids().pid()).toList();
    }

    /** Whether it has System V's memory, semaphores and queues for itself, which CRIU saves as a whole. */
    boolean ownIpc() {
        try {
            return !Proc.namespace(top().pid(), "ipc").equals(Proc.namespace(ProcessHandle.current().pid(), "ipc"));
        } catch (final IOException e) {
            return false; // It has ended, which the dump will say.
        }
    }

    /** Whether the session that the topmost process is in is led from outside the tree. */
    boolean sessionLedFromOutside() {
        return members.stream().noneMatch(member -> member.ids().ownPid() == top().ownSession());
    }
}
