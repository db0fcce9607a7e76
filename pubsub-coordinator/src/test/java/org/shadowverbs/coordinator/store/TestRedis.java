// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A Redis server of a test's own, on a free port, without persistence: what it had is lost when it is stopped. */
public final class TestRedis implements AutoCloseable {
    private static final int DEADLINE_SECONDS = 60;

    private final Path folder = Files.createTempDirectory("sv-redis");
    private final List<String> options;
    private final boolean tls;
    private final int port;
    private Process server;

    public TestRedis(final String... options) throws IOException, InterruptedException {
        this(false, List.of(options));
    }

    private TestRedis(final boolean tls, final List<String> options) throws IOException, InterruptedException {
        this.tls = tls;
        this.options = new ArrayList<>(options);
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = free.getLocalPort();
        }
        if (tls) {
            certificates();
        }
        start();
    }

    /** With certificates made for it, which a client is to be told of: {@link #ca}. */
    public static TestRedis withTls() throws IOException, InterruptedException {
        return new TestRedis(true, List.of());
    }

    private void certificates() throws IOException, InterruptedException {
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test ca", "-keyout", "ca.key", "-out",
                "ca.pem");
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr");
        Files.writeString(folder.resolve("names"), "subjectAltName=DNS:localhost");
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile",
                "names", "-out", "server.pem");
    }

    private void openssl(final String... arguments) throws IOException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of("openssl"));
        command.addAll(List.of(arguments));
        final Path said = folder.resolve("openssl.log");
        final Process openssl = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true)
                .redirectOutput(said.toFile()).start();
        if (!openssl.waitFor(DEADLINE_SECONDS, TimeUnit.SECONDS) || openssl.exitValue() != 0) {
            throw new IOException(String.join(" ", command) + ": " + Files.readString(said));
        }
    }

    /** The certificates that its own comes from. */
    public Path ca() {
        return folder.resolve("ca.pem");
    }

    /** Starts it again after {@link #stop}, with nothing in it. */
    public void start() throws IOException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of("redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                "--dir", folder.toString()));
        command.addAll(tls ? List.of("--port", "0", "--tls-port", Integer.toString(port), "--tls-cert-file", "server.pem",
                "--tls-key-file", "server.key", "--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "no")
                : List.of("--port", Integer.toString(port)));
        command.addAll(options);
        final Path log = folder.resolve("log");
        Files.deleteIfExists(log);
        server = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true).redirectOutput(log.toFile()).start();
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        while (!Files.readString(log).contains("Ready to accept connections")) {
            if (!server.isAlive() || System.nanoTime() > end) {
                throw new IOException("redis-server was not ready within " + DEADLINE_SECONDS + " s: " + Files.readString(log));
            }
            Thread.sleep(5);
        }
    }

    public StorePlace place() {
        return place("");
    }

    public StorePlace place(final String password) {
        return StorePlace.of((tls ? "rediss" : "redis") + "://localhost:" + port, password, tls ? ca().toString() : "");
    }

    /** As a user names it. */
    public Map<String, String> environment() {
        return place().environment();
    }

    /** It neither ends nor answers. */
    public void pause() throws IOException, InterruptedException {
        signal("STOP");
    }

    public void resume() throws IOException, InterruptedException {
        signal("CONT");
    }

    private void signal(final String name) throws IOException, InterruptedException {
        if (new ProcessBuilder("kill", "-" + name, Long.toString(server.pid())).start().waitFor() != 0) {
            throw new IOException("redis-server could not be sent SIG" + name);
        }
    }

    public void stop() throws InterruptedException {
        server.destroyForcibly();
        server.waitFor();
    }

    /** What redis-cli says to a command. */
    public String ask(final String... command) throws IOException, InterruptedException {
        final List<String> all = new ArrayList<>(List.of("redis-cli", "-p", Integer.toString(port)));
        all.addAll(List.of(command));
        final Process cli = new ProcessBuilder(all).redirectErrorStream(true).start();
        final String said = new String(cli.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        cli.waitFor();
        return said.strip();
    }

    @Override
    public void close() throws IOException {
        server.destroyForcibly();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
            for (final Path file : files) {
                Files.delete(file);
            }
        }
        Files.delete(folder);
    }
}
