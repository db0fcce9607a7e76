// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.steps;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.IntPredicate;

/**
 * What a device makes of a script for the program {@code steps}: its objects by slot, what waits in their queues, and how many
 * completions there are to take. A slot of -1 is none.
 */
final class StepsModel {
    static final int SLOTS = 8;
    static final int DEPTH = 16;

    /** In the order of the program's. */
    enum Type {
        RC, UC, UD, XRC;

        boolean reliable() {
            return this == RC || this == XRC;
        }
    }

    record Region(int pd, boolean remote) {
    }

    /** Of the receiver of a pair, which may be gone: -1. */
    record Handle(int pair, int domain) {
    }

    /** A request in a queue, the regions it uses, and the shared receive queue that it is for. */
    record Waiting(boolean consumes, int region, int remote, int srq) {
    }

    /** A shared receive queue; domain and cq are of XRC. */
    static final class Shared {
        final int pd;
        final int domain;
        final int cq;
        final Deque<Waiting> receives = new ArrayDeque<>();
        /** Its completions in each completion queue. */
        final int[] completions = new int[SLOTS];
        /** Who sent the last message. */
        int sender = -1;

        Shared(final int pd, final int domain, final int cq) {
            this.pd = pd;
            this.domain = domain;
            this.cq = cq;
        }

        int completed() {
            int sum = 0;
            for (final int n : completions) {
                sum += n;
            }
            return sum;
        }
    }

    static final class End {
        final Deque<Waiting> sends = new ArrayDeque<>();
        final Deque<Waiting> receives = new ArrayDeque<>();
        int sendCompletions;
        int recvCompletions;
        int sender = -1;
        boolean error;
        /** In SQD: sends nothing. */
        boolean held;
    }

    static final class Pair {
        final Type type;
        final int pd;
        final int sendCq;
        /** -1 of XRC. */
        final int recvCq;
        final boolean extended;
        /** Of both ends. */
        final int[] srqs;
        final int domain;
        final End[] ends = {new End(), new End()};

        Pair(final Type type, final int pd, final int sendCq, final int recvCq, final boolean extended, final int[] srqs,
                final int domain) {
            this.type = type;
            this.pd = pd;
            this.sendCq = sendCq;
            this.recvCq = recvCq;
            this.extended = extended;
            this.srqs = srqs;
            this.domain = domain;
        }

        /** As it is after a reset. */
        Pair fresh() {
            return new Pair(type, pd, sendCq, recvCq, extended, srqs, domain);
        }
    }

    final boolean[] pds = new boolean[SLOTS];
    final boolean[] cqs = new boolean[SLOTS];
    final boolean[] extendedCqs = new boolean[SLOTS];
    /** On the channel. */
    final boolean[] eventCqs = new boolean[SLOTS];
    /** Its next completion makes an event, which is to be waited for before that is polled. */
    final boolean[] armedCqs = new boolean[SLOTS];
    final boolean[] domains = new boolean[SLOTS];
    final Region[] regions = new Region[SLOTS];
    /** The protection domain of each. */
    final Integer[] ahs = new Integer[SLOTS];
    final Shared[] srqs = new Shared[SLOTS];
    final Pair[] pairs = new Pair[SLOTS];
    final Handle[] handles = new Handle[SLOTS];

    Pair pair(final int k) {
        return pairs[k / 2];
    }

    End end(final int k) {
        return pairs[k / 2].ends[k % 2];
    }

    /** The shared receive queue of an end of RC. */
    int srqOf(final int k) {
        return pair(k).type == Type.RC ? pair(k).srqs[k % 2] : -1;
    }

    // ---- What uses what ----------------------------------------------------------------------------------------

    boolean usesPd(final int pd) {
        return exists(i -> regions[i] != null && regions[i].pd == pd) || exists(i -> pairs[i] != null && pairs[i].pd == pd)
                || exists(i -> srqs[i] != null && srqs[i].pd == pd);
    }

    boolean usesCq(final int cq) {
        return exists(i -> pairs[i] != null && (pairs[i].sendCq == cq || pairs[i].recvCq == cq))
                || exists(i -> srqs[i] != null && srqs[i].cq == cq);
    }

    boolean usesDomain(final int domain) {
        return exists(i -> srqs[i] != null && srqs[i].domain == domain)
                || exists(i -> pairs[i] != null && pairs[i].type == Type.XRC && pairs[i].domain == domain)
                || exists(i -> handles[i] != null && handles[i].domain == domain);
    }

    boolean usesSrq(final int srq) {
        return exists(i -> pairs[i] != null && pairs[i].type == Type.RC
                && (pairs[i].srqs[0] == srq || pairs[i].srqs[1] == srq));
    }

    /** What has completed may not have been executed yet. */
    boolean usesRegion(final int region) {
        for (final End end : ends()) {
            if (end.sendCompletions + end.recvCompletions > 0 || uses(end.sends, region) || uses(end.receives, region)) {
                return true;
            }
        }
        return exists(i -> srqs[i] != null && (srqs[i].completed() > 0 || uses(srqs[i].receives, region)));
    }

    private static boolean uses(final Deque<Waiting> queue, final int region) {
        return queue.stream().anyMatch(w -> w.region == region || w.remote == region);
    }

    /** Whether a request of another end than {@code k} waits for a receive of a shared queue, or of any end is for it. */
    boolean isAwaited(final int srq, final int k) {
        for (int other = 0; other < 2 * SLOTS; other++) {
            if (other != k && pair(other) != null
                    && end(other).sends.stream().anyMatch(w -> w.srq == srq && (w.consumes || k < 0))) {
                return true;
            }
        }
        return false;
    }

    private List<End> ends() {
        final List<End> all = new ArrayList<>();
        for (final Pair pair : pairs) {
            if (pair != null) {
                all.addAll(List.of(pair.ends));
            }
        }
        return all;
    }

    private static boolean exists(final IntPredicate fits) {
        for (int i = 0; i < SLOTS; i++) {
            if (fits.test(i)) {
                return true;
            }
        }
        return false;
    }

    // ---- What happens ------------------------------------------------------------------------------------------

    /** To the end's own requests when it goes to the error state. */
    static void flush(final End end) {
        end.error = true;
        end.held = false;
        end.sendCompletions += end.sends.size();
        end.recvCompletions += end.receives.size();
        end.sends.clear();
        end.receives.clear();
    }

    /** A request of a reliable connection. */
    void post(final int k, final Waiting request) {
        end(k).sends.add(request);
        settle(k);
    }

    /** A request that is done at once; {@code to}: the end that has a receive for it, or -1. */
    void postUnreliable(final int k, final int to) {
        end(k).sendCompletions++;
        if (!end(k).error && to >= 0) {
            end(to).receives.poll();
            end(to).recvCompletions++;
            end(to).sender = k;
        }
    }

    /** From SQD back to RTS. */
    void release(final int k) {
        end(k).held = false;
        settle(k);
    }

    void receive(final int k, final Waiting receive) {
        end(k).receives.add(receive);
        settle(k);
        settle(k ^ 1);
    }

    void receiveShared(final int srq, final Waiting receive) {
        srqs[srq].receives.add(receive);
        for (int k = 0; k < 2 * SLOTS; k++) {
            if (pair(k) != null) {
                settle(k);
            }
        }
    }

    /** Executes what can be executed. */
    private void settle(final int k) {
        final End own = end(k);
        final End peer = end(k ^ 1);
        if (own.error) {
            flush(own);
        }
        while (!own.sends.isEmpty() && !peer.error && !own.held) {
            final Waiting request = own.sends.peek();
            final Shared shared = request.srq < 0 ? null : srqs[request.srq];
            final Deque<Waiting> receives = shared == null ? peer.receives : shared.receives;
            if (request.consumes && receives.isEmpty()) {
                return;
            }
            own.sends.poll();
            own.sendCompletions++;
            if (request.consumes) {
                receives.poll();
                if (shared == null) {
                    peer.recvCompletions++;
                } else {
                    shared.completions[shared.cq < 0 ? pair(k).recvCq : shared.cq]++;
                    shared.sender = k;
                }
            }
        }
    }

    /** @return how many completions a completion queue has; none are left */
    int take(final int cq) {
        int count = 0;
        for (final Pair pair : pairs) {
            for (int e = 0; pair != null && e < 2; e++) {
                if (pair.sendCq == cq) {
                    count += pair.ends[e].sendCompletions;
                    pair.ends[e].sendCompletions = 0;
                }
                if (pair.recvCq == cq) {
                    count += pair.ends[e].recvCompletions;
                    pair.ends[e].recvCompletions = 0;
                }
            }
        }
        for (final Shared shared : srqs) {
            if (shared != null) {
                count += shared.completions[cq];
                shared.completions[cq] = 0;
            }
        }
        return count;
    }
}
