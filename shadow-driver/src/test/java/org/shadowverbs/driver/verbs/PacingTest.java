// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.bindings.verbs.ibv_device_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_packet_pacing_caps;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_rate_limit_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.reattach.RealObjects;
import org.shadowverbs.driver.reattach.Reattach;
import org.shadowverbs.ids.IdMasks;

/** What a rate limit becomes when its queue pair is made anew. */
class PacingTest {
    private static final int STATE = verbs_h.IBV_QP_STATE();
    private static final int RATE_LIMIT = verbs_h.IBV_QP_RATE_LIMIT();
    private static final int RTR = verbs_h.IBV_QPS_RTR();
    private static final int RTS = verbs_h.IBV_QPS_RTS();

    private final Arena arena = Arena.ofAuto();
    private final Fake library = new Fake(0x10_0000);
    private final Fake device = new Fake(0x20_0000);
    private final List<String> given = new ArrayList<>();
    private final List<String> said = new ArrayList<>();
    private int types = 1 << verbs_h.IBV_QPT_RC();
    private Reattach reattach;
    private Qp qp;

    @BeforeEach
    void setUp() {
        final Model model = new Model(IdMasks.IDENTITY);
        final Context context = new Context(1, 101, 5, "shadow0", 0, 0, 0, IdMasks.IDENTITY);
        final Pd pd = new Pd(2, 102, context);
        final Cq cq = new Cq(6, context, null, 5, 10, 0, 0);
        qp = new Qp(7, 107, 0, context, pd, null, cq, cq, null, verbs_h.IBV_QPT_RC(), 77, false, 0, 10, 10, 1, 1, 0);
        model.contexts.add(context);
        model.qps.add(qp);
        device.answer("queryDeviceEx", args -> {
            assertEquals(101L, args[0]);
            final MemorySegment caps = ibv_device_attr_ex.packet_pacing_caps((MemorySegment) args[1]);
            ibv_packet_pacing_caps.qp_rate_limit_min(caps, 100);
            ibv_packet_pacing_caps.qp_rate_limit_max(caps, 0x9000_0000);
            ibv_packet_pacing_caps.supported_qpts(caps, types);
            return 0;
        });
        device.answer("modifyQp", args -> {
            final MemorySegment attr = (MemorySegment) args[1];
            final int mask = (int) args[2];
            given.add(((mask & STATE) == 0 ? "" : "to " + ibv_qp_attr.qp_state(attr))
                    + ((mask & RATE_LIMIT) == 0 ? "" : " rate " + ibv_qp_attr.rate_limit(attr)));
            return 0;
        });
        device.answer("modifyQpRateLimit", args -> {
            final MemorySegment attr = (MemorySegment) args[1];
            given.add("limit " + ibv_qp_rate_limit_attr.rate_limit(attr) + ' ' + ibv_qp_rate_limit_attr.max_burst_sz(attr)
                    + ' ' + ibv_qp_rate_limit_attr.typical_pkt_sz(attr));
            return 0;
        });
        library.answer("say", args -> said.add((String) args[0]));
        final Native nativeFake = library.as(Native.class);
        final ChosenBackend backend = new ChosenBackend(device.as(Backend.class));
        final KeyMaps keyMaps = new KeyMaps(nativeFake);
        final QueuePairVerbs queuePairs = new QueuePairVerbs(nativeFake, backend, model, keyMaps, null);
        reattach = new Reattach(nativeFake, backend, model, queuePairs, keyMaps,
                new RealObjects(nativeFake, backend, model, queuePairs), null);
    }

    /** As the application does it; rate 0: without. */
    private void modify(final int state, final int rate) {
        final MemorySegment attr = ibv_qp_attr.allocate(arena);
        ibv_qp_attr.qp_state(attr, state);
        ibv_qp_attr.rate_limit(attr, rate);
        qp.attributes.record(attr, rate == 0 ? STATE : STATE | RATE_LIMIT);
    }

    private void limit(final int rate, final int burst, final int packet) {
        final MemorySegment attr = ibv_qp_rate_limit_attr.allocate(arena);
        ibv_qp_rate_limit_attr.rate_limit(attr, rate);
        ibv_qp_rate_limit_attr.max_burst_sz(attr, burst);
        ibv_qp_rate_limit_attr.typical_pkt_sz(attr, (short) packet);
        qp.attributes.recordRateLimit(attr);
    }

    @Test
    void theLatestLimitComesBackInRtsByTheVerbThatHasSetIt() throws Refusal {
        modify(RTS, 500);
        limit(600, 4096, 1024);
        reattach.train();
        assertEquals(List.of("to 1", "to 2", "to 3", "limit 600 4096 1024"), given);
        given.clear();
        modify(RTS, 700);
        reattach.train();
        assertEquals(List.of("to 1", "to 2", "to 3", " rate 700"), given);
        assertEquals(List.of(), said);
    }

    @Test
    void oneThatWasTakenAwayDoesNotComeBack() throws Refusal {
        modify(RTS, 500);
        limit(0, 0, 0);
        reattach.train();
        assertEquals(List.of("to 1", "to 2", "to 3"), given);
        modify(RTS, 500);
        modify(verbs_h.IBV_QPS_RESET(), 0);
        modify(RTS, 0);
        given.clear();
        reattach.train();
        assertEquals(List.of("to 1", "to 2", "to 3"), given);
    }

    @Test
    void whatStaysInRtrHasItsLimitThere() throws Refusal {
        modify(RTR, 500);
        reattach.train();
        assertEquals(List.of("to 1", "to 2 rate 500"), given);
        types = 0;
        given.clear();
        reattach.train();
        assertEquals(List.of("to 1", "to 2"), given);
        assertEquals(1, said.size());
    }

    @ParameterizedTest
    @CsvSource({"99, 0x4, the device has limits of 100 to 2415919104", "-1, 0x4, the device has limits of 100 to 2415919104",
        "500, 0, the device has no packet pacing", "500, 0x8, the device has no packet pacing for this type of queue pair"})
    void whatTheDeviceCannotIsSaidAndTheQueuePairGoesOnWithout(final int rate, final String supported, final String lack)
            throws Refusal {
        types = Integer.decode(supported);
        limit(rate, 0, 0);
        modify(RTS, 0);
        reattach.train();
        assertEquals(List.of("to 1", "to 2", "to 3"), given);
        assertEquals(List.of("queue pair 0x4d goes on without its rate limit of " + Integer.toUnsignedString(rate) + " kbit/s: "
                + lack), said);
        types = 0x4;
        said.clear();
        if (rate == 500) {
            reattach.train();
            assertTrue(given.contains("limit 500 0 0"), "the next device can");
            assertEquals(List.of(), said);
        }
    }

    @Test
    void aDeviceThatRefusesIsQuoted() throws Refusal {
        limit(500, 0, 0);
        modify(RTS, 0);
        device.answer("modifyQpRateLimit", args -> VerbsErrno.EOPNOTSUPP);
        reattach.train();
        assertEquals(List.of("queue pair 0x4d goes on without its rate limit of 500 kbit/s: the device refuses it: EOPNOTSUPP"),
                said);
    }
}
