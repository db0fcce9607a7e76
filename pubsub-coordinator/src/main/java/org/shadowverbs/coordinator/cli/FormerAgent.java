// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/**
 * An agent of this host that a job has left behind. A restart becomes the host's agent, and so this one must end first, if it
 * has nothing to do any more. It has ended when neither its coordinator knows it nor its socket answers: in between it removes
 * what it kept in the run directory, which would be the new agent's.
 */
final class FormerAgent {
    private static final Duration PAUSE = Duration.ofMillis(20);

    /** Asks the coordinator. */
    @FunctionalInterface
    interface Status {
        /** @return what the command {@code status} prints as JSON */
        JsonNode ask() throws CommandException, IOException;
    }

    private final Path socket;
    private final String host;
    private final Status status;

    /**
     * @param socket the one that agents of this host listen at, for that coordinator
     * @param host this host's name
     */
    FormerAgent(final Path socket, final String host, final Status status) {
        this.socket = socket;
        this.host = host;
        this.status = status;
    }

    /**
     * Ends it, if there is one.
     *
     * @return why it stays, to be said after "an agent"; empty: there is none any more
     */
    String end(final Duration limit) throws CommandException, IOException {
        if (!Daemons.answers(socket)) {
            return "";
        }
        final long end = System.nanoTime() + limit.toNanos();
        boolean asked = false;
        for (;;) {
            final JsonNode job = status.ask();
            final JsonNode agent = known(job);
            final boolean answers = Daemons.answers(socket);
            if (agent == null && !answers) {
                return "";
            }
            if (agent != null && (!job.path("ranks").isEmpty() || !agent.path("programs").isEmpty())) {
                return "which has processes";
            }
            if (agent != null && answers && !asked) {
                final long pid = agent.path("pid").asLong();
                asked = ask(pid);
                if (!asked && Daemons.answers(socket)) {
                    return "whose process " + pid + " can't be ended from here";
                }
            }
            if (System.nanoTime() > end) {
                return "which has not ended within " + limit.toSeconds() + " s";
            }
            try {
                Thread.sleep(PAUSE);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return "which has not ended yet";
            }
        }
    }

    private JsonNode known(final JsonNode job) {
        for (final JsonNode agent : job.path("agents")) {
            if (host.equals(agent.path("host").asText())) {
                return agent;
            }
        }
        return null;
    }

    /**
     * Asks it to end, if it is an agent, and not another process that has its number, in another pid namespace perhaps. A restart
     * ends by itself with its job.
     */
    private static boolean ask(final long pid) {
        final ProcessHandle process = ProcessHandle.of(pid).orElse(null);
        final String command = process == null ? "" : command(pid);
        return command.equals("restart") || command.equals("agent") && process.destroy();
    }

    /** Which of our commands that process runs; empty: none, or it has ended. */
    private static String command(final long pid) {
        try {
            final List<String> words = List.of(Files.readString(Path.of("/proc", Long.toString(pid), "cmdline")).split("\0"));
            final int main = words.indexOf(Main.class.getName());
            return main >= 0 && main + 1 < words.size() ? words.get(main + 1) : "";
        } catch (IOException e) {
            return "";
        }
    }
}
