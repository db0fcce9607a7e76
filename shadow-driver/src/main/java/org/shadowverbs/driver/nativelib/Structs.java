// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import org.shadowverbs.ids.Gid;

/** Structs of the application and of the verbs library, given by address. */
@SuppressWarnings("restricted")
public final class Structs {
    private static final ValueLayout.OfLong NETWORK_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private Structs() {
    }

    /** @throws VerbsException EINVAL: a null pointer */
    public static MemorySegment at(final long address, final long size) {
        if (address == 0) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return MemorySegment.ofAddress(address).reinterpret(size);
    }

    public static Gid gid(final MemorySegment raw) {
        return new Gid(raw.get(NETWORK_LONG, 0), raw.get(NETWORK_LONG, 8));
    }

    public static void gid(final MemorySegment raw, final Gid gid) {
        raw.set(NETWORK_LONG, 0, gid.prefix());
        raw.set(NETWORK_LONG, 8, gid.interfaceId());
    }
}
