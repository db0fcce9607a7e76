// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import org.shadowverbs.bindings.verbs.ibv_ah;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_pd;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.TcpStructs;

/** An address handle: struct sv_tcp_ah. The engine does not know of it; who posts a datagram copies the GID out of it. */
final class AddressHandle {
    private static final ValueLayout.OfLong NETWORK_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private AddressHandle() {
    }

    static long create(final Posix posix, final long pd, final MemorySegment attr) {
        final MemorySegment route = ibv_ah_attr.grh(attr);
        final long prefix = ibv_global_route.dgid(route).get(NETWORK_LONG, 0);
        if (!names(attr)) {
            throw new DeviceException(Posix.EINVAL, "make a handle for an address without a GID");
        }
        final long address = posix.allocate(Layouts.AH_SIZE);
        final MemorySegment struct = TcpStructs.at(address, ibv_ah.sizeof());
        ibv_ah.context(struct, ibv_pd.context(TcpStructs.at(pd, ibv_pd.sizeof())));
        ibv_ah.pd(struct, MemorySegment.ofAddress(pd));
        Memory.i64(address + Layouts.AH_GID_PREFIX, prefix);
        Memory.i64(address + Layouts.AH_GID_INTERFACE, ibv_global_route.dgid(route).get(NETWORK_LONG, 8));
        Memory.i32(address + Layouts.AH_SL, ibv_ah_attr.sl(attr) & 15);
        return address;
    }

    /** Whether attributes of an address name a process or a multicast group, as seen from the only GID of the only port. */
    static boolean names(final MemorySegment attr) {
        return ibv_ah_attr.is_global(attr) != 0 && ibv_ah_attr.port_num(attr) == 1
                && ibv_global_route.sgid_index(ibv_ah_attr.grh(attr)) == 0;
    }
}
