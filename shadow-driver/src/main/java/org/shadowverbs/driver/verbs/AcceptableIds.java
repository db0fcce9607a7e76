// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongConsumer;
import java.util.function.LongPredicate;
import java.util.function.LongSupplier;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.IdSpace;

/**
 * Makes real objects until one has an id that may be used ({@link IdSpace#accepts}). The others are held meanwhile, or their ids
 * would come again. Many drivers give ids out one after the other: on a fresh device as many are refused as objects were
 * carried over.
 */
final class AcceptableIds {
    /** So many more are made than ids are taken, for ids that are refused for other reasons. */
    static final int MARGIN = 64;

    private AcceptableIds() {
    }

    /**
     * @param what the id that was not found, for the message
     * @param spaces what the object has ids of
     */
    static long create(final String what, final List<IdSpace> spaces, final LongSupplier make, final LongPredicate accepts,
            final LongConsumer destroy) {
        final int most = MARGIN + spaces.stream().mapToInt(IdSpace::taken).sum();
        final List<Long> rejected = new ArrayList<>();
        try {
            while (rejected.size() < most) {
                final long real = make.getAsLong();
                if (accepts.test(real)) {
                    return real;
                }
                rejected.add(real);
            }
            throw new VerbsException(VerbsErrno.ENOMEM, "no " + what + " is free that nothing carried over has, after " + most
                    + " attempts");
        } finally {
            for (final long real : rejected.reversed()) {
                destroy.accept(real);
            }
        }
    }
}
