// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.Lock;
import java.util.function.Consumer;
import org.shadowverbs.coordinator.protocol.HostMessages.HostContribution;
import org.shadowverbs.coordinator.protocol.HostMessages.HostRanks;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;

/**
 * Says in one message what many ranks of a host say at the same time: what they bring to an exchange, that they are
 * detached, that their gates are open. So the coordinator hears of an exchange once from each host, and reads once what
 * many of its ranks want.
 *
 * <p>It waits until all that are to come have, and else for {@link #PATIENCE_MILLIS}: then whoever is missing is known
 * by name. Whatever else a rank says goes behind what it has said before, so {@link #flush} comes first. Guarded by the
 * agent's lock, which whoever calls it holds.
 */
public final class HostVoice {
    /** The others wait for the last rank of the job anyway. */
    private static final int PATIENCE_MILLIS = 5;
    /** Well below the longest frame, which one rank may need. */
    private static final long MOST_BYTES = 16 << 20;

    private final Consumer<Message> coordinator;
    private final Runnable later;

    /** What the ranks in it say; of two messages that differ in this only one is pending. */
    private record Topic(long epoch, int attempt, int phase, int round) {
        static final int DETACHED = -1;
        static final int DONE = -2;

        static Topic of(final Contribute c) {
            return new Topic(c.epoch(), c.attempt(), c.phase(), c.round());
        }

        boolean isExchange() {
            return phase >= 0;
        }
    }

    private Topic topic;
    /** How many have spoken to it, also those whose word has gone already. */
    private int heard;
    private List<String> uids = new ArrayList<>();
    private Set<String> against = new LinkedHashSet<>();
    private Map<String, String> notes = new LinkedHashMap<>();
    private Map<String, byte[]> publish = new LinkedHashMap<>();
    private Set<String> want = new LinkedHashSet<>();
    private long bytes;
    /** When the last of the gates opened that are told of, by System.nanoTime. */
    private long opened;

    /**
     * @param coordinator is sent what is to be said
     * @param lock whoever calls this holds it
     */
    public HostVoice(final Consumer<Message> coordinator, final Lock lock) {
        this.coordinator = coordinator;
        later = () -> flushSoon(lock);
    }

    /** @param later has {@link #flush} called after {@link #PATIENCE_MILLIS} */
    HostVoice(final Consumer<Message> coordinator, final Runnable later) {
        this.coordinator = coordinator;
        this.later = later;
    }

    /** @param expected how many ranks of this host are to contribute to that exchange */
    public void contributes(final String uid, final Contribute c, final int expected) {
        final long more = c.publish().values().stream().mapToLong(value -> value.length).sum();
        begin(Topic.of(c), more);
        bytes += more;
        publish.putAll(c.publish());
        want.addAll(c.want());
        if (!c.agree()) {
            against.add(uid);
        }
        if (!c.note().isEmpty()) {
            notes.put(uid, c.note());
        }
        said(uid, expected);
    }

    /** @param expected how many ranks of this host are to detach */
    public void detached(final String uid, final long epoch, final int expected) {
        begin(new Topic(epoch, 0, Topic.DETACHED, 0), 0);
        said(uid, expected);
    }

    /**
     * A gate is open.
     *
     * @param openNanos for how long
     * @param expected how many ranks of this host are to open theirs
     */
    public void done(final String uid, final long epoch, final long openNanos, final int expected) {
        begin(new Topic(epoch, 0, Topic.DONE, 0), 0);
        final long at = System.nanoTime() - Math.max(0, openNanos);
        opened = uids.isEmpty() || at - opened > 0 ? at : opened;
        said(uid, expected);
    }

    private void begin(final Topic now, final long more) {
        if (!now.equals(topic)) {
            flush();
            topic = now;
            heard = 0;
        } else if (bytes + more > MOST_BYTES) {
            flush();
        }
    }

    private void said(final String uid, final int expected) {
        uids.add(uid);
        heard++;
        if (heard >= expected) {
            flush();
        } else if (uids.size() == 1) {
            later.run();
        }
    }

    /** Says what has not been said yet. */
    public void flush() {
        if (uids.isEmpty()) {
            return;
        }
        coordinator.accept(topic.isExchange()
                ? new HostContribution(topic.epoch, topic.attempt, (byte) topic.phase, topic.round, uids, against,
                notes, publish, want)
                : topic.phase == Topic.DONE
                        ? new HostRanks(topic.epoch, true, System.nanoTime() - opened, uids)
                        : new HostRanks(topic.epoch, false, 0, uids));
        uids = new ArrayList<>();
        against = new LinkedHashSet<>();
        notes = new LinkedHashMap<>();
        publish = new LinkedHashMap<>();
        want = new LinkedHashSet<>();
        bytes = 0;
    }

    private void flushSoon(final Lock lock) {
        Thread.ofVirtual().name("host voice").start(() -> {
            try {
                Thread.sleep(PATIENCE_MILLIS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            lock.lock();
            try {
                flush();
            } finally {
                lock.unlock();
            }
        });
    }
}
