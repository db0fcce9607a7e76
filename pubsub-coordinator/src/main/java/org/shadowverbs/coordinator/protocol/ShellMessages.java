// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;

/**
 * How a command comes to run on another host: {@code shadowverbs rsh} (native/restore-init/rsh.c) asks its agent, which asks the
 * coordinator, which asks that host's agent. What the command does with its streams goes another way, past all of them.
 */
public final class ShellMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.ofEntries(
            Map.entry(FrameType.ASK_SHELL, AskShell.class),
            Map.entry(FrameType.SHELL_ANSWER, ShellAnswer.class),
            Map.entry(FrameType.START_SHELL, StartShell.class),
            Map.entry(FrameType.SHELL_FAILED, ShellFailed.class));

    private ShellMessages() {
    }

    /**
     * What is to be run, and who waits for it.
     *
     * @param port at which the one that asks listens on its host
     * @param token by which both ends know each other
     * @param command for the user's shell
     * @param directory the command's, where it is there
     * @param umask the command's
     * @param environment of the one that asks, NAME=value
     */
    public record Shell(int port, String token, String command, String directory, int umask, List<String> environment) {
    }

    /** First and only message of one that asks, to its agent. Its connection ends when the command has come to it. */
    public record AskShell(int version, String host, Shell shell) implements Message {
    }

    /** The answer when the command does not come: why. */
    public record ShellAnswer(String problem) implements Message {
    }

    /**
     * To the coordinator, and from there to the agent of that host.
     *
     * @param id of the request, among those of the agent that sends it
     * @param origin that agent
     * @param host as the one that asks names it
     * @param hostAddresses that this name has where it was asked; may be empty
     * @param callers addresses at which the one that asks may be reached, the likeliest first
     */
    public record StartShell(long id, String origin, String host, List<String> hostAddresses, List<String> callers, Shell shell)
            implements Message {
    }

    /**
     * To the coordinator, and from there to the agent that asked.
     *
     * @param problem why the command does not run
     * @param noAgent whether it is because that host has no agent
     * @param coordinator then: the address at which an agent there reaches the coordinator; empty: the one that all know
     */
    public record ShellFailed(long id, String origin, String problem, boolean noAgent, String coordinator) implements Message {
    }
}
