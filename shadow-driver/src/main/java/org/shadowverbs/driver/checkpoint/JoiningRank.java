// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.OwnKey;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * Tells a process that joins a running job which ids of the others are carried over. Every rank publishes when it begins an
 * epoch, and, with its ids, when it is back at work. A joining rank reads all that, and waits for ranks in between.
 */
final class JoiningRank {
    /** Numbers above a joining rank's own belong to ranks that came later; a few may have overtaken it. */
    private static final int OVERTAKEN = 64;
    private static final Duration LOOKUP_DEADLINE = Duration.ofSeconds(30);

    private JoiningRank() {
    }

    /** This rank's real objects may be gone soon. */
    static void begun(final RankLink link, final long epoch) throws IOException {
        final Map<String, byte[]> values = new HashMap<String, byte[]>();
        values.put(OwnKey.BEGUN.of(link.rank()), new RecordWriter(8).i64(epoch).toByteArray());
        link.publish(values);
    }

    /** @param ids what has become of this rank's ids, or null when they are what they were */
    static void back(final RankLink link, final long epoch, final OwnerRecord ids) throws IOException {
        final Map<String, byte[]> values = new HashMap<String, byte[]>();
        if (ids != null) {
            values.put(OwnKey.IDS.of(link.rank()), ids.encode());
        }
        values.put(OwnKey.BACK.of(link.rank()), new RecordWriter(8).i64(epoch).toByteArray());
        link.publish(values);
    }

    /**
     * @param epoch the last that this process was asked to take part in: who is in that one waits for us
     * @return the ids of all, or null while a rank is in an epoch that does not include us
     */
    static AddressBook read(final RankLink link, final long epoch) throws IOException {
        final int end = link.rank() + OVERTAKEN;
        final List<Integer> ranks = NumberedKeys.numbers(List.of(0, end - 1));
        final Set<String> keys = new LinkedHashSet<String>();
        for (final OwnKey key : OwnKey.values()) {
            NumberedKeys.want(keys, key.prefix(), ranks);
        }
        final Map<String, byte[]> found = link.lookup(keys, LOOKUP_DEADLINE);
        final List<OwnerRecord> owners = new ArrayList<OwnerRecord>();
        for (int rank = 0; rank < end; rank++) {
            final long begun = epochOf(found.get(OwnKey.BEGUN.of(rank)));
            if (begun > epochOf(found.get(OwnKey.BACK.of(rank))) && begun > epoch) {
                return null;
            }
            if (found.containsKey(OwnKey.IDS.of(rank))) {
                owners.add(OwnerRecord.decode(found.get(OwnKey.IDS.of(rank))));
            }
        }
        return new AddressBook(owners);
    }

    private static long epochOf(final byte[] record) {
        return record == null ? 0 : new RecordReader(record).i64();
    }
}
