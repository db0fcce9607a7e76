// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.List;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.LastWill;
import org.shadowverbs.coordinator.protocol.RankMessages.Tell;
import org.shadowverbs.coordinator.protocol.RankMessages.Told;

/**
 * What ranks say to one another by number, now or when they are gone. Guarded by the job's lock, which whoever calls it
 * holds.
 */
final class Tells {
    private final Members members;
    private final Published published;
    private final EventLog log;

    Tells(final Members members, final Published published, final EventLog log) {
        this.members = members;
        this.published = published;
        this.log = log;
    }

    /** Passes it on. To a rank that is not there any more nothing is sent. */
    void tell(final Rank from, final Tell tell) {
        for (final Rank rank : members.ranks()) {
            if (rank.number == tell.to()) {
                rank.agent.toRanks(List.of(rank.uid), new Told(from.number, tell.what()));
            }
        }
    }

    /**
     * Keeps what is to be said when the rank is gone, in place of what it had left before.
     *
     * @param frame the {@link LastWill} as it came, type and body
     */
    void keepWill(final Rank rank, final byte[] frame) {
        published.put(willOf(rank), frame);
    }

    /** The rank is gone: what it has left to be said is said. */
    void carryOutWill(final Rank rank) {
        final byte[] will = published.get(willOf(rank));
        try {
            if (will != null && Codec.decode(will) instanceof LastWill w) {
                w.tells().forEach(tell -> tell(rank, tell));
            }
        } catch (ProtocolException e) {
            log.add("the last will of " + rank + ": " + e.getMessage());
        }
    }

    void forgetWill(final Rank rank) {
        published.remove(willOf(rank));
    }

    private static String willOf(final Rank rank) {
        return "will/" + rank.number;
    }
}
