// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;

/** Recording of ibv_modify_qp and what is made of it. */
class QpAttributesTest {
    private static final int RESET = 0;
    private static final int INIT = 1;
    private static final int RTR = 2;
    private static final int RTS = 3;
    private static final int SQD = 4;
    private static final int ERR = 6;

    private final QpAttributes attributes = new QpAttributes();
    private final MemorySegment attr = ibv_qp_attr.allocate(Arena.ofAuto());

    private void to(final int state, final int mask) {
        ibv_qp_attr.qp_state(attr, state);
        attributes.record(attr, mask | verbs_h.IBV_QP_STATE());
    }

    private void upToRts() {
        ibv_qp_attr.port_num(attr, (byte) 2);
        ibv_qp_attr.qp_access_flags(attr, 1);
        to(INIT, verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT() | verbs_h.IBV_QP_ACCESS_FLAGS());
        ibv_qp_attr.dest_qp_num(attr, 77);
        ibv_qp_attr.min_rnr_timer(attr, (byte) 12);
        ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(attr), (short) 0xbeef);
        to(RTR, verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_PATH_MTU() | verbs_h.IBV_QP_DEST_QPN()
                | verbs_h.IBV_QP_RQ_PSN() | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC() | verbs_h.IBV_QP_MIN_RNR_TIMER());
        ibv_qp_attr.timeout(attr, (byte) 14);
        to(RTS, verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT() | verbs_h.IBV_QP_RNR_RETRY()
                | verbs_h.IBV_QP_SQ_PSN() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC());
    }

    private int replay(final int state, final MemorySegment into) {
        return attributes.fill(into, state, 0);
    }

    /** It is asked for with each transition to SQD, not once for all. */
    @Test
    void theDrainedEventIsAskedForAgainIfItWasLast() {
        upToRts();
        final int notify = verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY();
        final MemorySegment sqd = ibv_qp_attr.allocate(Arena.ofAuto());
        ibv_qp_attr.en_sqd_async_notify(attr, (byte) 1);
        to(SQD, notify);
        assertArrayEquals(new int[] {INIT, RTR, RTS, SQD}, attributes.path());
        assertEquals(verbs_h.IBV_QP_STATE() | notify, replay(SQD, sqd));
        assertEquals(1, ibv_qp_attr.en_sqd_async_notify(sqd));
        to(SQD, verbs_h.IBV_QP_ACCESS_FLAGS());
        assertEquals(verbs_h.IBV_QP_STATE() | notify, replay(SQD, sqd));
        to(RTS, 0);
        to(SQD, 0);
        assertEquals(verbs_h.IBV_QP_STATE(), replay(SQD, sqd));
    }

    @Test
    void eachAttributeIsReplayedAtItsTransition() {
        upToRts();
        assertArrayEquals(new int[] {INIT, RTR, RTS}, attributes.path());
        final MemorySegment init = ibv_qp_attr.allocate(Arena.ofAuto());
        assertEquals(verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
                | verbs_h.IBV_QP_ACCESS_FLAGS(), replay(INIT, init));
        assertEquals(2, ibv_qp_attr.port_num(init));
        final MemorySegment rtr = ibv_qp_attr.allocate(Arena.ofAuto());
        assertEquals(0, replay(RTR, rtr) & (verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_PORT()));
        assertEquals(77, ibv_qp_attr.dest_qp_num(rtr));
        assertEquals(0xbeef, ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(rtr)) & 0xffff);
        final MemorySegment rts = ibv_qp_attr.allocate(Arena.ofAuto());
        assertTrue((replay(RTS, rts) & verbs_h.IBV_QP_TIMEOUT()) != 0);
        assertEquals(14, ibv_qp_attr.timeout(rts));
    }

    @Test
    void aLaterChangeIsInForceFromTheStart() {
        upToRts();
        ibv_qp_attr.min_rnr_timer(attr, (byte) 1);
        ibv_qp_attr.qp_access_flags(attr, 14);
        to(RTS, verbs_h.IBV_QP_MIN_RNR_TIMER() | verbs_h.IBV_QP_ACCESS_FLAGS());
        final MemorySegment again = ibv_qp_attr.allocate(Arena.ofAuto());
        replay(INIT, again);
        assertEquals(14, ibv_qp_attr.qp_access_flags(again));
        replay(RTR, again);
        assertEquals(1, ibv_qp_attr.min_rnr_timer(again));
        assertEquals(0xbeef, attributes.destLid());
    }

    @Test
    void attributesThatWereNotGivenAreNot() {
        upToRts();
        ibv_qp_attr.alt_timeout(attr, (byte) 9);
        final MemorySegment rtr = ibv_qp_attr.allocate(Arena.ofAuto());
        assertEquals(0, replay(RTR, rtr) & verbs_h.IBV_QP_ALT_PATH());
        assertEquals(0, ibv_qp_attr.alt_timeout(rtr));
    }

    /** One that went to ERR without INIT, as some devices let it. */
    @Test
    void whatIsRequiredAndWasNeverGivenIsZero() {
        to(ERR, 0);
        final int required = verbs_h.IBV_QP_PORT() | verbs_h.IBV_QP_QKEY();
        final MemorySegment init = ibv_qp_attr.allocate(Arena.ofAuto());
        assertEquals(required | verbs_h.IBV_QP_STATE(), attributes.fill(init, INIT, required));
        assertEquals(1, ibv_qp_attr.port_num(init));
        assertEquals(0, ibv_qp_attr.qkey(init));
        upToRts();
        attributes.fill(init, INIT, required);
        assertEquals(2, ibv_qp_attr.port_num(init), "the application's own");
    }

    @Test
    void resetForgetsAndErrorDoesNot() {
        upToRts();
        attributes.failed();
        assertTrue(attributes.connected());
        assertArrayEquals(new int[] {INIT, ERR}, attributes.path());
        final MemorySegment asked = ibv_qp_attr.allocate(Arena.ofAuto());
        attributes.overlay(asked);
        assertEquals(14, ibv_qp_attr.timeout(asked), "one that was made anew in ERR has been told nothing");
        to(RESET, 0);
        assertFalse(attributes.connected());
        assertEquals(0, attributes.path().length);
    }
}
