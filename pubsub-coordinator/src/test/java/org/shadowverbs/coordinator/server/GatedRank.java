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
import org.shadowverbs.coordinator.client.Attachment;
import org.shadowverbs.coordinator.client.CheckAnswer;
import org.shadowverbs.coordinator.client.CheckQuestion;
import org.shadowverbs.coordinator.client.CheckpointAborted;
import org.shadowverbs.coordinator.client.CheckpointRequest;
import org.shadowverbs.coordinator.client.Command;
import org.shadowverbs.coordinator.client.Contribution;
import org.shadowverbs.coordinator.client.LinkLost;
import org.shadowverbs.coordinator.client.LinkLostException;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.RankHello;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.coordinator.client.Reply;
import org.shadowverbs.coordinator.client.Shutdown;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.client.WayBack;

/**
 * A rank with a gate and nothing behind it, which does with its link what the driver's CheckpointThread and Checkpoint do, and
 * has something happen to it at every step. Its process is a sleeping child.
 */
final class GatedRank implements AutoCloseable {
    /** Where something may happen to a rank: before an exchange, on its way to its verdict, before it opens its gate. */
    enum Point {
        ANNOUNCE, CLOSE, PAIRED, DRAIN, DETACH, DETACHED, VERDICT, PUBLISHED, CONNECTED, RECEIVES_POSTED, REPLAYED, OPENING;

        static Point of(final Phase phase) {
            return valueOf(phase.name());
        }
    }

    /** What a test does to it, on its own thread. */
    interface Happening {
        void at(GatedRank rank, Point point) throws IOException, Cannot;
    }

    /** It can't go on. */
    static final class Cannot extends Exception {
        private static final long serialVersionUID = 1L;

        Cannot(final String message) {
            super(message);
        }
    }

    enum Gate {
        OPEN, UNTOUCHED, CLOSED
    }

    /** What becomes of its devices while the image is made, if it is asked alone. */
    enum Devices {
        STAY, STAY_WHEN_ALL_HAVE_RESET, ARE_CLOSED
    }

    /** How it has come back to work. */
    enum Way {
        ATTACHED, ANEW
    }

    private static final Duration CONNECT = Duration.ofSeconds(20);

    final String uid;
    final Process process;
    private final Path socket;
    private final Happening happening;
    private final Devices devices;
    private final Thread thread;

    volatile RankLink link;
    volatile int number = -1;
    volatile Gate gate = Gate.OPEN;
    /** Its process has ended, or is about to. */
    volatile boolean gone;
    /** The epoch that it last came out of with its queue pairs in error, and why. */
    volatile long brokenIn;
    volatile String broken;
    private String refused = "";
    volatile long epoch;
    /** In the last epoch; null: by neither. */
    volatile Way way;
    private boolean undecided;
    private boolean attached;
    volatile Throwable crashed;
    private volatile boolean closing;

    GatedRank(final String uid, final Path socket, final Devices devices, final Happening happening) throws IOException {
        this.uid = uid;
        this.socket = socket;
        this.devices = devices;
        this.happening = happening;
        process = new ProcessBuilder("sleep", "1000").start();
        thread = Thread.ofPlatform().daemon().name("rank " + uid).start(this::run);
    }

    private void run() {
        try {
            while (!gone && !closing) {
                try {
                    stayLinked();
                    return;
                } catch (LinkLostException e) {
                    drop();
                }
            }
        } catch (IOException | InterruptedException | RuntimeException | Error e) {
            if (!gone && !closing) {
                crashed = e;
            }
        }
    }

    /** Until the job is over. */
    private void stayLinked() throws IOException, InterruptedException {
        for (;;) {
            if (link == null) {
                link = connect(RankHello.State.FRESH);
                number = link.rank();
                tellEnding();
            }
            final Command command = link.next();
            if (command instanceof CheckpointRequest r) {
                epoch = r.epoch();
                refused = "";
                way = null;
                undecided = false;
                attached = false;
                checkpoint();
                tellEnding();
            } else if (command instanceof LinkLost lost) {
                throw new LinkLostException(lost.reason());
            } else if (command instanceof CheckQuestion question) {
                link.answer(question, new CheckAnswer(List.of(), Set.of(), Map.of(), ""));
            } else if (command instanceof Shutdown) {
                return;
            }
        }
    }

    private void drop() {
        final RankLink lost = link;
        link = null;
        if (lost != null) {
            lost.close();
        }
    }

    private RankLink connect(final RankHello.State state) throws IOException {
        for (;;) {
            if (gone) {
                throw new IOException("is no more");
            }
            try {
                return RankLink.connect(socket, new RankHello(uid, process.pid(), process.pid(), "test", epoch, state, -1),
                        CONNECT, (from, what) -> { });
            } catch (LinkLostException e) {
                continue; // as long as there is no agent
            }
        }
    }

    private void tellEnding() throws IOException {
        if (epoch != 0) {
            if (brokenIn == epoch) {
                link.fail(epoch, Phase.PUBLISHED, broken);
            } else if (!refused.isEmpty()) {
                link.fail(epoch, Phase.CLOSE, refused);
            }
            link.done(epoch, 0);
        }
    }

    // ---- a checkpoint ----

    private void checkpoint() {
        try {
            if (prepare() && drain()) {
                detach();
            }
        } catch (IOException | Cannot | RuntimeException e) {
            if (gate == Gate.CLOSED) {
                cannotGoBack(String.valueOf(e.getMessage()));
            } else {
                refused = String.valueOf(e.getMessage());
            }
        }
        gate = Gate.OPEN;
    }

    private boolean prepare() throws IOException {
        Phase phase = Phase.ANNOUNCE;
        try {
            exchange(phase, 0, true);
            gate = Gate.UNTOUCHED;
            phase = Phase.CLOSE;
            if (!exchange(phase, 0, epoch % 2 == 0).unanimous()) { // queue pairs have changed since, or not
                exchange(phase, 1, true);
                phase = Phase.PAIRED;
                exchange(phase, 0, true);
            }
            gate = Gate.CLOSED;
            return true;
        } catch (Cannot e) {
            if (!giveUp(phase, e.getMessage())) {
                return false;
            }
        } catch (CheckpointAborted e) {
            if (!e.reattach()) {
                return false;
            }
        } catch (LinkLostException e) {
            return false;
        }
        gate = Gate.CLOSED;
        backToWork();
        return false;
    }

    private boolean drain() throws IOException {
        Phase phase = Phase.DRAIN;
        try {
            try {
                exchange(Phase.DRAIN, 0, false);
                exchange(Phase.DRAIN, 1, true);
                phase = Phase.DETACH;
                agree();
                return true;
            } catch (Cannot e) {
                giveUp(phase, e.getMessage());
            }
        } catch (CheckpointAborted e) {
            backToWork();
            return false;
        } catch (LinkLostException e) {
            reconnect(link);
            learnAgreement();
        }
        backToWork();
        return false;
    }

    private void agree() throws IOException, CheckpointAborted, Cannot {
        undecided = true;
        if (exchange(Phase.DETACH, 0, devices == Devices.STAY).unanimous()) {
            attached = true;
        } else if (exchange(Phase.DETACH, 1, devices != Devices.ARE_CLOSED).unanimous()) {
            exchange(Phase.DETACH, 2, true);
            attached = true;
        }
    }

    private void learnAgreement() throws IOException {
        while (undecided && !attached) {
            try {
                attached = !link.lookup(Set.of(Attachment.AGREED), CONNECT).isEmpty();
                return;
            } catch (LinkLostException e) {
                reconnect(link);
            }
        }
    }

    private boolean giveUp(final Phase phase, final String reason) throws IOException {
        link.fail(epoch, phase, reason);
        try {
            for (int round = 0;; round++) {
                link.exchange(epoch, phase, Integer.MAX_VALUE - round, new Contribution(Map.of(), Set.of(), false, reason));
            }
        } catch (CheckpointAborted e) {
            return e.reattach();
        }
    }

    private void detach() throws IOException, Cannot {
        happening.at(this, Point.DETACHED);
        String line = null;
        try (BufferedReader pipe = new BufferedReader(
                new FileReader(link.verdictPipe().toFile(), StandardCharsets.UTF_8))) {
            try {
                link.detached(epoch);
                link.close();
                line = pipe.readLine();
            } catch (LinkLostException e) {
                link.close(); // there is no agent that could write
            }
        }
        if (line != null) {
            Verdict.parse(line);
        }
        happening.at(this, Point.VERDICT);
        if (attached) {
            goOn();
        }
        reconnect(link);
        backToWork();
    }

    private void goOn() {
        way = Way.ATTACHED;
        gate = Gate.OPEN;
    }

    private void backToWork() throws IOException {
        if (attached) {
            goOn();
            return;
        }
        way = Way.ANEW;
        final WayBack way = new WayBack(link, epoch, this::reconnect);
        for (;;) {
            try {
                for (final Phase phase : Phase.values()) {
                    if (phase.reattaches()) {
                        happening.at(this, Point.of(phase));
                        way.exchange(phase, new Contribution(Map.of(), Set.of(), true, ""));
                    }
                }
                happening.at(this, Point.OPENING);
                gate = Gate.OPEN;
                return;
            } catch (CheckpointAborted e) {
                continue;
            } catch (LinkLostException e) {
                way.reconnect();
            } catch (Cannot e) {
                cannotGoBack(e.getMessage());
                return;
            }
        }
    }

    private void cannotGoBack(final String reason) {
        brokenIn = epoch;
        broken = reason;
        try {
            link.fail(epoch, Phase.PUBLISHED, reason);
        } catch (IOException e) {
            // It is said again by the next link.
            gate = Gate.OPEN;
        }
        gate = Gate.OPEN;
    }

    private RankLink reconnect(final RankLink before) throws IOException {
        before.close();
        link = connect(RankHello.State.REATTACHING);
        return link;
    }

    private Reply exchange(final Phase phase, final int round, final boolean agree)
            throws CheckpointAborted, IOException, Cannot {
        happening.at(this, Point.of(phase));
        return link.exchange(epoch, phase, round, new Contribution(Map.of(), Set.of(), agree, ""));
    }

    // ---- what happens to it ----

    void die() {
        gone = true;
        process.destroyForcibly();
        breakLink();
    }

    /** Ends by itself. */
    void leave() throws IOException {
        gone = true;
        try {
            link.goodbye(0);
        } finally {
            process.destroyForcibly();
            breakLink();
        }
    }

    void breakLink() {
        final RankLink now = link;
        if (now != null) {
            now.close();
        }
    }

    boolean lives() {
        return !gone;
    }

    @Override
    public String toString() {
        return uid + " (rank " + number + ", gate " + gate + (gone ? ", gone" : "") + (broken == null ? "" : ", broken in "
                + brokenIn + ": " + broken) + (crashed == null ? "" : ", crashed: " + crashed) + ")";
    }

    @Override
    public void close() {
        closing = true;
        gone = true;
        process.destroyForcibly();
        breakLink();
        thread.interrupt();
    }
}
