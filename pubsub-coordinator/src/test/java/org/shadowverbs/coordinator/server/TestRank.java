// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.BufferedReader;
import java.io.FileReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.client.CheckAnswer;
import org.shadowverbs.coordinator.client.CheckQuestion;
import org.shadowverbs.coordinator.client.CheckpointAborted;
import org.shadowverbs.coordinator.client.CheckpointRequest;
import org.shadowverbs.coordinator.client.Command;
import org.shadowverbs.coordinator.client.Contribution;
import org.shadowverbs.coordinator.client.LinkLost;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.ProgramAnswer;
import org.shadowverbs.coordinator.client.RankHello;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.coordinator.client.Reply;
import org.shadowverbs.coordinator.client.Shutdown;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.client.WayBack;
import org.shadowverbs.coordinator.client.WorkQuestion;

/** A rank that holds nothing but goes through all phases as a real one does. Its process is a sleeping child. */
final class TestRank implements AutoCloseable {
    /** What a test has a rank do right before an exchange. */
    interface Before {
        void exchange(TestRank rank, Phase phase, int round) throws IOException;
    }

    interface Brings {
        Contribution to(Phase phase, int round, boolean agree);
    }

    final String uid;
    final Process process;
    final CompletableFuture<Integer> number = new CompletableFuture<>();
    final List<Reply> replies = new CopyOnWriteArrayList<>();
    final List<Verdict> verdicts = new CopyOnWriteArrayList<>();
    final List<CheckpointAborted> aborts = new CopyOnWriteArrayList<>();
    /** One element each time its gate opens again. */
    final BlockingQueue<Long> opened = new LinkedBlockingQueue<>();
    /** What the coordinator has said of checkpoints that its program asked for. */
    final BlockingQueue<ProgramAnswer> answers = new LinkedBlockingQueue<>();
    /** What others have told it: "number: text". */
    final BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    final BlockingQueue<String> ended = new LinkedBlockingQueue<>();
    final List<CheckpointRequest> requests = new CopyOnWriteArrayList<>();
    volatile int drainRounds = 2;
    /** In so many rounds of ANNOUNCE its program is in a section that is kept free of checkpoints. */
    volatile int outsideAfter;
    /** Whether its queue pairs are at CLOSE what they were at ANNOUNCE. */
    volatile boolean asAnnounced = true;
    /** Whether its devices may stay open. */
    volatile boolean keepsDevices;
    volatile Before before = (rank, phase, round) -> { };
    /** What it brings to an exchange. */
    volatile Brings brings = this::state;
    /** What it knows of a checkpoint; null: it does not answer. */
    volatile CheckAnswer outlook = new CheckAnswer(List.of(), Set.of(), Map.of(), "");
    /** What it says it has done. */
    volatile long work;
    volatile RankLink link;

    private final Path socket;

    TestRank(final String uid, final Path socket) throws IOException {
        this.uid = uid;
        this.socket = socket;
        process = new ProcessBuilder("sleep", "1000").start();
        Thread.ofPlatform().daemon().name("rank " + uid).start(this::run);
    }

    private void run() {
        try {
            link = RankLink.connect(socket, hello(0, RankHello.State.FRESH), Duration.ofSeconds(20), this::hear);
            number.complete(link.rank());
            for (;;) {
                final Command command = link.next();
                switch (command) {
                    case CheckpointRequest r -> checkpoint(r);
                    case WorkQuestion q -> link.answer(q, work);
                    case CheckQuestion q -> {
                        if (outlook != null) {
                            link.answer(q, outlook);
                        }
                    }
                    case ProgramAnswer a -> answers.add(a);
                    case LinkLost l -> {
                        ended.add("lost: " + l.reason());
                        return;
                    }
                    case Shutdown s -> {
                        ended.add("shutdown: " + s.reason());
                        return;
                    }
                }
            }
        } catch (IOException | InterruptedException e) {
            number.completeExceptionally(e);
            ended.add(e.toString());
        }
    }

    private void hear(final int from, final byte[] what) {
        heard.add(from + ": " + new String(what, StandardCharsets.UTF_8));
    }

    private RankHello hello(final long epoch, final RankHello.State state) {
        return new RankHello(uid, process.pid(), process.pid(), "test", epoch, state, -1);
    }

    private void checkpoint(final CheckpointRequest r) throws IOException {
        try {
            requests.add(r);
            int announced = 0;
            while (!exchange(r.epoch(), Phase.ANNOUNCE, announced, announced >= outsideAfter).unanimous()) {
                announced++;
            }
            if (!exchange(r.epoch(), Phase.CLOSE, 0, asAnnounced).unanimous()) {
                exchange(r.epoch(), Phase.CLOSE, 1, true);
                exchange(r.epoch(), Phase.PAIRED, 0, true);
            }
            int round = 0;
            while (!exchange(r.epoch(), Phase.DRAIN, round, round + 1 >= drainRounds).unanimous()) {
                round++;
            }
            final boolean attached = exchange(r.epoch(), Phase.DETACH, 0, keepsDevices).unanimous()
                    || exchange(r.epoch(), Phase.DETACH, 1, keepsDevices).unanimous()
                            && exchange(r.epoch(), Phase.DETACH, 2, true).unanimous();
            try (BufferedReader pipe = new BufferedReader(
                    new FileReader(link.verdictPipe().toFile(), StandardCharsets.UTF_8))) {
                before.exchange(this, null, 0);
                link.detached(r.epoch());
                link.close();
                final String line = pipe.readLine();
                if (line == null) {
                    throw new IOException("the agent ended without a verdict");
                }
                final Verdict verdict = Verdict.parse(line);
                verdicts.add(verdict);
                link = RankLink.connect(verdict.agent(), hello(verdict.epoch(), RankHello.State.REATTACHING),
                        Duration.ofSeconds(20), this::hear);
            }
            if (attached) {
                link.done(r.epoch(), 0);
                opened.add(r.epoch());
                return;
            }
        } catch (CheckpointAborted e) {
            aborts.add(e);
            if (!e.reattach()) {
                link.done(r.epoch(), 0);
                opened.add(r.epoch());
                return;
            }
        }
        reattach(r.epoch());
    }

    private void reattach(final long epoch) throws IOException {
        final WayBack back = new WayBack(link, epoch, before -> {
            before.close();
            return link = connect(epoch, RankHello.State.REATTACHING);
        });
        for (;;) {
            try {
                for (final Phase phase : Phase.values()) {
                    if (phase.reattaches()) {
                        before.exchange(this, phase, 0);
                        replies.add(back.exchange(phase, brings.to(phase, 0, true)));
                    }
                }
                break;
            } catch (CheckpointAborted e) {
                aborts.add(e);
            }
        }
        link.done(epoch, 0);
        opened.add(epoch);
    }

    private RankLink connect(final long epoch, final RankHello.State state) throws IOException {
        return RankLink.connect(socket, hello(epoch, state), Duration.ofSeconds(20), this::hear);
    }

    private Reply exchange(final long epoch, final Phase phase, final int round, final boolean agree)
            throws CheckpointAborted, IOException {
        before.exchange(this, phase, round);
        final Reply reply = link.exchange(epoch, phase, round, brings.to(phase, round, agree));
        replies.add(reply);
        return reply;
    }

    private Contribution state(final Phase phase, final int round, final boolean agree) {
        final byte[] value = (uid + " " + phase + " " + round).getBytes(StandardCharsets.UTF_8);
        return new Contribution(Map.of("state-" + uid, value), Set.of("state-a", "state-b"), agree, "QP 7 of a peer");
    }

    int number() throws Exception {
        return number.get(20, TimeUnit.SECONDS);
    }

    /** Waits until its gate has opened after that epoch. */
    void awaitOpen(final long epoch) throws InterruptedException {
        final Long got = opened.poll(40, TimeUnit.SECONDS);
        if (got == null || got != epoch) {
            throw new AssertionError("rank " + uid + " did not open its gate after epoch " + epoch + " but " + got
                    + "; ended " + ended + ", aborts " + aborts);
        }
    }

    /** One that waits right before a phase. */
    static final class Held {
        private final CompletableFuture<Void> reached = new CompletableFuture<>();
        private final CompletableFuture<Void> go = new CompletableFuture<>();

        /** Until it has come there. */
        void await() throws Exception {
            reached.get(20, TimeUnit.SECONDS);
        }

        /** From here on it does not wait any more. */
        void goOn() {
            go.complete(null);
        }
    }

    /** Has it wait before that phase, for at most 30 s. */
    Held holdBefore(final Phase where) {
        final Held held = new Held();
        before = (rank, phase, round) -> {
            if (phase == where && !held.go.isDone()) {
                held.reached.complete(null);
                held.go.orTimeout(30, TimeUnit.SECONDS).join();
            }
        };
        return held;
    }

    void die() {
        process.destroyForcibly();
        link.close();
    }

    @Override
    public void close() {
        process.destroyForcibly();
        if (link != null) {
            link.close();
        }
    }
}
