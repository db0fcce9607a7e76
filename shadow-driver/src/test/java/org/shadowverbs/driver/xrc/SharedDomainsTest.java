// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.xrc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.drain.Pairing;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.DomainMember;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;
import org.shadowverbs.ids.QpRecord;

class SharedDomainsTest {
    private static final int STDIN = 0;
    private static final int RECEIVER = 4;
    private static final int OTHER = 5;
    private static final int SENDER = 6;
    private static final int ITS_OWN = 70;
    private static final int THE_OTHERS = 71;
    private static final int PEERS_NUMBER = 9;
    private static final int DOMAIN = 1;

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
        new SharedDomains(model, rank, rank, c -> device, qp -> new int[0]).publish(published);
    }

    private void bothHaveItOpen(final String device, final String othersDevice) throws Refusal {
        publish(RECEIVER, process(STDIN, ITS_OWN), device);
        publish(OTHER, process(STDIN, THE_OTHERS), othersDevice);
    }

    /** Of a sender that is connected to the receiver's queue pair. */
    private Connection sender(final Pairing pairing) {
        final Context context = new Context(1, 101, 5, "shadow0", 1, 7, 7, IdMasks.IDENTITY);
        final Connection c = new Connection(new Qp(7, 107, 0, context, null, null, null, null, null,
                verbs_h.IBV_QPT_XRC_SEND(), 77, false, 0, 1, 0, 1, 0, 0));
        c.pairing = pairing;
        c.peer = new QpRecord(RECEIVER, process(STDIN, 0).qps.inOrder().iterator().next().sequence, PEERS_NUMBER, 3, 77, 0,
                Gid.ZERO, 7);
        return c;
    }

    private Connection.Crossing check(final boolean ranksHaveLeft, final int... targets) throws Exception {
        final Connection c = sender(Pairing.CONNECTED);
        SharedDomains.check(List.of(c), qp -> targets, ranksHaveLeft, this::find);
        return c.crossing;
    }

    private Map<String, byte[]> find(final Set<String> keys) {
        final Map<String, byte[]> found = new HashMap<>(published);
        found.keySet().retainAll(keys);
        return found;
    }

    private Map<Integer, List<DomainMember>> sharers(final int rank, final String device) throws Exception {
        return new SharedDomains(process(STDIN, 0), rank, rank, c -> device, qp -> new int[0]).sharers(List.of(RECEIVER, OTHER), this::find);
    }

    @Test
    void whoSendsToItsPeersQueuesIsNotConcernedByWhoElseHasTheDomain() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        assertNull(check(true, ITS_OWN));
        assertNull(check(true));
    }

    @Test
    void whoHasADomainKnowsWithWhom() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        assertEquals(Map.of(DOMAIN, List.of(new DomainMember(OTHER, DOMAIN))), sharers(RECEIVER, "shadow0"));
        assertEquals(Map.of(DOMAIN, List.of(new DomainMember(RECEIVER, DOMAIN))), sharers(OTHER, "shadow0"));
        assertEquals(Map.of(), sharers(OTHER, "shadow1"));
        assertEquals(Map.of(), sharers(OTHER, null));
    }

    @Test
    void whoseAQueueIsThatIsNotThePeersIsFound() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        final Connection.Crossing crossing = check(true, ITS_OWN, THE_OTHERS);
        assertEquals(new DomainMember(RECEIVER, DOMAIN), crossing.peer);
        assertEquals(Set.of(new DomainMember(OTHER, DOMAIN)), crossing.others);
        final Connection gone = sender(Pairing.GONE);
        SharedDomains.check(List.of(gone), qp -> new int[] {THE_OTHERS}, true, this::find);
        assertNull(gone.crossing);
    }

    @Test
    void aQueueThatWasDestroyedIsItsProcessesAllTheSame() throws Exception {
        final Model other = process(STDIN, 0);
        other.queueEnded(other.xrcds.get(3), THE_OTHERS);
        publish(RECEIVER, process(STDIN, ITS_OWN), "shadow0");
        publish(OTHER, other, "shadow0");
        assertEquals(Set.of(new DomainMember(OTHER, DOMAIN)), check(true, THE_OTHERS).others);
    }

    /** A device gives a number again, to another process. */
    @Test
    void aQueueWhoseNumberWasAnothersIsOfBoth() throws Exception {
        final int before = OTHER + 1;
        final Model ended = process(STDIN, 0);
        ended.queueEnded(ended.xrcds.get(3), THE_OTHERS);
        for (final boolean late : new boolean[] {false, true}) {
            published.clear();
            if (!late) {
                publish(before, ended, "shadow0");
            }
            bothHaveItOpen("shadow0", "shadow0");
            if (late) {
                publish(before, ended, "shadow0");
            }
            assertEquals(Set.of(new DomainMember(OTHER, DOMAIN), new DomainMember(before, DOMAIN)), check(true, THE_OTHERS).others);
        }
    }

    @Test
    void aQueueOfNobodyIsRefusedOnlyWhenItMayHaveBeenOfAProcessThatHasEnded() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        assertNull(check(false, ITS_OWN, 99));
        final Refusal refusal = assertThrows(Refusal.class, () -> check(true, ITS_OWN, 99));
        assertTrue(refusal.getMessage().contains("shared receive queue 0x63 "), refusal.getMessage());
    }

    @Test
    void theCountsOfANumberThatWasAnothersAreNotTakenForItsOwn() throws Exception {
        for (final int rank : List.of(RECEIVER, OTHER)) {
            published.clear();
            final Model receiver = process(STDIN, ITS_OWN);
            final Model other = process(STDIN, THE_OTHERS);
            final Model ended = rank == RECEIVER ? receiver : other;
            ended.receiverEnded(ended.xrcds.get(3), PEERS_NUMBER);
            publish(RECEIVER, receiver, "shadow0");
            publish(OTHER, other, "shadow0");
            assertNull(check(false, ITS_OWN));
            final Refusal refusal = assertThrows(Refusal.class, () -> check(false, ITS_OWN, THE_OTHERS));
            assertTrue(refusal.getMessage().contains("cannot be told apart"), refusal.getMessage());
        }
    }

    @Test
    void domainsOfOneFileOnTwoDevicesAreTwo() throws Exception {
        bothHaveItOpen("shadow0", "shadow1");
        assertNull(check(false, THE_OTHERS));
    }

    @Test
    void tooManyQueuesAreRefusedWhereTheDomainHasAFile() throws Exception {
        SharedDomains.check(List.of(sender(Pairing.CONNECTED)), qp -> null, true, this::find);
        bothHaveItOpen("shadow0", "shadow0");
        final Refusal refusal = assertThrows(Refusal.class,
                () -> SharedDomains.check(List.of(sender(Pairing.CONNECTED)), qp -> null, false, this::find));
        assertTrue(refusal.getMessage().contains("too many"), refusal.getMessage());
    }

    @Test
    void aDomainWithoutAFileOrOverIb2tcpIsNobodyElses() throws Refusal {
        publish(RECEIVER, process(-1, ITS_OWN), "shadow0");
        publish(OTHER, process(STDIN, ITS_OWN), null);
        assertTrue(published.isEmpty());
    }

    /** As {@code rank} finds it, which has that model; a sender of a third process has named these queues (null: too many). */
    private SharedDomains found(final int rank, final Model model, final int... named) throws Exception {
        final Model sending = new Model(IdMasks.IDENTITY);
        sending.qps.add(sender(Pairing.CONNECTED).qp);
        new SharedDomains(sending, SENDER, SENDER, c -> "shadow0", qp -> named).publish(published);
        publish(rank, model, "shadow0");
        final SharedDomains domains = new SharedDomains(model, rank, rank, c -> "shadow0", qp -> new int[0]);
        domains.sharers(List.of(SENDER, RECEIVER, OTHER), this::find);
        return domains;
    }

    @Test
    void queuesThatAreGoneAreKeptAsLongAsASenderHasNamedThem() throws Exception {
        final Model other = process(STDIN, THE_OTHERS);
        other.queueEnded(other.xrcds.get(3), 81);
        other.queueEnded(other.xrcds.get(3), 82);
        assertEquals(Set.of(81), found(OTHER, other, ITS_OWN, 81).named(other.endedQueues(DOMAIN)));
        assertEquals(Set.of(81, 82), found(OTHER, other, (int[]) null).named(other.endedQueues(DOMAIN)));
        other.keepEnded(DOMAIN, found(OTHER, other, ITS_OWN, 81).named(other.endedQueues(DOMAIN)), Set.of());
        assertEquals(Set.of(81), other.endedQueues(DOMAIN));
        other.keepEnded(DOMAIN, found(OTHER, other).named(other.endedQueues(DOMAIN)), Set.of());
        assertEquals(Set.of(), other.endedQueues(DOMAIN));
    }

    @Test
    void numbersOfQueuePairsThatAreGoneAreKeptAsLongAsSomebodyHasOneOfThatNumber() throws Exception {
        final Model other = process(STDIN, THE_OTHERS);
        other.qps.remove(other.qps.get(5));
        other.receiverEnded(other.xrcds.get(3), PEERS_NUMBER);
        other.receiverEnded(other.xrcds.get(3), 90);
        publish(RECEIVER, process(STDIN, ITS_OWN), "shadow0");
        final SharedDomains domains = found(OTHER, other);
        assertEquals(Set.of(PEERS_NUMBER), domains.receivers(DOMAIN));
        other.keepEnded(DOMAIN, Set.of(), domains.receivers(DOMAIN));
        assertEquals(Set.of(PEERS_NUMBER), other.endedReceivers(DOMAIN));
    }

    /** What had come to its queues it alone can tell. */
    @Test
    void aDomainThatIsClosedIsSpokenForAsLongAsASenderHasNamedItsQueues() throws Exception {
        final Model other = process(STDIN, THE_OTHERS);
        final Xrcd xrcd = other.xrcds.get(3);
        other.qps.remove(other.qps.get(5));
        other.srqs.remove(other.srqs.get(4));
        other.xrcds.remove(xrcd);
        assertFalse(other.leave(xrcd));
        other.queueEnded(xrcd, THE_OTHERS);
        assertTrue(other.leave(xrcd));
        publish(RECEIVER, process(STDIN, ITS_OWN), "shadow0");
        final SharedDomains domains = found(OTHER, other, THE_OTHERS);
        assertEquals(Set.of(new DomainMember(OTHER, DOMAIN)), check(true, THE_OTHERS).others);
        assertEquals(List.of(new DomainMember(OTHER, DOMAIN)), sharers(RECEIVER, "shadow0").get(DOMAIN));
        other.keepEnded(DOMAIN, domains.named(other.endedQueues(DOMAIN)), Set.of());
        assertEquals(List.of(), other.domainsForgotten());
        other.keepEnded(DOMAIN, found(OTHER, other).named(other.endedQueues(DOMAIN)), Set.of());
        assertEquals(List.of(xrcd), other.domainsForgotten());
        assertEquals(List.of(), other.domains());
    }

    private static OwnerRecord restarted(final int rank, final Map<Integer, String> domains) {
        return new OwnerRecord(rank, new OwnerRecord.ContextIds[] {new OwnerRecord.ContextIds(new PortIds[0],
                ExceptionSet.EMPTY, ExceptionSet.EMPTY, ExceptionSet.EMPTY, domains)});
    }

    @Test
    void whoHasNamedQueuesOfOthersIsRefusedWhereTheyDoNotShareAnyMore() throws Exception {
        bothHaveItOpen("shadow0", "shadow0");
        final Connection c = sender(Pairing.CONNECTED);
        final List<OwnerRecord> apart = List.of(restarted(RECEIVER, Map.of(DOMAIN, "a")), restarted(OTHER, Map.of(DOMAIN, "b")));
        final List<OwnerRecord> without = List.of(restarted(RECEIVER, Map.of()), restarted(OTHER, Map.of()));
        for (final List<OwnerRecord> owners : List.of(apart, without)) {
            SharedDomains.check(List.of(c), qp -> new int[] {ITS_OWN}, false, this::find);
            SharedDomains.checkStillShared(List.of(c), owners);
            SharedDomains.refuseCrossing(List.of(c));
            SharedDomains.check(List.of(c), qp -> new int[] {THE_OTHERS}, false, this::find);
            final Refusal refusal = assertThrows(Refusal.class, () -> SharedDomains.checkStillShared(List.of(c), owners));
            assertTrue(refusal.getMessage().contains("of rank 5, whose domain is not the peer's any more"), refusal.getMessage());
            assertThrows(Refusal.class, () -> SharedDomains.refuseCrossing(List.of(c)));
            SharedDomains.checkStillShared(List.of(c), owners.subList(0, 1)); // the other has died
        }
        SharedDomains.checkStillShared(List.of(c),
                List.of(restarted(RECEIVER, Map.of(DOMAIN, "a")), restarted(OTHER, Map.of(DOMAIN, "a"))));
    }
}
