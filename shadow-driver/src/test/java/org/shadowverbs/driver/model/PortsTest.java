// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_gid_entry;
import org.shadowverbs.bindings.verbs.ibv_port_attr;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;

final class PortsTest {
    private static final Gid FIRST = new Gid(0xfe80L << 48, 0x11);
    private static final Gid SECOND = new Gid(0xfe80L << 48, 0x22);

    private final Context context = new Context(1, 101, 5, "mlx5_0", 2, 0, 0, IdMasks.IDENTITY);
    private int ports = 2;
    private int lid = 7;
    private final Backend backend = new Fake(16).answer("queryPort", args -> {
        if ((int) args[1] > ports) {
            return VerbsErrno.EINVAL;
        }
        ibv_port_attr.lid((MemorySegment) args[2], (short) (lid + (int) args[1]));
        ibv_port_attr.gid_tbl_len((MemorySegment) args[2], 1);
        return 0;
    }).answer("queryGidTable", args -> {
        for (int i = 0; i < ports; i++) {
            final MemorySegment entry = ibv_gid_entry.asSlice((MemorySegment) args[1], i);
            ibv_gid_entry.port_num(entry, i + 1);
            Structs.gid(ibv_gid_entry.gid(entry), i == 0 ? FIRST : SECOND);
        }
        return ports;
    }).as(Backend.class);

    /** A job that has used the first port only goes on, and the program still knows the second one's addresses. */
    @Test
    void aPortThatTheNextDeviceDoesNotHaveKeepsItsAddresses() {
        Ports.refresh(backend, context, IdMasks.IDENTITY);
        context.reattached = true;
        ports = 1;
        lid = 0x50;
        Ports.refresh(backend, context, IdMasks.IDENTITY);
        assertEquals(8, context.port(1).virtualLid);
        assertEquals(0x51, context.port(1).realLid);
        assertEquals(9, context.port(2).virtualLid);
        assertEquals(0, context.port(2).realLid);
        assertEquals(SECOND, context.port(2).gidAt(0).virtual);
        assertEquals(-1, context.port(2).gidAt(0).realIndex);
        // And back.
        ports = 2;
        Ports.refresh(backend, context, IdMasks.IDENTITY);
        assertEquals(0x52, context.port(2).realLid);
        assertEquals(0, context.port(2).gidAt(0).realIndex);
    }

    @Test
    void aDeviceThatCannotBeAskedIsAnError() {
        ports = 1;
        assertEquals(VerbsErrno.EINVAL, assertThrows(VerbsException.class,
                () -> Ports.refresh(backend, context, IdMasks.IDENTITY)).errno());
    }
}
