// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.reattach;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_alloc_dm_attr;
import org.shadowverbs.bindings.verbs.ibv_cq_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_moderate_cq;
import org.shadowverbs.bindings.verbs.ibv_modify_cq_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Channel;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Dm;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Mr;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Registration;
import org.shadowverbs.driver.model.Used;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.verbs.QueuePairVerbs;
import org.shadowverbs.ids.IdMasks;

/** Everything given back, and made anew. */
class RealObjectsTest {
    private static final long STAMPED = verbs_h.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP();

    private final Fake library = new Fake(0x10_0000);
    private final Fake device = new Fake(0x20_0000);
    private final Model model = new Model(IdMasks.IDENTITY);
    private final Arena arena = Arena.ofAuto();
    private RealObjects realObjects;
    private Mr mr;
    private Qp qp;

    @BeforeEach
    void setUp() {
        final Native nativeFake = library.as(Native.class);
        final ChosenBackend backend = new ChosenBackend(device.as(Backend.class));
        realObjects = new RealObjects(nativeFake, backend, model,
                new QueuePairVerbs(nativeFake, backend, model, new KeyMaps(nativeFake), null));
        final Context context = new Context(1, 101, 5, "shadow0", 1, 0, 0, IdMasks.IDENTITY);
        final Pd pd = new Pd(2, 102, context);
        mr = new Mr(3, 103, pd, Registration.memory(arena.allocate(4096).address(), 4096, 0, 7), 8, 9);
        final Channel channel = new Channel(4, 104, context);
        final Cq cq = new Cq(6, context, channel, 5, 10, 0, 0);
        cq.real = 106;
        qp = new Qp(7, 107, 0, pd.context, pd, null, cq, cq, null, 2, 77, false, 0, 10, 10, 1, 1, 0);
        model.contexts.add(context);
        model.pds.add(pd);
        model.mrs.add(mr);
        model.channels.add(channel);
        model.cqs.add(cq);
        model.qps.add(qp);
    }

    private static List<String> of(final Fake fake, final String... prefixes) {
        return fake.calls.stream().filter(c -> List.of(prefixes).stream().anyMatch(c::startsWith)).toList();
    }

    /** Before anything is made: an answer EINVAL of the device would not say which it is. */
    @Test
    void aLimitThatTheDeviceDoesNotHaveIsNamed() {
        final MemorySegment attr = ibv_qp_attr.allocate(arena);
        ibv_qp_attr.max_rd_atomic(attr, (byte) 128);
        qp.attributes.record(attr, verbs_h.IBV_QP_MAX_QP_RD_ATOMIC());
        final Needs needs = Used.of(model, qp.context(), 0);
        assertEquals(128, needs.limits().get("max_qp_init_rd_atom"));
        assertEquals(10 + Backend.CQ_ROOM, needs.limits().get("max_cqe"));
        assertEquals(11, needs.limits().get("max_qp_wr"), "with the marker's");
        assertEquals(1, needs.limits().get("max_mr"));
        realObjects.destroy();
        device.answer("limits", args -> Map.of("max_qp_init_rd_atom", 16L, "max_cqe", 1000L));
        device.answer("deviceName", args -> "mlx5_1");
        final Refusal refusal = assertThrows(Refusal.class, realObjects::create);
        assertEquals("max_qp_init_rd_atom 128 was used on device shadow0, and mlx5_1 has 16", refusal.getMessage());
        assertEquals(List.of(), of(device, "allocPd"));
    }

    @Test
    void theOrderIsThatOfDependence() throws Refusal {
        assertNull(realObjects.destroy());
        assertEquals(List.of("destroyQp 107", "destroyCq 106", "destroyChannel 104", "deregMr 103", "deallocPd 102",
                "closeDevice 101"), of(device, "destroy", "de", "close").stream()
                .filter(c -> !c.startsWith("devices") && !c.startsWith("deviceName")).toList());
        assertTrue(library.calls.indexOf("channelDrain 4") < library.calls.indexOf("qpBind 7"));
        assertTrue(library.calls.indexOf("contextDrain 1") < library.calls.indexOf("qpBind 7"));
        realObjects.create();
        assertEquals(List.of("openDevice", "allocPd", "regMr", "createChannel", "createCq", "createQp"),
                device.names().stream().filter(c -> c.startsWith("open") || c.startsWith("alloc")
                        || c.startsWith("reg") || c.startsWith("create")).toList());
        assertTrue(qp.real != 0 && qp.real != 107);
        assertEquals(7, qp.virtual);
    }

    @Test
    void regionsOfEveryKindComeBack() throws Refusal {
        final Context context = model.contexts.inOrder().get(0);
        final Pd pd = model.pds.inOrder().get(0);
        final Dm dm = new Dm(30, context, 10, 3);
        dm.real = 130;
        model.dms.add(dm);
        model.mrs.add(new Mr(31, 131, pd, Registration.device(dm, 4, 6, 2), 1, 2));
        model.mrs.add(new Mr(32, 132, pd, Registration.ofNothing(), 3, 4));
        final Mr buffer = new Mr(33, 133, pd, Registration.dmabuf(77, 0, 4096, 0x1000, 1), 5, 6);
        model.mrs.add(buffer);
        realObjects.destroy();
        assertTrue(device.calls.indexOf("deregMr 131") < device.calls.indexOf("freeDm 130"));
        assertTrue(library.calls.contains("dmBind 30"));
        device.answer("allocDm", args -> {
            assertEquals(12, ibv_alloc_dm_attr.length((MemorySegment) args[1]), "whole words");
            assertEquals(3, ibv_alloc_dm_attr.log_align_req((MemorySegment) args[1]));
            return 230L;
        });
        device.answer("regDmMr", args -> {
            assertEquals(List.of(230L, 4L, 6L, 2), List.of(args).subList(1, 5));
            return 231L;
        });
        device.answer("regDmabufMr", args -> {
            throw new VerbsException(9);
        });
        realObjects.create();
        assertEquals(1, device.count("allocNullMr"));
        assertEquals(1, device.count("regDmMr"));
        assertTrue(buffer.dead, "a buffer that is gone is a dead region and no reason to give up");
        assertEquals(1, library.count("say"));
        library.answer("dmBind", args -> (long) args[1] == 0 ? VerbsErrno.ENOMEM : 0);
        assertEquals("cannot save the contents of device memory: ENOMEM", realObjects.destroy());
    }

    @Test
    void anExtendedQueueComesBackWithItsFlagsAndItsModeration() throws Refusal {
        final Cq extended = new Cq(16, model.contexts.inOrder().get(0), null, 0, 20, STAMPED, 0);
        extended.real = 116;
        extended.moderationCount = 0xfff0;
        extended.moderationPeriod = 3;
        model.cqs.add(extended);
        device.answer("createCqEx", args -> {
            assertEquals(STAMPED, ibv_cq_init_attr_ex.wc_flags((MemorySegment) args[1]) & STAMPED);
            assertEquals(16, ibv_cq_init_attr_ex.cq_context((MemorySegment) args[1]).address());
            return 999L;
        });
        device.answer("modifyCq", args -> {
            final MemorySegment moderation = ibv_modify_cq_attr.moderate((MemorySegment) args[1]);
            assertEquals(999L, args[0]);
            assertEquals((short) 0xfff0, ibv_moderate_cq.cq_count(moderation));
            assertEquals(3, ibv_moderate_cq.cq_period(moderation));
            return 0;
        });
        realObjects.destroy();
        realObjects.create();
        assertEquals(1, device.count("createCqEx"));
        assertEquals(1, device.count("modifyCq"), "and not the queue that nobody moderated");
        device.answer("createCqEx", args -> {
            throw new VerbsException(VerbsErrno.EOPNOTSUPP);
        });
        realObjects.destroy();
        assertTrue(assertThrows(Refusal.class, realObjects::create).getMessage().contains("wc_flags 0x80"));
    }

    @Test
    void whatIsDestroyedIsNotDestroyedTwice() {
        realObjects.destroy();
        final long calls = device.count("destroyQp") + device.count("closeDevice");
        assertNull(realObjects.destroy());
        assertEquals(calls, device.count("destroyQp") + device.count("closeDevice"));
    }

    @Test
    void oneThatIsBusyIsNamedAndTheRestGoes() {
        device.answer("destroyCq", args -> VerbsErrno.EBUSY);
        assertEquals("cannot destroy a completion queue: EBUSY", realObjects.destroy());
        assertEquals(1, device.count("closeDevice"));
    }

    @Test
    void aRegionWhoseMemoryIsGoneIsDeadAndTheRestComesBack() throws Refusal {
        mr.what = Registration.memory(16, 4096, 0, 7);
        realObjects.destroy();
        realObjects.create();
        assertTrue(mr.dead);
        assertEquals(0, device.count("regMr"));
        assertEquals(1, library.count("say"));
        realObjects.destroy();
        realObjects.create();
        assertEquals(1, library.count("say"), "said once");
    }

    @Test
    void aHostWithoutADeviceIsARefusal() {
        realObjects.destroy();
        device.answer("devices", args -> new long[0]);
        library.answer("deviceReal", args -> 0L);
        assertTrue(assertThrows(Refusal.class, realObjects::create).getMessage().contains("no RDMA device"));
    }
}
