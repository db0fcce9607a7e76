// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** TCP connections of stopped processes that take in nothing until this is closed: tcp-hold.c, seen from outside. */
final class TcpHold implements AutoCloseable {
    private static final String PROGRAM = "shadowverbs-tcp-hold";
    private static final long ANSWER_SECONDS = 20;
    private static final String ALIVE = "alive ";

    private final Process process;
    private final List<Long> alive = new ArrayList<>();

    /**
     * A socket.
     *
     * @param pid   a process of this host that has it
     * @param fd    as which descriptor
     * @param inode its inode
     */
    record Socket(long pid, int fd, long inode) {
    }

    private TcpHold(final Process process) {
        this.process = process;
    }

    static TcpHold start() throws IOException, CheckpointException {
        final Path program = CriuCommand.findHelper(PROGRAM);
        if (program == null) {
            throw new CheckpointException(PROGRAM + " is not there: build the project again");
        }
        return new TcpHold(new ProcessBuilder(program.toString()).redirectError(ProcessBuilder.Redirect.DISCARD).start());
    }

    /** They make room for all that their other ends have left to send. */
    void open(final List<Socket> sockets) throws IOException, CheckpointException, InterruptedException {
        ask(commands("open", sockets) + "tell\n", "told");
    }

    /** Those that make room tell so to their other ends, again when more has come meanwhile. */
    void tell() throws IOException, CheckpointException, InterruptedException {
        ask("tell\n", "told");
    }

    /** From now on they take in nothing. */
    void hold(final List<Socket> sockets) throws IOException, CheckpointException, InterruptedException {
        ask(commands("take", sockets) + "hold\n", "held");
    }

    private static String commands(final String name, final List<Socket> sockets) {
        final StringBuilder commands = new StringBuilder();
        sockets.forEach(socket -> commands.append(name).append(' ').append(socket.pid()).append(' ').append(socket.fd())
                .append(' ').append(socket.inode()).append('\n'));
        return commands.toString();
    }

    /** The inodes of those that ask whether the other end is alive, and do not now: an image has them as they are now. */
    List<Long> alive() {
        return alive;
    }

    /** Their processes are to be killed, and the ends of their connections are to be told to nobody. */
    void drop() throws IOException, CheckpointException, InterruptedException {
        ask("drop\n", "dropped");
    }

    private void ask(final String commands, final String expected)
            throws IOException, CheckpointException, InterruptedException {
        final BufferedReader answers = process.inputReader(StandardCharsets.UTF_8);
        final CompletableFuture<String> answer = new CompletableFuture<>();
        Thread.ofVirtual().start(() -> {
            try {
                answer.complete(answer(answers));
            } catch (final IOException e) {
                answer.completeExceptionally(e);
            }
        });
        try {
            process.getOutputStream().write(commands.getBytes(StandardCharsets.UTF_8));
            process.getOutputStream().flush();
        } catch (final IOException e) {
            answer.complete(null); // It has ended at an earlier command; what it has said counts more.
        }
        final String line;
        try {
            line = answer.get(ANSWER_SECONDS, TimeUnit.SECONDS);
        } catch (final TimeoutException e) {
            throw new CheckpointException("TCP connections could not be held within " + ANSWER_SECONDS + " s", e);
        } catch (final ExecutionException e) {
            throw new IOException(e.getCause());
        }
        if (line == null || !line.startsWith(expected)) {
            throw new CheckpointException("TCP connections could not be held: " + (line == null ? PROGRAM + " has ended" : line));
        }
    }

    private String answer(final BufferedReader answers) throws IOException {
        String line = answers.readLine();
        while (line != null && line.startsWith(ALIVE)) {
            alive.add(Long.parseLong(line.substring(ALIVE.length())));
            line = answers.readLine();
        }
        return line;
    }

    /** Lets them go on. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(ANSWER_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (final IOException e) {
            return; // It has ended.
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt(); // It ends by itself.
        }
    }
}
