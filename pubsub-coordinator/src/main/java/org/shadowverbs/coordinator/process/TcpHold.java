// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** TCP connections of stopped processes that take in nothing until this is closed: tcp-hold.c, seen from outside. */
final class TcpHold implements AutoCloseable {
    private static final String PROGRAM = "shadowverbs-tcp-hold";
    private static final long ANSWER_SECONDS = 20;
    /** Longer than it takes to give up a connection that is to be made again. */
    private static final long END_SECONDS = 30;
    private static final String ALIVE = "alive ";
    private static final String WAITS = "waits ";
    private static final String ERROR = "error ";
    private static final String NOTHING = "-";

    private final Process process;
    private final List<Long> alive = new ArrayList<>();
    private final List<Had> accepted = new ArrayList<>();

    /**
     * A socket.
     *
     * @param pid   a process of this host that has it
     * @param fd    as which descriptor
     * @param inode its inode
     */
    record Socket(long pid, int fd, long inode) {
    }

    /**
     * A socket that listens.
     *
     * @param room how many connections its queue is to have room for at least
     */
    record Listener(Socket socket, int room) {
    }

    /**
     * What the listener's end of a connection has had that no program has accepted.
     *
     * @param number     of the connection, counted from 0; {@link #ELSEWHERE}: the listener is on another host
     * @param connection as its client has it
     * @param sequence   of the byte that is expected next
     */
    record Had(int number, TcpConnection connection, long sequence, byte[] data) {
        private static final int ELSEWHERE = -1;

        static Had elsewhere(final TcpConnection connection, final long sequence, final byte[] data) {
            return new Had(ELSEWHERE, connection, sequence, data);
        }
    }

    /**
     * A connection that is to be made again.
     *
     * @param connection as its client has it
     * @param client     the client's socket; null: its program has closed it
     * @param had        null: nothing has come to the listener's end
     */
    record Again(TcpConnection connection, Socket client, Had had) {
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

    /** From now on they take in nothing, and nothing comes to the listeners. */
    void hold(final List<Socket> sockets, final List<Listener> listeners)
            throws IOException, CheckpointException, InterruptedException {
        final StringBuilder commands = new StringBuilder(commands("take", sockets));
        listeners.forEach(listener -> commands.append("listen ").append(name(listener.socket())).append(' ')
                .append(listener.room()).append('\n'));
        ask(commands + "hold\n", "held");
    }

    /** Takes the connections out of the listeners' queues. Those that nobody makes {@link #again} are reset at the end. */
    List<Had> accept() throws IOException, CheckpointException, InterruptedException {
        ask("accept\n", "accepted");
        return accepted;
    }

    /** These connections are made again when they all go on. */
    void again(final List<Again> connections) throws IOException, CheckpointException, InterruptedException {
        final StringBuilder commands = new StringBuilder();
        for (final Again one : connections) {
            final TcpConnection ends = one.connection();
            if (one.client() == null) {
                commands.append("closed ").append(ends.localAddress()).append(' ').append(ends.localPort()).append(' ')
                        .append(ends.remoteAddress()).append(' ').append(ends.remotePort());
            } else {
                commands.append("again ").append(name(one.client())).append(' ')
                        .append(one.had() == null ? NOTHING : Long.toString(one.had().sequence()));
            }
            final boolean data = one.had() != null && one.had().data().length > 0;
            commands.append(' ').append(data ? HexFormat.of().formatHex(one.had().data()) : NOTHING).append('\n');
            if (one.had() != null && one.had().number() != Had.ELSEWHERE) {
                commands.append("passed ").append(one.had().number()).append('\n');
            }
        }
        ask(commands + "check\n", "ready");
    }

    private static String name(final Socket socket) {
        return socket.pid() + " " + socket.fd() + " " + socket.inode();
    }

    private static String commands(final String name, final List<Socket> sockets) {
        final StringBuilder commands = new StringBuilder();
        sockets.forEach(socket -> commands.append(name).append(' ').append(name(socket)).append('\n'));
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
        for (String line = answers.readLine();; line = answers.readLine()) {
            if (line != null && line.startsWith(ALIVE)) {
                alive.add(Long.parseLong(line.substring(ALIVE.length())));
            } else if (line != null && line.startsWith(WAITS)) {
                accepted.add(had(line.split(" ")));
            } else {
                return line;
            }
        }
    }

    /** Of the words: waits NUMBER LOCAL PORT REMOTE PORT SEQUENCE FINISHED DATA, with the ends as the listener has them. */
    private static Had had(final String[] word) throws IOException {
        final TcpConnection listeners = new TcpConnection(numeric(word[2]), Integer.parseInt(word[3]), numeric(word[4]),
                Integer.parseInt(word[5]));
        return new Had(Integer.parseInt(word[1]), listeners.mirrored(), Long.parseLong(word[6]),
                word[8].equals(NOTHING) ? new byte[0] : HexFormat.of().parseHex(word[8]));
    }

    /** As all addresses are written here. */
    private static String numeric(final String address) throws IOException {
        return HostAddress.numeric(InetAddress.ofLiteral(address));
    }

    /** Lets them go on. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
            process.inputReader(StandardCharsets.UTF_8).lines().filter(line -> line.startsWith(ERROR))
                    .forEach(line -> System.err.println("shadowverbs: " + line.substring(ERROR.length())));
        } catch (final IOException e) {
            return; // It has ended.
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt(); // It ends by itself.
        }
    }
}
