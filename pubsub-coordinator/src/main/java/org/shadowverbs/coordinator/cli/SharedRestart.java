// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.shadowverbs.coordinator.levels.Resolution;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.Portions;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.Line;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.protocol.RestartMessages.Portion;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartEnd;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartJoin;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartShare;
import org.shadowverbs.coordinator.protocol.RestartMessages.Share;

/** This host's part in a restart on several hosts: its connection to the coordinator until the job runs. */
final class SharedRestart implements AutoCloseable {
    private static final int CONNECT_MILLIS = 5_000;
    // The coordinator gives up before, and can say which host it waited for: these are for one that says nothing.
    private static final Duration GATHERING = Duration.ofMinutes(11);
    private static final Duration VERIFYING = Duration.ofMinutes(31);
    private static final Duration RUNNING = Duration.ofHours(1);

    private final FrameChannel channel;
    private final Manifest manifest;
    private final CompletableFuture<Shared> share = new CompletableFuture<>();
    /** Done with what went wrong, on whichever host, or with an empty text when the job runs. */
    private final CompletableFuture<String> end = new CompletableFuture<>();

    /**
     * What a restart on several hosts comes to.
     *
     * @param own what this host restores
     * @param relocation where all of it is then
     */
    record Shared(Manifest own, Relocation relocation) {
    }

    private SharedRestart(final FrameChannel channel, final Manifest manifest) {
        this.channel = channel;
        this.manifest = manifest;
    }

    /** @param from the source hosts that this one is to take over; empty: what is left for it */
    static SharedRestart join(final Address address, final String host, final int hosts, final List<String> from,
            final Path folder, final Manifest manifest) throws CommandException, IOException {
        final List<Portion> portions = new ArrayList<>();
        final Resolution levels = RestartCommand.levels(folder, manifest, line -> { });
        for (final Manifest.HostPart part : Portions.of(manifest)) {
            portions.add(new Portion(part.host(), part.ranks().stream().map(Manifest.RankPart::number).toList(),
                    levels.isHere(part)));
        }
        final SharedRestart restart = new SharedRestart(FrameChannel.connect(
                new InetSocketAddress(address.host(), address.port()), CONNECT_MILLIS), manifest);
        restart.channel.write(new RestartJoin(FrameType.VERSION, address.secret(), host, ProcessHandle.current().pid(),
                hosts, folder.getFileName().toString(), manifest.checksum(), portions, from, HostAddress.ofThisHost().stream()
                        .map(a -> new NetAddress(a.device(), a.address())).toList()));
        Thread.ofVirtual().name("restart").start(restart::listen);
        return restart;
    }

    private void listen() {
        String why = "the coordinator was lost before the job ran";
        try {
            for (;;) {
                final Message message = channel.read();
                switch (message) {
                    case Line line -> System.err.println("shadowverbs: " + line.text());
                    case RestartShare s -> share.complete(shared(s));
                    case RestartEnd e -> {
                        end.complete(e.problem());
                        return;
                    }
                    case Refused r -> {
                        end.complete("the coordinator refuses: " + r.reason());
                        return;
                    }
                    default -> throw new ProtocolException("message of type " + message.type() + " in a restart");
                }
            }
        } catch (ProtocolException e) {
            why = e.getMessage();
        } catch (IOException | RuntimeException e) {
            why += " (" + e + ")";
        } finally {
            end.complete(why);
        }
    }

    private Shared shared(final RestartShare dealt) throws ProtocolException {
        final List<Manifest.HostPart> portions = Portions.of(manifest);
        final List<Relocation.Target> targets = new ArrayList<>();
        for (final Share s : dealt.shares()) {
            targets.add(new Relocation.Target(s.host(),
                    s.addresses().stream().map(a -> new HostAddress(a.device(), a.address())).toList(),
                    Portions.only(manifest, s.portions().stream().map(portions::get).toList())));
        }
        if (dealt.own() < 0 || dealt.own() >= targets.size()) {
            throw new ProtocolException("share " + dealt.own() + " of " + targets.size());
        }
        return new Shared(targets.get(dealt.own()).share(), Relocation.of(manifest, targets));
    }

    /** Waits for all hosts to come, and says what this one is to restore. */
    Shared share() throws CommandException {
        return waitFor(share, end, GATHERING, "the coordinator to deal out the shares of the hosts");
    }

    /** Waits until this host may begin. */
    void await(final CompletableFuture<Void> mayRestore) throws CommandException {
        waitFor(mayRestore, end, VERIFYING, "the coordinator to say that all hosts have verified their images");
    }

    /** @param end ends the waiting, too, with what went wrong */
    static <T> T waitFor(final CompletableFuture<T> what, final CompletableFuture<String> end, final Duration deadline,
            final String name) throws CommandException {
        try {
            CompletableFuture.anyOf(what, end).orTimeout(deadline.toMillis(), TimeUnit.MILLISECONDS).join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof TimeoutException) {
                throw new CommandException("restart: waited " + deadline.toSeconds() + " s for " + name);
            }
            throw new CommandException("restart: " + e.getCause());
        }
        if (!what.isDone()) {
            throw new CommandException("restart: " + end.join());
        }
        return what.join();
    }

    /**
     * Waits until all ranks of all hosts are connected again.
     *
     * @param running what this host's agent is told
     * @param shared null: there is no other host
     */
    static void awaitRunning(final CompletableFuture<String> running, final SharedRestart shared) throws CommandException {
        final CompletableFuture<String> end = shared == null ? running : shared.end;
        final String problem = waitFor(end, end, RUNNING, "the coordinator to say that the job runs");
        if (!problem.isEmpty()) {
            throw new CommandException("restart: " + problem);
        }
    }

    /** Tells the others that this host can't. */
    void fail(final String why) throws IOException {
        channel.write(new RestartEnd(why));
    }

    @Override
    public void close() {
        channel.close();
    }
}
