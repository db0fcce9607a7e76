// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import java.util.Arrays;

/**
 * Acknowledgements that no queue pair is there to send: negative ones, and those of a queue pair that has ended after its
 * owner had seen what is acknowledged. Of one attempt of a peer's queue pair the first negative one counts: what comes after
 * it is of no more interest, and it acknowledges what was before it.
 */
final class Strays extends Sender {
    /** In place of the code of a negative one. */
    static final int POSITIVE = -1;
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
    boolean fill(final Batch batch) {
        if (count > 0) {
            final int at = --count * FIELDS;
            final boolean positive = fields[at] == POSITIVE;
            Frame.start(batch.header(), positive ? Frame.ACK : Frame.NAK, positive ? 0 : fields[at], fields[at + 4],
                    fields[at + 1], fields[at + 2], fields[at + 3]);
        }
        return count > 0;
    }
}
