// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.abi.sv_srq_mark;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.QpRecord;

class SharedDomainsTest {
    private static final int STDIN = 0;
    private static final int RECEIVER = 4;
    private static final int OTHER = 5;
    private static final int ITS_OWN = 70;
    private static final int THE_OTHERS = 71;

    private final Map<String, byte[]> published = new HashMap<>();

    /** A process with one shared receive queue in the domain of that file, and one queue pair that receives. */
    private static Model process(final int fd, final int srqNumber) {
        final Model model = new Model(IdMasks.IDENTITY);
        final Context context = new Context(1, 101, 5, "shadow0", 1, 7, 7, IdMasks.IDENTITY);
        final Xrcd xrcd = new Xrcd(3, 103, context, fd, 1);
        final Cq cq = null;
        model.xrcds.add(xrcd);
        model.srqs.add(new Srq(4, 104, null, 0, 1, 1, xrcd, cq, srqNumber));
        model.qps.add(new Qp(5, 105, model.nextSequence(), context, null, xrcd, cq, cq, null, verbs_h.IBV_QPT_XRC_RECV(), 9,
                false, 0, 0, 0, 0, 0, 0));
        return model;
    }

    private void publish(final int rank, final Model model, final String device) throws Refusal {
        new SharedDomains(model, rank, c -> device).publish(published);
    }

    private void bothHaveItOpen(final String device, final String othersDevice) throws Refusal {
        publish(RECEIVER, process(STDIN, ITS_OWN), device);
        publish(OTHER, process(STDIN, THE_OTHERS), othersDevice);
    }

    /** Of a sender that is connected to the receiver's queue pair. */
    private void check(final int... targets) throws Exception {
        check(Pairing.CONNECTED, qp -> targets);
    }

    private void check(final Pairing pairing, final Function<Qp, int[]> targets) throws Exception {
        final Context context = new Context(1, 101, 5, "shadow0", 1, 7, 7, IdMasks.IDENTITY);
        final Connection c = new Connection(new Qp(7, 107, 0, context, null, null, null, null, null,
                verbs_h.IBV_QPT_XRC_SEND(), 77, false, 0, 1, 0, 1, 0, 0));
        c.pairing = pairing;
        c.peer = new QpRecord(RECEIVER, process(STDIN, 0).qps.inOrder().iterator().next().sequence, 9, 3, 77, 0, Gid.ZERO, 7);
        SharedDomains.check(List.of(c), targets, this::find);
    }

    private Map<String, byte[]> find(final Set<String> keys) {
        final Map<String, byte[]> found = new HashMap<>(published);
        found.keySet().retainAll(keys);
        return found;
    }

    @Test
    void whoSendsToItsPeersQueuesIsNotConcernedByWhoElseHasTheDomain() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        check(ITS_OWN);
        check();
    }

    @Test
    void aQueueOfAnotherProcessIsNamedWithItsRank() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        final Refusal refusal = assertThrows(Refusal.class, () -> check(ITS_OWN, THE_OTHERS));
        assertTrue(refusal.getMessage().contains("shared receive queue 0x47, which is of rank 5 "), refusal.getMessage());
        assertDoesNotThrow(() -> check(Pairing.GONE, qp -> new int[] {THE_OTHERS}));
    }

    @Test
    void aQueueOfNobodyConcernsNobody() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        check(ITS_OWN, 99);
    }

    @Test
    void domainsOfOneFileOnTwoDevicesAreTwo() throws Exception {
        bothHaveItOpen("shadow0", "shadow1");
        check(THE_OTHERS);
    }

    @Test
    void tooManyQueuesAreRefusedWhereTheDomainHasAFile() throws Exception {
        check(Pairing.CONNECTED, qp -> null);
        bothHaveItOpen("shadow0", "shadow0");
        final Refusal refusal = assertThrows(Refusal.class, () -> check(Pairing.CONNECTED, qp -> null));
        assertTrue(refusal.getMessage().contains("too many"), refusal.getMessage());
    }

    @Test
    void aDomainWithoutAFileIsNobodyElses() throws Refusal {
        publish(RECEIVER, process(-1, ITS_OWN), "shadow0");
        assertTrue(published.isEmpty());
    }

    @Test
    void aQueueThatHasTakenAMessageOfAStrangerIsNamed() throws Exception {
        final Model model = process(STDIN, ITS_OWN);
        final int[] foreign = {0};
        final Native library = new Fake(1000).answer("srqBookmark", args -> {
            sv_srq_mark.foreign((java.lang.foreign.MemorySegment) args[1], foreign[0]);
            return null;
        }).as(Native.class);
        XrcVerbs.refuseStrangers(library, model);
        foreign[0] = 1;
        assertEquals("XRC's shared receive queue 0x46 has taken messages of another process' queue pair, which cannot be"
                + " checkpointed", assertThrows(Refusal.class, () -> XrcVerbs.refuseStrangers(library, model)).getMessage());
    }
}
