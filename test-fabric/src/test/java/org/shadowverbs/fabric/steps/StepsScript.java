// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.steps;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Predicate;
import org.shadowverbs.fabric.steps.StepsModel.End;
import org.shadowverbs.fabric.steps.StepsModel.Handle;
import org.shadowverbs.fabric.steps.StepsModel.Pair;
import org.shadowverbs.fabric.steps.StepsModel.Region;
import org.shadowverbs.fabric.steps.StepsModel.Shared;
import org.shadowverbs.fabric.steps.StepsModel.Type;
import org.shadowverbs.fabric.steps.StepsModel.Waiting;

/**
 * A legal sequence of verbs for the program {@code steps}: any list of numbers makes one. A model of what a device does
 * with it keeps it legal, and knows how many completions there are to wait for; so that what the program prints depends
 * on the sequence alone, it lets no two queue pairs use the same memory, and no two of them wait for receives of one shared
 * queue, and what may get lost on its way is sent where a receive is.
 */
final class StepsScript {
    private static final int SLOTS = StepsModel.SLOTS;
    private static final int QPS = 2 * SLOTS;
    private static final int ENTRIES = 1024;
    private static final int ALL_ACCESS = 15;
    private static final int LOCAL_ACCESS = 1;
    /** What of each region belongs to one queue pair, or shared receive queue, and what is where in it. */
    private static final int SLICE = 1024;
    private static final int SOURCE = 0;
    private static final int RECEIVED = 256;
    private static final int WRITTEN = 512;
    private static final int READ = 768;
    private static final int WORD = 896;
    private static final int OLD_WORD = 904;
    private static final int MOST_BYTES = 256;
    private static final int MOST_READ = 128;
    private static final int MOST_INLINE = 64;

    private final StringBuilder text = new StringBuilder();
    private final StepsModel model = new StepsModel();
    private final boolean lossy;
    private final boolean overtaking;
    private SplittableRandom dice;

    /**
     * @param choices one for each step; 0: none
     * @param pauses how many there are to be, spread over the sequence
     * @param lossy what is on its way at a pause may be lost where the type allows that, so nothing is
     * @param overtaking datagrams may overtake each other, so there is never more than one on its way to a queue pair
     */
    StepsScript(final List<Integer> choices, final int pauses, final boolean lossy, final boolean overtaking) {
        this.lossy = lossy;
        this.overtaking = overtaking;
        dice = new SplittableRandom(choices.size());
        begin();
        int paused = 0;
        for (int i = 0; i < choices.size(); i++) {
            if (choices.get(i) != 0) {
                dice = new SplittableRandom(choices.get(i));
                step();
            }
            if ((i + 1) * (pauses + 1) / (choices.size() + 1) > paused) {
                pause(paused++);
            }
        }
        while (paused < pauses) {
            pause(paused++);
        }
        end();
    }

    @Override
    public String toString() {
        return text.toString();
    }

    private void step(final String format, final Object... arguments) {
        text.append(String.format(format, arguments)).append('\n');
    }

    /** Two of what everything needs, and a connection of each type. */
    private void begin() {
        for (int i = 0; i < 2; i++) {
            makePd();
            makeCq(i == 1);
            model.regions[i] = new Region(0, true);
            step("mr %d 0 %d", i, ALL_ACCESS);
        }
        makeAh(0);
        makeSrq(0, -1);
        changeDomain();
        makeSrq(0, 0);
        for (final Type type : Type.values()) {
            makePair(type, 0);
        }
    }

    private void step() {
        switch (dice.nextInt(60)) {
            case 0 -> makePd();
            case 1 -> removePd();
            case 2 -> makeCq(dice.nextBoolean());
            case 3 -> changeCq();
            case 4, 5 -> makeRegion();
            case 6 -> changeRegion();
            case 7, 8 -> makePair(Type.values()[dice.nextInt(Type.values().length)], any(i -> model.pds[i]));
            case 9 -> breakPair();
            case 10 -> changeAh();
            case 11 -> changeDomain();
            case 12, 13 -> changeSrq();
            case 14, 15 -> changeHandle();
            case 16, 17, 18, 19, 20, 21 -> receive();
            case 22, 23, 24 -> receiveShared();
            case 25, 26, 27, 28, 29, 30, 31 -> send();
            case 32, 33, 34, 35 -> write();
            case 36, 37 -> read();
            case 38, 39 -> atomic();
            case 40, 41, 42, 43, 44 -> poll(dice.nextInt(SLOTS));
            case 45, 46 -> look();
            case 47, 48, 49 -> changeHold();
            case 50, 51, 52, 53, 54, 55, 56, 57, 58 -> arm();
            default -> step("ids");
        }
    }

    private void pause(final int number) {
        for (int q = 0; lossy && q < SLOTS; q++) {
            if (model.pairs[q] != null && !model.pairs[q].type.reliable()) {
                poll(model.pairs[q].sendCq);
                poll(model.pairs[q].recvCq);
            }
        }
        step("pause %d", number);
    }

    // ---- Objects -----------------------------------------------------------------------------------------------

    private void makePd() {
        final int p = free(i -> model.pds[i]);
        if (p >= 0) {
            model.pds[p] = true;
            step("pd %d", p);
        }
    }

    /** One that is in use stays. That an address handle uses it some devices do not know. */
    private void removePd() {
        final int p = any(i -> model.pds[i] && any(a -> model.ahs[a] != null && model.ahs[a] == i) < 0);
        if (p > 0) {
            step("unpd %d", p);
            model.pds[p] = model.usesPd(p);
        }
    }

    private void makeCq(final boolean extended) {
        final int c = free(i -> model.cqs[i]);
        if (c >= 0) {
            model.cqs[c] = true;
            model.extendedCqs[c] = extended;
            model.eventCqs[c] = dice.nextBoolean();
            model.armedCqs[c] = false;
            step("cq %d %d %d %d", c, ENTRIES, extended ? 1 : 0, model.eventCqs[c] ? 1 : 0);
        }
    }

    /** One that is in use stays. */
    private void changeCq() {
        final int c = any(i -> model.cqs[i]);
        if (dice.nextBoolean()) {
            step("resize %d %d", c, ENTRIES + dice.nextInt(256));
        } else if (c > 0) {
            step("uncq %d", c);
            model.cqs[c] = model.usesCq(c);
        }
    }

    private void makeRegion() {
        final int m = free(i -> model.regions[i] != null);
        if (m >= 0) {
            model.regions[m] = new Region(any(i -> model.pds[i]), dice.nextInt(4) > 0);
            step("mr %d %d %d", m, model.regions[m].pd(), model.regions[m].remote() ? ALL_ACCESS : LOCAL_ACCESS);
        }
    }

    private void changeRegion() {
        final int m = any(i -> model.regions[i] != null && !model.usesRegion(i));
        if (m < 0) {
            return;
        }
        if (dice.nextBoolean()) {
            model.regions[m] = new Region(model.regions[m].pd(), !model.regions[m].remote());
            step("rereg %d %d", m, model.regions[m].remote() ? ALL_ACCESS : LOCAL_ACCESS);
        } else {
            model.regions[m] = null;
            step("unmr %d", m);
        }
    }

    private void makeAh(final int pd) {
        final int a = free(i -> model.ahs[i] != null);
        if (a >= 0) {
            model.ahs[a] = pd;
            step("ah %d %d", a, pd);
        }
    }

    /** What it was used for has completed first. */
    private void changeAh() {
        final int a = any(i -> model.ahs[i] != null);
        if (dice.nextBoolean() || a < 0) {
            makeAh(any(i -> model.pds[i]));
            return;
        }
        for (final Pair pair : model.pairs) {
            if (pair != null && pair.type == Type.UD) {
                poll(pair.sendCq);
            }
        }
        step("unah %d", a);
        model.ahs[a] = null;
    }

    /** One that is in use stays. */
    private void changeDomain() {
        final int made = free(i -> model.domains[i]);
        final int d = any(i -> model.domains[i]);
        if (d < 0 || dice.nextBoolean() && made >= 0) {
            model.domains[made] = true;
            step("xrcd %d", made);
        } else {
            step("unxrcd %d", d);
            model.domains[d] = model.usesDomain(d);
        }
    }

    /** @param domain of XRC, or -1 */
    private void makeSrq(final int pd, final int domain) {
        final int s = free(i -> model.srqs[i] != null);
        if (s < 0) {
            return;
        }
        model.srqs[s] = new Shared(pd, domain, domain < 0 ? -1 : any(i -> model.cqs[i]));
        if (domain < 0) {
            step("srq %d %d", s, pd);
        } else {
            step("xsrq %d %d %d %d", s, pd, domain, model.srqs[s].cq);
        }
    }

    /** One that is in use stays. Of XRC that is known to its requests alone. */
    private void changeSrq() {
        final int s = any(i -> model.srqs[i] != null && !model.isAwaited(i, -1));
        if (s < 0 || dice.nextInt(3) > 0) {
            makeSrq(any(i -> model.pds[i]), dice.nextBoolean() ? any(i -> model.domains[i]) : -1);
            return;
        }
        if (model.srqs[s].cq >= 0) {
            poll(model.srqs[s].cq);
        }
        step("unsrq %d", s);
        if (!model.usesSrq(s)) {
            model.srqs[s] = null;
        }
    }

    private void makePair(final Type type, final int pd) {
        final int q = free(i -> model.pairs[i] != null);
        final int domain = type == Type.XRC ? any(i -> model.domains[i]) : -1;
        if (q < 0 || type == Type.XRC && domain < 0) {
            return;
        }
        final int[] srqs = {-1, -1};
        for (int e = 0; e < 2; e++) {
            if (type == Type.RC && dice.nextBoolean()) {
                srqs[e] = any(i -> model.srqs[i] != null && model.srqs[i].domain < 0 && model.srqs[i].pd == pd);
            }
        }
        final int sendCq = any(i -> model.cqs[i]);
        final int recvCq = type == Type.XRC ? -1 : any(i -> model.cqs[i]);
        model.pairs[q] = new Pair(type, pd, sendCq, recvCq, dice.nextBoolean(), srqs, domain);
        step("pair %d %d %d %d %d %d %d %d %d", q, type.ordinal(), pd, sendCq, Math.max(0, recvCq), dice.nextInt(2),
                model.pairs[q].extended ? 1 : 0, type == Type.XRC ? domain : srqs[0] + 1, srqs[1] + 1);
    }

    /** What is under way is waited for first: it could be over or not. */
    private void breakPair() {
        final int q = any(i -> model.pairs[i] != null);
        if (q < 0) {
            return;
        }
        pollAllOf(q);
        switch (dice.nextInt(3)) {
            case 0 -> {
                step("unpair %d", q);
                model.pairs[q] = null;
                for (int h = 0; h < SLOTS; h++) {
                    if (model.handles[h] != null && model.handles[h].pair() == q) {
                        model.handles[h] = new Handle(-1, model.handles[h].domain());
                    }
                }
            }
            case 1 -> {
                step("reset %d", q);
                model.pairs[q] = model.pairs[q].fresh();
            }
            default -> {
                final int e = dice.nextInt(2);
                step("error %d", 2 * q + e);
                StepsModel.flush(model.pairs[q].ends[e]);
            }
        }
    }

    /** What was sent before is waited for first: it could have been begun or not. */
    private void changeHold() {
        final int k = anyEnd(i -> !model.end(i).error && (model.pair(i).type != Type.XRC || i % 2 == 0)
                && (model.end(i).held || model.end(i).sends.isEmpty()));
        if (k < 0) {
            return;
        }
        if (model.end(k).held) {
            step("release %d", k);
            model.release(k);
        } else {
            poll(model.pair(k).sendCq);
            step("hold %d", k);
            model.end(k).held = true;
        }
    }

    private void pollAllOf(final int q) {
        poll(model.pairs[q].sendCq);
        if (model.pairs[q].recvCq >= 0) {
            poll(model.pairs[q].recvCq);
        }
        for (final Shared shared : model.srqs) {
            if (shared != null && shared.domain >= 0 && shared.domain == model.pairs[q].domain) {
                poll(shared.cq);
            }
        }
    }

    /** For an XRC receiver. One without its sender cannot be asked for anything. */
    private void changeHandle() {
        final int q = any(i -> model.pairs[i] != null && model.pairs[i].type == Type.XRC);
        final int h = any(i -> model.handles[i] != null);
        final int made = free(i -> model.handles[i] != null);
        switch (dice.nextInt(4)) {
            case 0, 1 -> {
                if (q >= 0 && made >= 0) {
                    step("open %d %d", QPS + made, 2 * q + 1);
                    model.handles[made] = new Handle(q, model.pairs[q].domain);
                }
            }
            case 2 -> {
                if (h >= 0 && model.handles[h].pair() >= 0) {
                    step("inherit %d %d", QPS + h, 2 * model.handles[h].pair() + 1);
                    model.handles[h] = null;
                }
            }
            default -> {
                if (h >= 0) {
                    step("unopen %d", QPS + h);
                    model.handles[h] = null;
                }
            }
        }
    }

    // ---- Requests ----------------------------------------------------------------------------------------------

    private void receive() {
        final int k = anyEnd(i -> model.pair(i).type != Type.XRC && model.srqOf(i) < 0
                && model.end(i).receives.size() + model.end(i).recvCompletions < StepsModel.DEPTH);
        final int m = k < 0 ? -1 : region(model.pair(k).pd, false);
        if (m >= 0) {
            step("recv %d %d %d %d", k, m, k * SLICE + RECEIVED, MOST_BYTES);
            model.receive(k, new Waiting(false, m, -1, -1));
        }
    }

    private void receiveShared() {
        final int s = any(i -> model.srqs[i] != null
                && model.srqs[i].receives.size() + model.srqs[i].completed() < StepsModel.DEPTH);
        final int m = s < 0 ? -1 : region(model.srqs[s].pd, false);
        if (m >= 0) {
            step("srecv %d %d %d %d", s, m, (QPS + s) * SLICE + RECEIVED, MOST_BYTES);
            model.receiveShared(s, new Waiting(false, m, -1, -1));
        }
    }

    private void send() {
        final int k = sender(t -> true);
        final int m = k < 0 ? -1 : region(model.pair(k).pd, false);
        final int to = m < 0 ? -1 : target(k, true);
        final int a = k < 0 ? -1 : any(i -> model.ahs[i] != null && model.ahs[i] == model.pair(k).pd);
        if (m < 0 || !canTake(k, to) || model.pair(k).type == Type.UD && a < 0) {
            return;
        }
        final boolean inline = dice.nextInt(4) == 0;
        step("send %d %d %d %d %d %d %d %d %d", k, m, k * SLICE + SOURCE,
                dice.nextInt((inline ? MOST_INLINE : MOST_BYTES) + 1), dice.nextBoolean() ? 0 : dice.nextInt(1 << 30),
                inline ? 1 : 0, way(k), Math.max(0, to), Math.max(0, a));
        post(k, true, m, -1, to);
    }

    private void write() {
        final int k = sender(t -> t != Type.UD);
        // Whether a message that is lost without a receive has been written cannot be known.
        final boolean immediate = dice.nextInt(3) == 0 || lossy && k >= 0 && model.pair(k).type == Type.UC;
        final int m = k < 0 ? -1 : region(model.pair(k).pd, false);
        final int to = m < 0 ? -1 : target(k, immediate);
        final int remote = m < 0 ? -1 : remoteRegion(k, to);
        if (remote >= 0 && (!immediate || canTake(k, to))) {
            step("write %d %d %d %d %d %d %d %d %d", k, m, k * SLICE + SOURCE, dice.nextInt(MOST_BYTES + 1), remote,
                    (k ^ 1) * SLICE + WRITTEN, immediate ? 1 + dice.nextInt(1 << 30) : 0, way(k), Math.max(0, to));
            post(k, immediate, m, remote, to);
        }
    }

    /** Reads what never changes, or what this queue pair has written. */
    private void read() {
        final int k = sender(Type::reliable);
        final int m = k < 0 ? -1 : region(model.pair(k).pd, false);
        final int to = m < 0 ? -1 : target(k, false);
        final int remote = m < 0 ? -1 : remoteRegion(k, to);
        if (remote >= 0) {
            step("read %d %d %d %d %d %d %d %d", k, m, k * SLICE + READ, dice.nextInt(MOST_READ + 1), remote,
                    (k ^ 1) * SLICE + (dice.nextBoolean() ? SOURCE : WRITTEN), way(k), Math.max(0, to));
            post(k, false, m, remote, to);
        }
    }

    private void atomic() {
        final int k = sender(Type::reliable);
        final int m = k < 0 ? -1 : region(model.pair(k).pd, false);
        final int to = m < 0 ? -1 : target(k, false);
        final int remote = m < 0 ? -1 : remoteRegion(k, to);
        if (remote < 0) {
            return;
        }
        if (dice.nextBoolean()) {
            step("add %d %d %d %d %d %d %d %d", k, m, k * SLICE + OLD_WORD, remote, (k ^ 1) * SLICE + WORD,
                    dice.nextInt(100), way(k), Math.max(0, to));
        } else {
            step("swap %d %d %d %d %d %d %d %d %d", k, m, k * SLICE + OLD_WORD, remote, (k ^ 1) * SLICE + WORD,
                    dice.nextInt(2), dice.nextInt(2), way(k), Math.max(0, to));
        }
        post(k, false, m, remote, to);
    }

    /** What a request is for: the end that gets a datagram, a shared receive queue; -1: the peer's own queue, or nothing. */
    private int target(final int k, final boolean consumes) {
        return switch (model.pair(k).type) {
            case RC -> consumes ? model.srqOf(k ^ 1) : -1;
            case XRC -> any(i -> model.srqs[i] != null && model.srqs[i].domain == model.pair(k).domain);
            case UC -> k ^ 1;
            case UD -> anyEnd(i -> model.pair(i).type == Type.UD && hasReceive(i));
        };
    }

    private boolean hasReceive(final int k) {
        return !model.end(k).error && !model.end(k).receives.isEmpty();
    }

    /** Whether it is known what a request that takes a receive will find, perhaps after what was sent before is over. */
    private boolean canTake(final int k, final int to) {
        switch (model.pair(k).type) {
            case UC, UD:
                if (to < 0 || !hasReceive(to)) {
                    return false;
                }
                if ((overtaking || model.end(to).sender != k) && model.end(to).recvCompletions > 0) {
                    poll(model.pair(to).recvCq);
                }
                return true;
            case XRC:
                return to >= 0 && isAlone(k, to);
            default:
                return to < 0 || isAlone(k, to);
        }
    }

    private boolean isAlone(final int k, final int srq) {
        if (model.isAwaited(srq, k)) {
            return false;
        }
        for (int c = 0; c < SLOTS; c++) {
            if (model.srqs[srq].sender != k && model.srqs[srq].completions[c] > 0) {
                poll(c);
            }
        }
        return true;
    }

    private void post(final int k, final boolean consumes, final int region, final int remote, final int to) {
        if (model.pair(k).type.reliable()) {
            model.post(k, new Waiting(consumes, region, remote, to));
        } else {
            model.postUnreliable(k, consumes ? to : -1);
        }
    }

    private void poll(final int c) {
        final int count = model.take(c);
        if (count > 0) {
            if (model.armedCqs[c]) {
                step("sleep %d", c);
                model.armedCqs[c] = false;
            }
            step("poll %d %d %d", c, count, model.extendedCqs[c] ? dice.nextInt(2) : 0);
        }
    }

    /** What is there has come before; so it is certain that the next makes an event. */
    private void arm() {
        final int c = any(i -> model.cqs[i] && model.eventCqs[i]);
        if (c >= 0) {
            poll(c);
            model.armedCqs[c] = true;
            step("arm %d", c);
        }
    }

    private void look() {
        final int k = anyEnd(i -> true);
        if (k >= 0) {
            step("query %d", k);
        }
    }

    private void end() {
        for (int c = 0; c < SLOTS; c++) {
            poll(c);
        }
        for (int m = 0; m < SLOTS; m++) {
            step("sum %d", m);
        }
        for (int q = 0; q < SLOTS; q++) {
            if (model.pairs[q] != null) {
                step("query %d%nquery %d%nunpair %d", 2 * q, 2 * q + 1, q);
            }
        }
        for (int h = 0; h < SLOTS; h++) {
            if (model.handles[h] != null) {
                step("unopen %d", QPS + h);
            }
        }
        step("ids");
    }

    // ---- Choices -----------------------------------------------------------------------------------------------

    private int way(final int k) {
        return model.pair(k).extended ? dice.nextInt(2) : 0;
    }

    private int anyEnd(final Predicate<Integer> fits) {
        return any(QPS, i -> model.pair(i) != null && fits.test(i));
    }

    /**
     * A queue pair with room in its send queue and in its completion queues, whose peer is there; or -1. Of those that lose
     * what finds no receive only one that sends at once.
     */
    private int sender(final Predicate<Type> fits) {
        return anyEnd(i -> {
            final Pair pair = model.pair(i);
            final End end = model.end(i);
            return fits.test(pair.type) && (pair.type != Type.XRC || i % 2 == 0)
                    && (pair.type != Type.UC || !model.end(i ^ 1).error) && (pair.type.reliable() || !end.held)
                    && end.sends.size() + end.sendCompletions < StepsModel.DEPTH;
        });
    }

    /** A region of the responder's protection domain, which of XRC is that of the shared receive queue; or -1. */
    private int remoteRegion(final int k, final int to) {
        if (model.pair(k).type != Type.XRC) {
            return region(model.pair(k).pd, true);
        }
        return to < 0 ? -1 : region(model.srqs[to].pd, true);
    }

    private int region(final int pd, final boolean remote) {
        return any(i -> model.regions[i] != null && model.regions[i].pd() == pd && (model.regions[i].remote() || !remote));
    }

    private int any(final Predicate<Integer> fits) {
        return any(SLOTS, fits);
    }

    private int any(final int count, final Predicate<Integer> fits) {
        final List<Integer> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            if (fits.test(i)) {
                all.add(i);
            }
        }
        return all.isEmpty() ? -1 : all.get(dice.nextInt(all.size()));
    }

    private static int free(final Predicate<Integer> taken) {
        for (int i = 0; i < SLOTS; i++) {
            if (!taken.test(i)) {
                return i;
            }
        }
        return -1;
    }
}
