// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The one tree of a job on a host, in namespaces of its own: job-root.c. */
public final class JobRoot {
    /** How its topmost process, process 2 of its pid namespace, is called. */
    private static final String TOP = "shadowverbs-job";
    private static final String PROGRAM = "shadowverbs-job-root";
    private static final Duration START_TIMEOUT = Duration.ofSeconds(120);

    private JobRoot() {
    }

    static Path program() throws CheckpointException {
        final Path found = CriuCommand.findHelper(PROGRAM);
        if (found == null) {
            throw new CheckpointException(PROGRAM + " is not there: build the project again");
        }
        return found;
    }

    /**
     * Where that of a run directory listens.
     *
     * @param runDirectory the agent's
     * @return its socket
     */
    public static Path socket(final Path runDirectory) {
        return runDirectory.resolve("root.sock");
    }

    /**
     * Makes it, unless it is there, and has it wait for a launch.
     *
     * @param socket where it listens
     * @param variables of its environment: by which its processes find their agent, for one
     * @return the host's pid of its topmost process
     * @throws CheckpointException if this host or its kernel does not allow it; the message says what
     */
    public static long start(final Path socket, final Map<String, String> variables) throws CheckpointException {
        final List<String> command = new ArrayList<>(List.of("env"));
        variables.forEach((name, value) -> command.add(name + "=" + value));
        command.addAll(List.of(program().toString(), "start", socket.toString()));
        if (Rights.ordinary()) {
            command.add("user");
        }
        try {
            final CriuCommand.Result result = CriuCommand.run(command, START_TIMEOUT);
            if (result.status() == 0) {
                return Long.parseLong(result.output().strip());
            }
            throw new CheckpointException(result.status() < 0 ? "not made in " + START_TIMEOUT.toSeconds() + " s"
                    : result.output().strip().replaceFirst("^shadowverbs: ", ""));
        } catch (final IOException | NumberFormatException e) {
            throw new CheckpointException(String.valueOf(e.getMessage()), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("interrupted", e);
        }
    }

    /**
     * How the command begins that runs a program there.
     *
     * @param socket where it listens
     * @return program and arguments, to be followed by the program's path and its arguments from the name on
     * @throws CheckpointException if the project is not whole
     */
    public static List<String> run(final Path socket) throws CheckpointException {
        return List.of(program().toString(), "run", socket.toString());
    }

    /**
     * The same for a program whose stand-in has a line to the agent.
     *
     * @param socket            where the job root listens
     * @param agent             the agent's socket
     * @param stays             whether the stand-in stays until the job ends
     * @param checkpointSignals whether SIGUSR1 and SIGUSR2 ask the agent for a checkpoint
     * @return as {@link #run}
     * @throws CheckpointException if the project is not whole
     */
    public static List<String> attend(final Path socket, final Path agent, final boolean stays, final boolean checkpointSignals)
            throws CheckpointException {
        return List.of(program().toString(), "attend", agent.toString(), (stays ? "s" : "") + (checkpointSignals ? "c" : ""),
                socket.toString());
    }

    /**
     * Who of the trees has not become its program yet, and what it does; empty when nobody. Such a process speaks to process 1, which
     * is of no tree, and has files that were not opened by the tree's mounts.
     */
    static String takingOver(final List<ProcessTree> trees) {
        for (final ProcessTree tree : trees) {
            for (final ProcessTree.Member member : tree.members()) {
                if (member.ids().command().equals(TOP) && !member.ids().ended() && member.ids().pid() != tree.top().pid()) {
                    return tree.subject(member) + ": a launch is just being handed over to the job root";
                }
            }
        }
        return "";
    }

    /** How a command begins that is run with all rights over a process of the tree, in its namespaces. */
    static List<String> enter(final long pid) throws CheckpointException {
        return List.of(program().toString(), "enter", Long.toString(pid));
    }

    /** How a command begins that is run as it would be there, by whom there is none for. */
    static List<String> attempt() throws CheckpointException {
        return List.of(program().toString(), "try");
    }

    /**
     * Whether this process lives in a job root, since its launch or a restart.
     *
     * @return true if so
     */
    public static boolean isAround() {
        try {
            return Files.readString(Path.of("/proc/2/cmdline")).startsWith(TOP + "\0");
        } catch (final IOException e) {
            return false; // In whatever else it lives.
        }
    }
}
