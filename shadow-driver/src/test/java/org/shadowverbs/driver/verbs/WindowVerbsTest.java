// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Mw;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.IdMasks;

/** Memory windows: their blocks of keys, and binding them again. */
class WindowVerbsTest {
    private static final long VQP = 7;

    private final Fake library = new Fake(0x10_0000);
    private final Fake device = new Fake(0x20_0000);
    private final Model model = new Model(IdMasks.IDENTITY);
    private final Context context = new Context(1, 101, 5, "shadow0", 1, 0, 0, IdMasks.IDENTITY);
    private final Pd pd = new Pd(2, 102, context);
    private WindowVerbs windows;
    private Qp qp;

    @BeforeEach
    void setUp() {
        windows = new WindowVerbs(library.as(Native.class), new ChosenBackend(device.as(Backend.class)), model);
        final Cq cq = new Cq(6, context, null, 0, 10, 0, 0);
        qp = new Qp(VQP, 107, 0, pd.context, pd, null, cq, cq, null, verbs_h.IBV_QPT_RC(), 77, false, 0, 10, 10, 1, 1, 0);
        model.contexts.add(context);
        model.pds.add(pd);
        model.qps.add(qp);
    }

    private void state(final int state) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(attr, state);
            qp.attributes.record(attr, verbs_h.IBV_QP_STATE());
        }
    }

    private Mw bound(final int type) {
        final Mw mw = model.mws.get(windows.alloc(2, type));
        library.answer("mwBound", args -> 1);
        library.answer("mwQp", args -> VQP);
        return mw;
    }

    @Test
    void aBlockWithACarriedOverKeyInItIsReplaced() {
        final int[] next = {0x4501};
        device.answer("mwRkey", args -> next[0]);
        device.answer("allocMw", args -> {
            next[0] += 0x100;
            return (long) next[0];
        });
        // The last key of one block, and a real one in the next.
        final ExceptionSet carried = ExceptionSet.of(new int[] {0x46ff}, new int[] {0x4780}, 1);
        context.remoteKeys.reattached(carried, List.of());
        final Mw mw = model.mws.get(windows.alloc(2, 2));
        assertEquals(0x4800, mw.block);
        assertEquals(2, device.count("deallocMw"));
        assertEquals(0, windows.dealloc(mw.virtual));
        assertEquals(0, model.mws.size());
        assertEquals(1, library.count("mwFree"));
    }

    @Test
    void aBoundWindowIsBoundAgainThroughItsQueuePair() throws Refusal {
        state(verbs_h.IBV_QPS_RTS());
        final Mw mw = bound(verbs_h.IBV_MW_TYPE_2());
        windows.recreate(mw);
        library.answer("mwRebind", args -> {
            assertEquals(VQP, args[1]);
            return 0;
        });
        windows.rebind();
        assertEquals(1, library.count("mwRebind"));
        assertEquals(0, library.count("mwUnbind"));
        library.answer("mwRebind", args -> VerbsErrno.EIO);
        assertTrue(assertThrows(Refusal.class, windows::rebind).getMessage().contains("queue pair 0x4d"));
    }

    @Test
    void ofAQueuePairInErrorItGoesUnbound() throws Refusal {
        state(verbs_h.IBV_QPS_ERR());
        bound(verbs_h.IBV_MW_TYPE_2());
        windows.rebind();
        assertEquals(0, library.count("mwRebind"));
        assertEquals(1, library.count("mwUnbind"));
        assertEquals(0, library.count("say"), "nobody can use it there");
    }

    @Test
    void aWindowOfTypeOneIsBoundThroughAnyQueuePair() throws Refusal {
        state(verbs_h.IBV_QPS_RTS());
        bound(verbs_h.IBV_MW_TYPE_1());
        library.answer("mwQp", args -> 0L);
        windows.rebind();
        assertTrue(library.calls.stream().anyMatch(c -> c.startsWith("mwRebind")));
        state(verbs_h.IBV_QPS_ERR());
        windows.rebind();
        assertEquals(1, library.count("mwUnbind"));
        assertEquals(1, library.count("say"));
    }

    @Test
    void memoryThatIsGoneIsNamed() throws Refusal {
        state(verbs_h.IBV_QPS_RTS());
        bound(verbs_h.IBV_MW_TYPE_2());
        library.answer("mwRebind", args -> VerbsErrno.EINVAL);
        windows.rebind();
        assertEquals(1, library.count("mwUnbind"));
        assertEquals(1, library.count("say"));
    }
}
