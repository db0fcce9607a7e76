// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import java.util.Arrays;
import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * Acknowledgements for which there is no queue pair to send them: negative ones, and those of a queue pair that has ended after
 * its owner had seen what is acknowledged. In one attempt of a peer's queue pair the first negative one counts: it acknowledges
 * what was before it, and nothing after it matters.
 */
public final class OrphanAcks extends Sender {
    /** Stands in place of the code of a negative one. */
    public static final int POSITIVE = -1;
    private static final int FIELDS = 5;

    private int[] fields = new int[4 * FIELDS];
    private int count;

    void add(final int code, final int to, final int from, final int sequence, final int attempt) {
        int at = 0;
        while (at < count * FIELDS && (fields[at + 1] != to || fields[at + 2] != from)) {
            at += FIELDS;
        }
        if (at == count * FIELDS) {
            if (at == fields.length) {
                fields = Arrays.copyOf(fields, at * 2);
            }
            count++;
        } else if (fields[at + 4] == attempt && (fields[at] != POSITIVE || code == POSITIVE)) {
            return;
        }
        fields[at] = code;
        fields[at + 1] = to;
        fields[at + 2] = from;
        fields[at + 3] = sequence;
        fields[at + 4] = attempt;
    }

    @Override
    public boolean fill(final Batch batch) {
        if (count > 0) {
            final int at = --count * FIELDS;
            final boolean positive = fields[at] == POSITIVE;
            Frame.start(batch.header(), positive ? Frame.ACK : Frame.NAK, positive ? 0 : fields[at], fields[at + 4],
                    fields[at + 1], fields[at + 2], fields[at + 3]);
        }
        return count > 0;
    }
}
