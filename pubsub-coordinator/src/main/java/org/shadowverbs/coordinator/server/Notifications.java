// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.List;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.ExitMessages;
import org.shadowverbs.coordinator.protocol.RankMessages.Notified;
import org.shadowverbs.coordinator.protocol.RankMessages.Notify;

/**
 * What ranks say to one another by number, now or when they are gone. Guarded by the job's lock, which whoever calls it
 * holds.
 */
final class Notifications {
    private final Members members;
    private final Published published;
    private final EventLog log;

    Notifications(final Members members, final Published published, final EventLog log) {
        this.members = members;
        this.published = published;
        this.log = log;
    }

    /** Passes it on. To a rank that is not there any more nothing is sent. */
    void tell(final Rank from, final Notify tell) {
        final Rank rank = members.rank(tell.to());
        if (rank != null) {
            rank.agent.toRanks(List.of(rank.uid), new Notified(from.number, tell.what()));
        }
    }

    /**
     * Keeps what is to be said when the rank is gone, in place of what it had left before.
     *
     * @param frame the {@link ExitMessages} as it came, type and body
     */
    void keepExitMessages(final Rank rank, final byte[] frame) {
        published.put(keyOf(rank), frame);
    }

    /** The rank is gone: what it has left to be said is said. */
    void deliverExitMessages(final Rank rank) {
        final byte[] left = published.get(keyOf(rank));
        try {
            if (left != null && Codec.decode(left) instanceof ExitMessages w) {
                w.messages().forEach(tell -> tell(rank, tell));
            }
        } catch (ProtocolException e) {
            log.add("the exit messages of " + rank + ": " + e.getMessage());
        }
    }

    void forgetExitMessages(final Rank rank) {
        published.remove(keyOf(rank));
    }

    private static String keyOf(final Rank rank) {
        return "exit-messages/" + rank.number;
    }
}
