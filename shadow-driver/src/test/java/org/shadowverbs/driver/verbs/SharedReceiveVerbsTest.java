// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.abi.sv_qp_spec;
import org.shadowverbs.bindings.abi.sv_srq_spec;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr_ex;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.reattach.RealObjects;
import org.shadowverbs.ids.IdMasks;

/** Shared receive queues, over a library and a device that only take notes. */
class SharedReceiveVerbsTest {
    private final Arena arena = Arena.ofAuto();
    private final Fake library = new Fake(0x10_0000);
    private final Fake device = new Fake(0x20_0000);
    private final Model model = new Model(IdMasks.IDENTITY);
    private ChosenBackend backend;
    private SharedReceiveVerbs verbs;
    private QueuePairVerbs queuePairs;

    @BeforeEach
    void setUp() {
        final Native nativeFake = library.as(Native.class);
        backend = new ChosenBackend(device.as(Backend.class));
        verbs = new SharedReceiveVerbs(nativeFake, backend, model);
        queuePairs = new QueuePairVerbs(nativeFake, backend, model, new KeyMaps(nativeFake), null);
        final Context context = new Context(1, 101, 5, "shadow0", 1, 0, 0, IdMasks.IDENTITY);
        final Cq cq = new Cq(6, context, null, 0, 10, 0, 0);
        model.contexts.add(context);
        model.pds.add(new Pd(2, 102, context));
        model.cqs.add(cq);
    }

    private MemorySegment init(final int maxWr) {
        final MemorySegment init = ibv_srq_init_attr.allocate(arena);
        ibv_srq_init_attr.srq_context(init, MemorySegment.ofAddress(0xabc));
        ibv_srq_attr.max_wr(ibv_srq_init_attr.attr(init), maxWr);
        ibv_srq_attr.max_sge(ibv_srq_init_attr.attr(init), 2);
        ibv_srq_attr.srq_limit(ibv_srq_init_attr.attr(init), 99);
        return init;
    }

    /** The device gives more than was asked for: the application and the log know. */
    @Test
    void theSizesAreTheDevices() {
        final MemorySegment init = init(100);
        device.answer("createSrq", args -> {
            final MemorySegment real = (MemorySegment) args[1];
            assertEquals(102L, args[0]);
            assertEquals(0, ibv_srq_attr.srq_limit(ibv_srq_init_attr.attr(real)));
            ibv_srq_attr.max_wr(ibv_srq_init_attr.attr(real), 128);
            return 777L;
        });
        library.answer("srqOpen", args -> {
            assertEquals(128, sv_srq_spec.max_wr((MemorySegment) args[1]));
            assertEquals(2, sv_srq_spec.max_sge((MemorySegment) args[1]));
            assertEquals(0xabc, sv_srq_spec.srq_context((MemorySegment) args[1]).address());
            return 0;
        });
        final long srq = verbs.create(2, init);
        assertEquals(128, ibv_srq_attr.max_wr(ibv_srq_init_attr.attr(init)));
        assertTrue(library.calls.contains("srqBind " + srq));
        assertEquals(0, verbs.destroy(srq));
        assertEquals(List.of("destroySrq 777"), device.calls.stream().filter(c -> c.startsWith("destroy")).toList());
        assertTrue(model.srqs.inOrder().isEmpty());
    }

    @Test
    void whatFailsHalfwayIsUndone() {
        library.answer("srqOpen", args -> VerbsErrno.ENOMEM);
        assertEquals(VerbsErrno.ENOMEM, assertThrows(VerbsException.class, () -> verbs.create(2, init(1))).errno());
        assertEquals(1, device.count("destroySrq"));
        assertEquals(1, library.count("srqFree"));
    }

    @Test
    void onlyPlainOnesAreMadeTheExtendedWay() {
        final MemorySegment init = ibv_srq_init_attr_ex.allocate(arena);
        ibv_srq_init_attr_ex.pd(init, MemorySegment.ofAddress(2));
        ibv_srq_init_attr_ex.comp_mask(init, verbs_h.IBV_SRQ_INIT_ATTR_PD() | verbs_h.IBV_SRQ_INIT_ATTR_TYPE());
        ibv_srq_init_attr_ex.srq_type(init, verbs_h.IBV_SRQT_BASIC());
        assertTrue(verbs.createEx(init) != 0);
        ibv_srq_init_attr_ex.srq_type(init, verbs_h.IBV_SRQT_TM());
        assertEquals(VerbsErrno.EOPNOTSUPP, assertThrows(VerbsException.class, () -> verbs.createEx(init)).errno());
        ibv_srq_init_attr_ex.comp_mask(init, 0);
        assertEquals(VerbsErrno.EINVAL, assertThrows(VerbsException.class, () -> verbs.createEx(init)).errno());
    }

    @Test
    void aQueuePairTakesItsReceivesFromIt() {
        device.answer("createSrq", args -> 777L);
        final long srq = verbs.create(2, init(10));
        final MemorySegment init = ibv_qp_init_attr.allocate(arena);
        ibv_qp_init_attr.qp_type(init, verbs_h.IBV_QPT_RC());
        ibv_qp_init_attr.send_cq(init, MemorySegment.ofAddress(6));
        ibv_qp_init_attr.recv_cq(init, MemorySegment.ofAddress(6));
        ibv_qp_init_attr.srq(init, MemorySegment.ofAddress(srq));
        device.answer("qpNum", args -> 500);
        device.answer("createQp", args -> {
            assertEquals(777, ibv_qp_init_attr.srq((MemorySegment) args[1]).address());
            return 888L;
        });
        library.answer("qpOpen", args -> {
            assertEquals(srq, sv_qp_spec.srq((MemorySegment) args[1]).address());
            return 0;
        });
        final long qp = queuePairs.create(2, init);
        assertEquals(1, library.count("qpOpen"));
        final MemorySegment answer = ibv_qp_init_attr.allocate(arena);
        assertEquals(0, queuePairs.query(qp, ibv_qp_attr.allocate(arena), 0, answer));
        assertEquals(srq, ibv_qp_init_attr.srq(answer).address());
    }

    /** A limit that has not been reached is armed again, behind the receives; one that has been is not. */
    @Test
    void theLimitComesBack() throws Refusal {
        final long armed = verbs.create(2, init(10));
        final long reached = verbs.create(2, init(10));
        device.answer("querySrq", args -> {
            ibv_srq_attr.srq_limit((MemorySegment) args[1],
                    (long) args[0] == model.srqs.get(armed).real ? 3 : 0);
            return 0;
        });
        final RealObjects realObjects = new RealObjects(library.as(Native.class), backend, model, queuePairs);
        assertNull(realObjects.destroy());
        assertEquals(2, device.count("destroySrq"));
        realObjects.create();
        assertEquals(4, device.count("createSrq"));
        device.answer("modifySrq", args -> {
            assertEquals(model.srqs.get(armed).real, args[0]);
            assertEquals(3, ibv_srq_attr.srq_limit((MemorySegment) args[1]));
            assertEquals(verbs_h.IBV_SRQ_LIMIT(), args[2]);
            return 0;
        });
        assertEquals(0, SharedReceiveVerbs.armLimit(backend.now(), model.srqs.get(armed)));
        assertEquals(0, SharedReceiveVerbs.armLimit(backend.now(), model.srqs.get(reached)));
        assertEquals(1, device.count("modifySrq"));
    }

    @Test
    void aSizeThatTheDeviceTakesIsTheOneToMakeItAnewWith() {
        final long srq = verbs.create(2, init(10));
        final MemorySegment attr = ibv_srq_attr.allocate(arena);
        ibv_srq_attr.max_wr(attr, 20);
        assertEquals(0, verbs.modify(srq, attr, verbs_h.IBV_SRQ_LIMIT()));
        assertEquals(10, model.srqs.get(srq).maxWr);
        device.answer("modifySrq", args -> VerbsErrno.ENOMEM);
        assertEquals(VerbsErrno.ENOMEM, verbs.modify(srq, attr, verbs_h.IBV_SRQ_MAX_WR()));
        assertEquals(10, model.srqs.get(srq).maxWr);
        device.answer("modifySrq", args -> 0);
        assertEquals(0, verbs.modify(srq, attr, verbs_h.IBV_SRQ_MAX_WR()));
        assertEquals(20, model.srqs.get(srq).maxWr);
    }
}
