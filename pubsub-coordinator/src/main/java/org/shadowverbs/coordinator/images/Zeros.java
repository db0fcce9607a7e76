// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.nio.ByteBuffer;

/** Finds pages that hold nothing but zeros. */
final class Zeros {
    static final int PAGE = 4096;

    private Zeros() {
    }

    /** What is done with a run of such pages. */
    interface Run {
        void found(int from, int bytes);
    }

    /** Finds the runs of whole pages of zeros in what is left in a buffer, which begins with a page. */
    static void runs(final ByteBuffer block, final Run run) {
        int begin = -1;
        for (int page = 0; page < block.remaining(); page += PAGE) {
            final boolean zero = page + PAGE <= block.remaining() && isZero(block, block.position() + page);
            if (zero && begin < 0) {
                begin = page;
            } else if (!zero && begin >= 0) {
                run.found(begin, page - begin);
                begin = -1;
            }
        }
        if (begin >= 0) {
            run.found(begin, block.remaining() - begin);
        }
    }

    private static boolean isZero(final ByteBuffer block, final int from) {
        for (int at = from; at < from + PAGE; at += Long.BYTES) {
            if (block.getLong(at) != 0) {
                return false;
            }
        }
        return true;
    }
}
