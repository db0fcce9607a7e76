// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Predicate;

/**
 * A legal sequence of verbs for the program {@code steps}: any list of numbers makes one. A model of what a device does
 * with it keeps it legal, and knows how many completions there are to wait for; so that what the program prints depends
 * on the sequence alone, it lets no two queue pairs use the same memory.
 */
final class StepsScript {
    private static final int SLOTS = 8;
    private static final int DEPTH = 16;
    private static final int ENTRIES = 1024;
    private static final int ALL_ACCESS = 15;
    private static final int LOCAL_ACCESS = 1;
    /** What of each region belongs to one queue pair, and what is where in it. */
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
    private final boolean[] pds = new boolean[SLOTS];
    private final boolean[] cqs = new boolean[SLOTS];
    private final Region[] regions = new Region[SLOTS];
    private final Pair[] pairs = new Pair[SLOTS];
    private SplittableRandom dice;

    private record Region(int pd, boolean remote) {
    }

    /** A request that waits in a queue, and which regions it uses; {@code remote} is -1 where there is no such. */
    private record Waiting(boolean consumes, int region, int remote) {
    }

    private static final class Pair {
        final int pd;
        final int sendCq;
        final int recvCq;
        final End[] ends = {new End(), new End()};

        Pair(final int pd, final int sendCq, final int recvCq) {
            this.pd = pd;
            this.sendCq = sendCq;
            this.recvCq = recvCq;
        }
    }

    private static final class End {
        final Deque<Waiting> sends = new ArrayDeque<>();
        final Deque<Waiting> receives = new ArrayDeque<>();
        int sendCompletions;
        int recvCompletions;
        boolean error;
    }

    /**
     * @param choices one for each step
     * @param pauses how many there are to be, spread over the sequence
     */
    StepsScript(final List<Integer> choices, final int pauses) {
        for (int i = 0; i < 2; i++) {
            pds[i] = true;
            cqs[i] = true;
            step("pd %d", i);
            step("cq %d %d", i, ENTRIES);
            regions[i] = new Region(0, true);
            step("mr %d 0 %d", i, ALL_ACCESS);
        }
        pairs[0] = new Pair(0, 0, 1);
        step("pair 0 0 0 1 0");
        int paused = 0;
        for (int i = 0; i < choices.size(); i++) {
            dice = new SplittableRandom(choices.get(i));
            step();
            if ((i + 1) * (pauses + 1) / (choices.size() + 1) > paused) {
                step("pause %d", paused++);
            }
        }
        while (paused < pauses) {
            step("pause %d", paused++);
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

    private void step() {
        switch (dice.nextInt(32)) {
            case 0 -> makePd();
            case 1 -> removePd();
            case 2 -> makeCq();
            case 3 -> changeCq();
            case 4, 5 -> makeRegion();
            case 6 -> changeRegion();
            case 7, 8 -> makePair();
            case 9 -> breakPair();
            case 10, 11, 12, 13, 14, 15 -> receive();
            case 16, 17, 18, 19 -> send();
            case 20, 21, 22 -> write();
            case 23, 24 -> read();
            case 25, 26 -> atomic();
            case 27, 28, 29 -> poll(dice.nextInt(SLOTS));
            case 30 -> look();
            default -> step("ids");
        }
    }

    // ---- Objects -----------------------------------------------------------------------------------------------

    private void makePd() {
        final int p = free(i -> pds[i]);
        if (p >= 0) {
            pds[p] = true;
            step("pd %d", p);
        }
    }

    /** One that is in use stays. */
    private void removePd() {
        final int p = any(i -> pds[i]);
        if (p > 0) {
            step("unpd %d", p);
            pds[p] = any(i -> regions[i] != null && regions[i].pd == p) >= 0
                    || any(i -> pairs[i] != null && pairs[i].pd == p) >= 0;
        }
    }

    private void makeCq() {
        final int c = free(i -> cqs[i]);
        if (c >= 0) {
            cqs[c] = true;
            step("cq %d %d", c, ENTRIES);
        }
    }

    /** One that is in use stays. */
    private void changeCq() {
        final int c = any(i -> cqs[i]);
        if (dice.nextBoolean()) {
            step("resize %d %d", c, ENTRIES + dice.nextInt(256));
        } else if (c > 0) {
            step("uncq %d", c);
            cqs[c] = any(i -> pairs[i] != null && (pairs[i].sendCq == c || pairs[i].recvCq == c)) >= 0;
        }
    }

    private void makeRegion() {
        final int m = free(i -> regions[i] != null);
        if (m >= 0) {
            regions[m] = new Region(any(i -> pds[i]), dice.nextInt(4) > 0);
            step("mr %d %d %d", m, regions[m].pd, regions[m].remote ? ALL_ACCESS : LOCAL_ACCESS);
        }
    }

    private void changeRegion() {
        final int m = any(i -> regions[i] != null && !isUsed(i));
        if (m < 0) {
            return;
        }
        if (dice.nextBoolean()) {
            regions[m] = new Region(regions[m].pd, !regions[m].remote);
            step("rereg %d %d", m, regions[m].remote ? ALL_ACCESS : LOCAL_ACCESS);
        } else {
            regions[m] = null;
            step("unmr %d", m);
        }
    }

    private boolean isUsed(final int region) {
        for (final Pair pair : pairs) {
            for (int e = 0; pair != null && e < 2; e++) {
                for (final Deque<Waiting> queue : List.of(pair.ends[e].sends, pair.ends[e].receives)) {
                    if (queue.stream().anyMatch(w -> w.region == region || w.remote == region)
                            || pair.ends[e].sendCompletions + pair.ends[e].recvCompletions > 0) {
                        return true; // what has completed may not have been executed yet
                    }
                }
            }
        }
        return false;
    }

    private void makePair() {
        final int q = free(i -> pairs[i] != null);
        if (q >= 0) {
            pairs[q] = new Pair(any(i -> pds[i]), any(i -> cqs[i]), any(i -> cqs[i]));
            step("pair %d %d %d %d %d", q, pairs[q].pd, pairs[q].sendCq, pairs[q].recvCq, dice.nextInt(2));
        }
    }

    /** What is under way is waited for first: it could be over or not. */
    private void breakPair() {
        final int q = any(i -> pairs[i] != null);
        if (q < 0) {
            return;
        }
        poll(pairs[q].sendCq);
        poll(pairs[q].recvCq);
        switch (dice.nextInt(3)) {
            case 0 -> {
                step("unpair %d", q);
                pairs[q] = null;
            }
            case 1 -> {
                step("reset %d", q);
                pairs[q] = new Pair(pairs[q].pd, pairs[q].sendCq, pairs[q].recvCq);
            }
            default -> {
                final int e = dice.nextInt(2);
                step("error %d", 2 * q + e);
                flush(pairs[q].ends[e]);
            }
        }
    }

    private static void flush(final End end) {
        end.error = true;
        end.sendCompletions += end.sends.size();
        end.recvCompletions += end.receives.size();
        end.sends.clear();
        end.receives.clear();
    }

    // ---- Requests ----------------------------------------------------------------------------------------------

    private void receive() {
        final int k = anyEnd();
        final int m = k < 0 ? -1 : region(k, false);
        if (m < 0 || end(k).receives.size() + end(k).recvCompletions == DEPTH) {
            return;
        }
        step("recv %d %d %d %d", k, m, k * SLICE + RECEIVED, MOST_BYTES);
        end(k).receives.add(new Waiting(false, m, -1));
        settle(k);
        settle(k ^ 1);
    }

    private void send() {
        final int k = sender();
        final int m = k < 0 ? -1 : region(k, false);
        if (m < 0) {
            return;
        }
        final boolean inline = dice.nextInt(4) == 0;
        step("send %d %d %d %d %d %d", k, m, k * SLICE + SOURCE, dice.nextInt((inline ? MOST_INLINE : MOST_BYTES) + 1),
                dice.nextBoolean() ? 0 : dice.nextInt(1 << 30), inline ? 1 : 0);
        post(k, new Waiting(true, m, -1));
    }

    private void write() {
        final int k = sender();
        final int m = k < 0 ? -1 : region(k, false);
        final int remote = k < 0 ? -1 : region(k, true);
        if (m < 0 || remote < 0) {
            return;
        }
        final int immediate = dice.nextInt(3) == 0 ? 1 + dice.nextInt(1 << 30) : 0;
        step("write %d %d %d %d %d %d %d", k, m, k * SLICE + SOURCE, dice.nextInt(MOST_BYTES + 1), remote,
                (k ^ 1) * SLICE + WRITTEN, immediate);
        post(k, new Waiting(immediate != 0, m, remote));
    }

    /** Of what never changes, or of what this queue pair has written. */
    private void read() {
        final int k = sender();
        final int m = k < 0 ? -1 : region(k, false);
        final int remote = k < 0 ? -1 : region(k, true);
        if (m < 0 || remote < 0) {
            return;
        }
        step("read %d %d %d %d %d %d", k, m, k * SLICE + READ, dice.nextInt(MOST_READ + 1), remote,
                (k ^ 1) * SLICE + (dice.nextBoolean() ? SOURCE : WRITTEN));
        post(k, new Waiting(false, m, remote));
    }

    private void atomic() {
        final int k = sender();
        final int m = k < 0 ? -1 : region(k, false);
        final int remote = k < 0 ? -1 : region(k, true);
        if (m < 0 || remote < 0) {
            return;
        }
        if (dice.nextBoolean()) {
            step("add %d %d %d %d %d %d", k, m, k * SLICE + OLD_WORD, remote, (k ^ 1) * SLICE + WORD, dice.nextInt(100));
        } else {
            step("swap %d %d %d %d %d %d %d", k, m, k * SLICE + OLD_WORD, remote, (k ^ 1) * SLICE + WORD,
                    dice.nextInt(2), dice.nextInt(2));
        }
        post(k, new Waiting(false, m, remote));
    }

    private void post(final int k, final Waiting request) {
        if (end(k).error) {
            end(k).sendCompletions++;
        } else {
            end(k).sends.add(request);
        }
        settle(k);
    }

    /** Executes what can be executed. */
    private void settle(final int k) {
        final End own = end(k);
        final End peer = end(k ^ 1);
        if (own.error) {
            flush(own);
        }
        while (!own.sends.isEmpty() && !peer.error && !(own.sends.peek().consumes && peer.receives.isEmpty())) {
            if (own.sends.poll().consumes) {
                peer.receives.poll();
                peer.recvCompletions++;
            }
            own.sendCompletions++;
        }
    }

    private void poll(final int c) {
        int count = 0;
        for (final Pair pair : pairs) {
            for (int e = 0; pair != null && e < 2; e++) {
                if (pair.sendCq == c) {
                    count += pair.ends[e].sendCompletions;
                    pair.ends[e].sendCompletions = 0;
                }
                if (pair.recvCq == c) {
                    count += pair.ends[e].recvCompletions;
                    pair.ends[e].recvCompletions = 0;
                }
            }
        }
        if (count > 0) {
            step("poll %d %d", c, count);
        }
    }

    private void look() {
        final int k = anyEnd();
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
            if (pairs[q] != null) {
                step("query %d%nquery %d%nunpair %d", 2 * q, 2 * q + 1, q);
            }
        }
        step("ids");
    }

    // ---- Choices -----------------------------------------------------------------------------------------------

    private End end(final int k) {
        return pairs[k / 2].ends[k % 2];
    }

    private int anyEnd() {
        final int q = any(i -> pairs[i] != null);
        return q < 0 ? -1 : 2 * q + dice.nextInt(2);
    }

    /** A queue pair with room in its send queue and in its completion queues; or -1. */
    private int sender() {
        final int k = anyEnd();
        return k < 0 || end(k).sends.size() + end(k).sendCompletions == DEPTH ? -1 : k;
    }

    /** A region of the queue pair's protection domain; or -1. */
    private int region(final int k, final boolean remote) {
        return any(i -> regions[i] != null && regions[i].pd == pairs[k / 2].pd && (regions[i].remote || !remote));
    }

    private int any(final Predicate<Integer> fits) {
        final List<Integer> all = new ArrayList<>();
        for (int i = 0; i < SLOTS; i++) {
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
