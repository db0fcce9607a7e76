// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * One queue pair of a reliable connection as the hardware and the preload library's log would have it, for testing the
 * drain's policy: requests execute at the peer in order, answers come back in order and later, a consumer waits for a
 * receive at the peer, only signaled requests complete. Knows, other than the policy, what has really taken effect.
 */
public final class SimulatedEnd implements DrainPolicy.SendLog, Pool.User {
    static final int READ = 4;
    static final int FETCH_ADD = 6;
    private static final int WR_FLUSH_ERR = 5;

    /** A posted send request. */
    public record Sent(int opcode, boolean signaled, int srq) {
        public Sent(final int opcode, final boolean signaled) {
            this(opcode, signaled, 0);
        }

        boolean consumer() {
            return opcode == DrainPolicy.SEND || opcode == DrainPolicy.SEND_WITH_IMM
                    || opcode == DrainPolicy.SEND_WITH_INV || opcode == DrainPolicy.RDMA_WRITE_WITH_IMM;
        }

        boolean hasAnswer() {
            return opcode == READ || opcode == FETCH_ADD;
        }
    }

    /** A receive, or a landing, that a message of the peer has taken: in the queue of that number. */
    record Taken(int queue, boolean landing) {
    }

    final String name;
    /** The queue pair's, of XRC. */
    int number;
    public final List<Sent> sent = new ArrayList<>();
    SimulatedEnd peer;
    /** Null: a receive queue of its own, or of XRC. */
    SimulatedPool pool;
    /** Of XRC, receiving; else null. */
    SimulatedDomain domain;
    SimulatedDomain.Member owner;
    boolean unacknowledged;
    /** In SQD: how many requests had been begun; the others are held. */
    int begun = Integer.MAX_VALUE;

    // The truth: a prefix has been executed at the peer, a prefix of that has been answered.
    int executed;
    int answered;
    int receivesPosted;
    int landingsPosted;
    final List<Taken> taken = new ArrayList<>();
    /** In the error state: sends nothing, answers nothing. */
    boolean dead;
    boolean markerOnWire;
    boolean remoteWrite;
    int errorStatus;
    int errorAt = -1;

    // What the library has seen so far.
    public int retired;
    int received;
    int marker;
    boolean errorSeen;
    boolean errorSettled;

    public final DrainPolicy.End end = new DrainPolicy.End();
    DrainPolicy.Decision decision = DrainPolicy.Decision.of(DrainPolicy.Action.WAIT, "");
    boolean granted;
    DrainRecord heard;

    public SimulatedEnd(final String name) {
        this.name = name;
        end.state = 3;
    }

    /** One thing that the network does by itself; false: there is nothing to do for this end. */
    boolean step(final Random random) {
        if (dead) {
            return false;
        }
        final boolean canExecute = !peer.dead && executed < Math.min(begun, sent.size()) && (!sent.get(executed).consumer()
                || peer.hasReceive(sent.get(executed).srq()) || peer.hasLanding(sent.get(executed).srq()));
        final boolean canAnswer = answered < executed;
        final boolean canMark = markerOnWire && answered == sent.size() && !peer.dead;
        if (canExecute && (!canAnswer || random.nextBoolean())) {
            if (sent.get(executed).consumer()) {
                final int queue = sent.get(executed).srq();
                final boolean landing = !peer.hasReceive(queue);
                peer.taken.add(new Taken(queue, landing));
                if (landing) {
                    if (peer.domain != null && DrainPolicy.messageLength(this, executed) > peer.domain.landingLength) {
                        throw new AssertionError("the landing is too short for " + sent.get(executed));
                    }
                    if (peer.pool != null && DrainPolicy.messageLength(this, executed) > peer.pool.landingLength) {
                        throw new AssertionError("the landing is too short for " + sent.get(executed));
                    }
                }
            }
            executed++;
            return true;
        }
        if (canAnswer) {
            answered++;
            return true;
        }
        if (canMark) {
            markerOnWire = false;
            marker = peer.remoteWrite ? Bookmark.MARKER_COMPLETED : Bookmark.MARKER_FAILED;
            return true;
        }
        return false;
    }

    /** The next request waits for a receive that is not there, or for a peer that does not answer. */
    boolean blocked() {
        return !dead && executed == answered && executed < Math.min(begun, sent.size()) && (peer.dead || sent.get(executed).consumer()
                && !peer.hasReceive(sent.get(executed).srq()) && !peer.hasLanding(sent.get(executed).srq()));
    }

    private boolean hasReceive(final int queue) {
        return domain != null ? domain.left(queue, false) > 0
                : pool == null ? taken(0, false, taken.size()) < receivesPosted : pool.receivesLeft() > 0;
    }

    private boolean hasLanding(final int queue) {
        return domain != null ? domain.left(queue, true) > 0
                : pool == null ? taken(0, true, taken.size()) < landingsPosted : pool.landingsLeft() > 0;
    }

    /** How many receives, or landings, of a queue are among the first so many messages. */
    int taken(final int queue, final boolean landing, final int messages) {
        return (int) taken.subList(0, messages).stream()
                .filter(t -> t.queue() == queue && t.landing() == landing).count();
    }

    @Override
    public long received() {
        return end.bookmark.received;
    }

    @Override
    public DrainRecord heard() {
        return heard;
    }

    /** The application changes the state to SQD, when the device has begun the next request or not. */
    void hold(final boolean next) {
        end.state = 4;
        begun = Math.min(sent.size(), executed + (next ? 1 : 0));
    }

    /** {@link Drain#finish}. */
    void flush(final Random random) {
        end.flushing = DrainPolicy.needsFlush(end, false, this);
        if (!end.flushing) {
            return;
        }
        die(executed < sent.size() ? WR_FLUSH_ERR : 0);
        do {
            drain(random);
            end.bookmark = bookmark();
            settle();
        } while (!settled());
    }

    boolean settled() {
        return decision.action == DrainPolicy.Action.SETTLED;
    }

    void die(final int status) {
        dead = true;
        errorStatus = status;
        errorAt = status == 0 ? -1 : executed;
    }

    /** sv_cq_drain: takes what completions there are. Receive completions may come late. */
    void drain(final Random random) {
        for (int p = retired; p < answered; p++) {
            if (sent.get(p).signaled()) {
                retired = Math.max(retired, p + 1);
            }
        }
        if (marker == Bookmark.MARKER_COMPLETED) {
            retired = sent.size();
        }
        if (domain == null && received < taken.size()) {
            received += 1 + random.nextInt(taken.size() - received);
        }
        if (dead && !errorSettled && errorStatus != 0) {
            errorSeen = true;
        }
    }

    Bookmark bookmark() {
        if (domain != null) {
            received = domain.seen(this, owner);
        }
        int consumers = 0;
        for (final Sent s : sent) {
            consumers += s.consumer() ? 1 : 0;
        }
        final int landings = landingsPosted - taken(0, true, received);
        final int receives = receivesPosted - taken(0, false, received);
        final boolean allSeen = received == taken.size();
        if (domain != null) {
            return new Bookmark(sent.size(), retired, consumers, received, 0, 0, 0, Bookmark.NO_MARKER, 0, true, false, 0);
        }
        return new Bookmark(sent.size(), retired, consumers, received, pool == null ? receives : 0,
                errorSeen && !errorSettled ? errorStatus : 0,
                errorSeen && !errorSettled && pool == null && allSeen ? WR_FLUSH_ERR : 0,
                markerOnWire ? Bookmark.MARKER_POSTED : marker, pool == null ? landings : 0, pool != null,
                pool != null && dead && allSeen, end.flushing && pool == null ? receives : 0);
    }

    /** Null: nothing can be said yet. */
    DrainRecord record() {
        final Bookmark b = end.bookmark;
        if (domain != null) {
            final DomainDrain.View view = owner.part.view();
            return view == null ? null : overTheWire(new DrainRecord(view.received(number), 0, 0, false, false, false, false,
                    granted, settled(), false, 0, 0, new PoolRecord(true, view.pool.landingsPosted, view.settled, view.pool.numbers(),
                    view.pool.free(), 0, 0, 0, 0, 0)));
        }
        final boolean lands = decision.action == DrainPolicy.Action.ASK_LANDING;
        return overTheWire(new DrainRecord(b.received, pool == null ? b.receives : pool.seen.receives(),
                pool == null ? b.landings : pool.seen.landings(), end.state == 6, end.withdrawn || end.failAfterwards || end.flushing,
                end.undecided(), decision.action == DrainPolicy.Action.ASK_MARKER, granted, settled(), end.held(),
                lands ? decision.ordinal : 0, lands ? decision.length : 0, poolRecord()));
    }

    private static DrainRecord overTheWire(final DrainRecord record) {
        final RecordWriter out = new RecordWriter(0);
        record.write(out);
        final RecordReader in = new RecordReader(out.toByteArray());
        final DrainRecord read = DrainRecord.read(in);
        in.end();
        return read;
    }

    private PoolRecord poolRecord() {
        final boolean toShared = heard != null && heard.pool.shared;
        final int next = toShared ? (int) DrainPolicy.next(end.bookmark, heard.received, this) : sent.size();
        return new PoolRecord(pool != null, pool == null ? 0 : pool.seen.landingsPosted,
                pool != null && pool.seen.settled(pool.users), pool == null ? new int[0] : pool.seen.numbers(),
                pool == null ? new long[0] : pool.seen.free(), toShared ? heard.pool.landings : 0,
                end.bookmark.consumers, next < sent.size() ? ordinal(next) : 0,
                next < sent.size() ? DrainPolicy.messageLength(this, next) : 0,
                next < sent.size() ? srq(next) : 0);
    }

    /** One round of this end, as {@link Drain} does it. */
    void round(final Random random) {
        look(random);
        act();
    }

    void look(final Random random) {
        drain(random);
        end.bookmark = bookmark();
        end.hardwareError = dead && !end.flushing;
        end.lookedAtSendQueue(answered < Math.min(begun, sent.size()));
        end.roundsInError = end.bookmark.inError() ? end.roundsInError + 1 : 0;
    }

    void act() {
        if (!settled() || end.bookmark.inError() || heard != null && heard.pool.shared) {
            settle();
        }
        if (DrainPolicy.grants(heard, granted) && !end.flushing) {
            remoteWrite = true;
            granted = true;
        }
        if (DrainPolicy.lands(end.bookmark, heard)) {
            landingsPosted++;
            end.bookmark = bookmark();
        }
    }

    private void settle() {
        for (int i = 0; i < 1000; i++) {
            decision = unacknowledged ? DrainPolicy.decideUnacknowledged(end, this)
                    : DrainPolicy.decide(end, Pairing.CONNECTED, heard, this);
            switch (decision.action) {
                case RETIRE:
                    if (decision.position <= retired) {
                        throw new AssertionError("retires what is retired");
                    }
                    retired = (int) decision.position;
                    break;
                case WITHDRAW:
                    end.withdrawn = true;
                    errorSettled = true;
                    retired = Math.max(retired, errorAt);
                    break;
                case DELIVER:
                    throw new AssertionError(name + " delivers an error that the checkpoint made");
                case FAIL_AFTERWARDS:
                    end.failAfterwards = true;
                    break;
                case FLUSH:
                    end.flushing = true;
                    die(executed < sent.size() ? WR_FLUSH_ERR : 0);
                    return;
                case MARKER:
                    if (markerOnWire) {
                        throw new AssertionError("second marker");
                    }
                    if (dead) {
                        marker = Bookmark.MARKER_FAILED;
                        break;
                    }
                    markerOnWire = true;
                    return;
                case REFUSE:
                    throw new AssertionError(name + " refuses: " + decision.why);
                default:
                    return;
            }
            end.bookmark = bookmark();
        }
        throw new AssertionError("decides for ever: " + decision.action);
    }

    private Sent at(final long position) {
        if (position < retired || position >= sent.size()) {
            throw new AssertionError("position " + position + " is not in the log");
        }
        return sent.get((int) position);
    }

    @Override
    public int opcode(final long position) {
        return at(position).opcode();
    }

    @Override
    public boolean signaled(final long position) {
        return at(position).signaled();
    }

    @Override
    public long ordinal(final long position) {
        if (!at(position).consumer()) {
            return 0;
        }
        long n = 0;
        for (int i = 0; i <= position; i++) {
            n += sent.get(i).consumer() ? 1 : 0;
        }
        return n;
    }

    @Override
    public long length(final long position) {
        return at(position).opcode() * 100L;
    }

    @Override
    public int srq(final long position) {
        return at(position).srq();
    }
}
