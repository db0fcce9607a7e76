// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * What one process knows of an XRC domain: its own shared receive queues, what has come to them by way of the queue pairs of
 * others, and its own queue pairs that receive, with what came to its own queues for them. Immutable once it is published.
 */
final class Share {
    /** A queue pair that receives, and is connected. */
    record Target(int number, long received, DrainRecord heard) {
    }

    /** {@link Pool.Queue#srq} is null. */
    final List<Pool.Queue> queues = new ArrayList<Pool.Queue>();
    /** Landings posted in this drain in all, to these queues. */
    long landingsPosted;
    /** Messages that have come here for the queue pairs of others, by (virtual) number. */
    final Map<Integer, Long> foreignQps = new TreeMap<Integer, Long>();
    final List<Target> targets = new ArrayList<Target>();
    /** Numbers of queue pairs that received before and do so no more, or were reset: what others know of them is not of now. */
    final Set<Integer> ended = new TreeSet<Integer>();

    /** All but what the senders have said. */
    private byte[] counts() {
        final RecordWriter out = new RecordWriter(256);
        writeCounts(out);
        return out.toByteArray();
    }

    /** Nothing has come, and nothing was posted, in between. */
    boolean sameCounts(final Share other) {
        return Arrays.equals(counts(), other.counts());
    }

    private void writeCounts(final RecordWriter out) {
        out.i32(queues.size());
        for (final Pool.Queue queue : queues) {
            out.i32(queue.number).i64(queue.receives).i32(queue.landings);
        }
        out.i64(landingsPosted).i32(foreignQps.size());
        foreignQps.forEach((number, received) -> out.i32(number).i64(received));
        out.i32(targets.size());
        for (final Target target : targets) {
            out.i32(target.number).i64(target.received);
        }
        out.i32(ended.size());
        ended.forEach(out::i32);
    }

    void write(final RecordWriter out) {
        writeCounts(out);
        for (final Target target : targets) {
            out.i8(target.heard == null ? 0 : 1);
            if (target.heard != null) {
                target.heard.write(out);
            }
        }
    }

    static Share read(final RecordReader in) {
        final Share share = new Share();
        for (int left = in.count(16); left > 0; left--) {
            final Pool.Queue queue = new Pool.Queue(null, in.i32());
            queue.receives = in.i64();
            queue.landings = in.i32();
            share.queues.add(queue);
        }
        share.landingsPosted = in.i64();
        for (int left = in.count(12); left > 0; left--) {
            share.foreignQps.put(in.i32(), in.i64());
        }
        final int[] numbers = new int[in.count(12)];
        final long[] received = new long[numbers.length];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = in.i32();
            received[i] = in.i64();
        }
        for (int left = in.count(4); left > 0; left--) {
            share.ended.add(in.i32());
        }
        for (int i = 0; i < numbers.length; i++) {
            share.targets.add(new Target(numbers[i], received[i], in.i8() == 0 ? null : DrainRecord.read(in)));
        }
        return share;
    }
}
