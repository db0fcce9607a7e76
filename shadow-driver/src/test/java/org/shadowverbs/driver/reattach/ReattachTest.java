// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.reattach;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Mr;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Registration;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Timings;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.verbs.QueuePairVerbs;
import org.shadowverbs.ids.IdMasks;

/** The queue pairs' way back, on a device that is as strict about their states as the kernel's table. */
class ReattachTest {
    private static final int RESET = 0;
    private static final int INIT = 1;
    private static final int RTR = 2;
    private static final int RTS = 3;
    private static final int ERR = 6;
    private static final int RC = 2;
    private static final int UD = 4;

    private final Fake library = new Fake(0x10_0000);
    private final Fake device = new Fake(0x20_0000);
    private final Model model = new Model(IdMasks.IDENTITY);
    private final Map<Long, Integer> states = new HashMap<>();
    private final StringBuilder said = new StringBuilder();
    private Context context;
    private Pd pd;
    private Cq cq;
    private long refused;
    private Reattach reattach;

    @BeforeEach
    void setUp() {
        final Native nativeFake = library.as(Native.class);
        final ChosenBackend backend = new ChosenBackend(device.as(Backend.class));
        final KeyMaps keyMaps = new KeyMaps(nativeFake);
        final QueuePairVerbs verbs = new QueuePairVerbs(nativeFake, backend, model, keyMaps, null);
        reattach = new Reattach(nativeFake, backend, model, verbs, keyMaps,
                new RealObjects(nativeFake, backend, model, verbs), new Timings(nativeFake, false));
        library.answer("say", args -> {
            said.append(args[0]).append('\n');
            return null;
        });
        device.answer("modifyQp", args -> modify((Long) args[0], (MemorySegment) args[1], (Integer) args[2]));
        context = new Context(1, 101, 5, "shadow0", 1, 0, 0, IdMasks.IDENTITY);
        pd = new Pd(2, 102, context);
        cq = new Cq(6, context, null, 5, 10, 0, 0);
        cq.real = 106;
        model.contexts.add(context);
        model.pds.add(pd);
        model.cqs.add(cq);
        Ports.ensure(backend.now(), context, model.masks);
    }

    /** As drivers/infiniband/core/verbs.c has it, of the transitions that occur here. */
    private int modify(final long qp, final MemorySegment attr, final int mask) {
        final int from = states.getOrDefault(qp, RESET);
        final int to = (mask & verbs_h.IBV_QP_STATE()) == 0 ? from : ibv_qp_attr.qp_state(attr);
        final boolean datagrams = qp >= 400;
        final int init = verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
                | (datagrams ? verbs_h.IBV_QP_QKEY() : verbs_h.IBV_QP_ACCESS_FLAGS());
        final boolean next = to == from + 1 && (to != INIT || (mask & ~verbs_h.IBV_QP_STATE()) == init);
        final boolean error = to == ERR && from != RESET && mask == verbs_h.IBV_QP_STATE();
        if (!next && !error || qp == refused && to == RTR) {
            return VerbsErrno.EINVAL;
        }
        states.put(qp, to);
        return 0;
    }

    private Qp queuePair(final long real, final int type, final int state) {
        final Qp qp = new Qp(real - 100, real, (int) real, context, pd, null, cq, cq, null, type, (int) real, false, 0, 10, 10, 1, 1,
                0);
        final MemorySegment attr = ibv_qp_attr.allocate(Arena.ofAuto());
        for (int s = INIT; s <= Math.min(state, RTS); s++) {
            ibv_qp_attr.qp_state(attr, s);
            ibv_qp_attr.port_num(attr, (byte) 1);
            qp.attributes.record(attr, verbs_h.IBV_QP_STATE() | (s != INIT ? 0 : verbs_h.IBV_QP_PKEY_INDEX()
                    | verbs_h.IBV_QP_PORT() | (type == UD ? verbs_h.IBV_QP_QKEY() : verbs_h.IBV_QP_ACCESS_FLAGS())));
        }
        if (state == ERR) {
            qp.attributes.failed();
        }
        model.qps.add(qp);
        return qp;
    }

    @Test
    void everyStateIsReachedByTransitionsThatDriversAllow() throws Refusal {
        for (final int state : new int[] {RESET, INIT, RTR, RTS, ERR}) {
            queuePair(300 + state, RC, state);
            queuePair(400 + state, UD, state);
        }
        // In error, and nothing is known of how it got there.
        queuePair(310, RC, RESET).attributes.failed();
        queuePair(410, UD, RESET).attributes.failed();
        reattach.train();
        assertEquals("", said.toString());
        for (final int state : new int[] {RESET, INIT, RTR, RTS, ERR}) {
            assertEquals(state, states.getOrDefault(300L + state, RESET));
            assertEquals(state, states.getOrDefault(400L + state, RESET));
        }
        assertEquals(ERR, states.get(310L));
        assertEquals(ERR, states.get(410L));
    }

    @Test
    void oneThatCannotBeBroughtBackIsInErrorAndNoOther() throws Refusal {
        final Qp good = queuePair(300, RC, RTS);
        final Qp bad = queuePair(301, RC, RTS);
        refused = bad.real;
        reattach.train();
        assertEquals(RTS, states.get(good.real));
        assertEquals(RTS, good.attributes.state());
        assertEquals(ERR, states.get(bad.real), "the real one, too: its requests are flushed");
        assertEquals(ERR, bad.attributes.state());
        assertEquals(List.of("qpFail " + bad.virtual), library.calls.stream().filter(c -> c.startsWith("qpFail")).toList());
        assertTrue(said.toString().contains(bad.name() + " cannot be brought to state 2 again: EINVAL"), said.toString());
        assertFalse(said.toString().contains(good.name()));
    }

    /** The checkpoint is as good as before, and may be restarted elsewhere: nobody is to lose a connection by this attempt. */
    @Test
    void ofARestoredProcessItEndsTheRestart() {
        refused = queuePair(301, RC, RTS).real;
        reattach.restored();
        final Refusal refusal = assertThrows(Refusal.class, reattach::train);
        assertTrue(refusal.getMessage().contains("cannot be brought to state 2 again: EINVAL"), refusal.getMessage());
    }

    /** Soft-RoCE gives rkey 0 to all regions that no peer may access; here each gets keys of its own. */
    @Test
    void regionsThatShareAKeyAreCarriedOver() throws Refusal {
        final int local = 1;
        final int remote = 7;
        for (int i = 0; i < 3; i++) {
            model.mrs.add(new Mr(500 + i, 600 + i, pd, Registration.memory(0x1000, 4096, 0x1000, i == 2 ? remote : local), 10 + i,
                    i == 2 ? 12 : 0));
        }
        device.answer("lkey", args -> (int) (long) args[0]);
        device.answer("rkey", args -> (int) (long) args[0]);
        reattach.train();
        assertEquals(601, context.localKeys.realOf(11));
        assertEquals(602, context.remoteKeys.realOf(12));
        assertEquals(0, context.remoteKeys.realOf(0), "none of them");
    }
}
