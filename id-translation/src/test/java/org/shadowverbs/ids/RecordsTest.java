// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;

/** The records that ranks publish, and what follows from them. */
class RecordsTest {
    private static final Gid LINK_LOCAL = new Gid(0xfe80_0000_0000_0000L, 1);
    private static final Gid ROUTED = new Gid(0, 0xffff_0a00_0001L);

    private static PortIds port(final int virtualLid, final int realLid, final Gid virtual, final Gid real) {
        return new PortIds(1, virtualLid, realLid, 0, 1,
                new PortIds.GidPair[] {new PortIds.GidPair(0, 0, virtual, 3, real)});
    }

    private static OwnerRecord owner(final int rank, final PortIds port, final ExceptionSet qpNums,
            final ExceptionSet keys) {
        return owner(rank, port, qpNums, ExceptionSet.EMPTY, keys, "host/device/" + rank);
    }

    private static OwnerRecord owner(final int rank, final PortIds port, final ExceptionSet qpNums,
            final ExceptionSet srqNums, final ExceptionSet keys, final String domain) {
        return new OwnerRecord(rank, new OwnerRecord.ContextIds[] {
            new OwnerRecord.ContextIds(new PortIds[] {port}, qpNums, srqNums, keys, Map.of(3, domain))});
    }

    private static ExceptionSet set(final int virtual, final int real) {
        return ExceptionSet.of(new int[] {virtual}, new int[] {real}, 1);
    }

    @Property
    void aQueuePairsRecordSurvivesTheWire(@ForAll final int rank, @ForAll final int sequence,
            @ForAll @IntRange(max = 0xffffff) final int qpNum, @ForAll @IntRange(max = 0xffff) final int lid,
            @ForAll final long prefix, @ForAll final long id) {
        final QpRecord r = QpRecord.decode(new QpRecord(rank, sequence, qpNum, QpRecord.DESTROYED, qpNum ^ 1, lid,
                new Gid(prefix, id), 7).encode());
        assertEquals(rank, r.rank);
        assertEquals(sequence, r.sequence);
        assertEquals(qpNum, r.qpNum);
        assertEquals(QpRecord.DESTROYED, r.state);
        assertEquals(qpNum ^ 1, r.destQpNum);
        assertEquals(lid, r.destLid);
        assertEquals(new Gid(prefix, id), r.destGid);
        assertEquals(7, r.rnrRetry);
    }

    /** What is somebody else's is reached at that address only by its own number, and by nobody's datagrams. */
    @Test
    void anInheritedQueuePairIsFoundWhereItWasMade() {
        final OwnerRecord heir = OwnerRecord.decode(new OwnerRecord(1, new OwnerRecord.ContextIds[] {
            OwnerRecord.ContextIds.inherited(new PortIds[] {port(7, 50, LINK_LOCAL, ROUTED)}, set(9, 90), Map.of(3, "domain"))})
            .encode());
        final OwnerRecord maker = owner(2, port(7, 70, LINK_LOCAL, ROUTED), set(8, 80), ExceptionSet.EMPTY);
        final AddressBook book = new AddressBook(List.of(heir, maker));
        assertEquals(50, book.find(7, null, 9, IdMasks.IDENTITY).port.realLid);
        assertEquals(90, book.find(7, null, 9, IdMasks.IDENTITY).realQpNum);
        assertEquals(70, book.find(7, null, 8, IdMasks.IDENTITY).port.realLid);
        assertEquals(70, book.find(7, null, 10, IdMasks.IDENTITY).port.realLid);
        assertEquals(1, book.places(7, null).size());
        assertEquals(70, book.places(7, null).get(0).port.realLid);
    }

    @Test
    void aSharedReceiversRecordSurvivesTheWire() {
        final SharedReceiver r = SharedReceiver.decode(new SharedReceiver(5, true, List.of(3L, -1L),
                List.of(port(7, 50, LINK_LOCAL, ROUTED)), new byte[] {1, 2}).encode());
        assertEquals(5, r.realQpNum());
        assertEquals(true, r.mixed());
        assertEquals(List.of(3L, -1L), r.holders());
        assertEquals(7, r.ports().get(0).virtualLid);
        assertEquals(2, r.attributes()[1]);
    }

    @Test
    void anOwnersRecordSurvivesTheWire() {
        final OwnerRecord r = OwnerRecord.decode(
                owner(5, port(11, 12, LINK_LOCAL, ROUTED), set(100, 200), set(-3, 4)).encode());
        assertEquals(5, r.rank);
        assertEquals(1, r.contextCount());
        final OwnerRecord.ContextIds c = r.contextAt(0);
        assertEquals(12, c.portAnswering(11, null).realLid);
        assertEquals(ROUTED, c.portAt(0).byVirtual(LINK_LOCAL).real);
        assertEquals(3, c.portAt(0).byVirtualIndex(0).realIndex);
        assertEquals(200, c.qpNums.realOf(100, 0));
        assertEquals(4, c.remoteKeys.realOf(-3, 0));
        assertEquals(Map.of(3, "host/device/5"), c.domains);
    }

    @Property
    void aBrokenRecordIsAnErrorAndNothingElse(@ForAll @IntRange(max = 200) final int length, @ForAll final int at,
            @ForAll final byte with) {
        final byte[] whole = owner(5, port(11, 12, LINK_LOCAL, ROUTED), set(100, 200), set(-3, 4)).encode();
        final byte[] cut = Arrays.copyOf(whole, Math.min(length, whole.length - 1));
        assertThrows(IllegalArgumentException.class, () -> OwnerRecord.decode(cut));
        whole[Math.floorMod(at, whole.length)] = with;
        try {
            OwnerRecord.decode(whole);
        } catch (IllegalArgumentException e) {
            return;
        }
    }

    @Test
    void aDestinationIsFoundByAddressAndNumber() {
        final AddressBook book = new AddressBook(List.of(
                owner(0, port(11, 21, LINK_LOCAL, ROUTED), set(100, 200), set(1, 2)),
                owner(1, port(11, 21, LINK_LOCAL, ROUTED), set(101, 201), set(3, 4))));
        assertEquals(201, book.find(11, Gid.ZERO, 101, IdMasks.IDENTITY).realQpNum);
        assertEquals(21, book.find(11, null, 101, IdMasks.IDENTITY).port.realLid);
        assertEquals(4, book.find(0, LINK_LOCAL, 101, IdMasks.IDENTITY).remoteKeys.realOf(3, 0));
        assertEquals(1, book.find(0, LINK_LOCAL, 101, IdMasks.IDENTITY).remoteKeys.size());
        // Made after the REATTACH: its number means itself, its keys may be of any process there.
        assertEquals(300, book.find(11, null, 300, IdMasks.IDENTITY).realQpNum);
        assertEquals(2, book.find(11, null, 300, IdMasks.IDENTITY).remoteKeys.size());
        assertNull(book.find(12, null, 100, IdMasks.IDENTITY));
        final OwnerRecord.ContextIds first = owner(0, port(11, 21, LINK_LOCAL, ROUTED), ExceptionSet.EMPTY,
                ExceptionSet.EMPTY).contextAt(0);
        assertEquals(Set.of(100, 101, 200, 201), refused(book, first).get(0));
        assertEquals(Set.of(1, 2, 3, 4), refused(book, first).get(2));
    }

    /** A device is one by its virtual address or by its real one. */
    @Test
    void idsThatAnyProcessWithTheDeviceHasCarriedOverAreRefused() {
        final AddressBook book = new AddressBook(List.of(
                owner(0, port(11, 21, LINK_LOCAL, LINK_LOCAL), set(100, 200), set(1, 2)),
                owner(1, port(11, 22, LINK_LOCAL, ROUTED), set(101, 201), set(3, 4)),
                owner(2, port(12, 21, ROUTED, LINK_LOCAL), set(102, 202), set(5, 6)),
                owner(3, port(13, 23, new Gid(1, 1), new Gid(2, 1)), set(103, 203), set(7, 8))));
        final List<Set<Integer>> refused = refused(book, book.contexts().get(0));
        assertEquals(Set.of(100, 200, 101, 201, 102, 202), refused.get(0));
        assertEquals(Set.of(1, 2, 3, 4, 5, 6), refused.get(2));
    }

    /** The queue pair numbers, SRQ numbers and remote keys below 300 that objects of a context may not have. */
    private static List<Set<Integer>> refused(final AddressBook book, final OwnerRecord.ContextIds context) {
        final List<IdSpace> spaces = List.of(new IdSpace(0, 0), new IdSpace(0, 0), new IdSpace(0, 0));
        book.reattach(context, spaces.get(0), spaces.get(1), spaces.get(2), context.remoteKeys);
        return spaces.stream().map(space -> IntStream.range(0, 300).filter(id -> !space.accepts(id)).boxed()
                .collect(Collectors.toSet())).toList();
    }

    /** The first two of three contexts share an XRC domain; no context has an address of another. */
    @Test
    void inASharedDomainTheNumbersAndKeysOfAllHold() {
        final AddressBook book = new AddressBook(List.of(
                owner(0, port(11, 21, LINK_LOCAL, new Gid(2, 1)), set(100, 200), set(7, 8), set(1, 2), "host/device/1"),
                owner(1, port(12, 22, ROUTED, new Gid(2, 2)), set(101, 201), set(9, 10), set(3, 4), "host/device/1"),
                owner(2, port(13, 23, new Gid(1, 1), new Gid(2, 3)), set(102, 202), set(11, 12), set(5, 6), "host/other/1")));
        final AddressBook.Destination shared = book.find(11, null, 100, IdMasks.IDENTITY);
        assertEquals(8, shared.srqNums.realOf(7, 0));
        assertEquals(10, shared.srqNums.realOf(9, 0));
        assertEquals(2, shared.srqNums.size());
        assertEquals(4, shared.remoteKeys.realOf(3, 0));
        assertEquals(2, shared.remoteKeys.size());
        assertSame(shared.remoteKeys, book.find(11, null, 100, IdMasks.IDENTITY).remoteKeys, "a key of tables");
        assertEquals(2, book.find(12, null, 300, IdMasks.IDENTITY).srqNums.size());
        assertEquals(1, book.find(13, null, 102, IdMasks.IDENTITY).srqNums.size());
        final OwnerRecord.ContextIds first = book.contexts().get(0);
        assertEquals(List.of(Set.of(100, 101, 200, 201), Set.of(7, 8, 9, 10), Set.of(1, 2, 3, 4)), refused(book, first));
        assertEquals(201, book.foreignQps("host/device/").realOf(101, 0));
        assertEquals(2, book.foreignQps("host/device/").size());
        assertEquals(0, book.foreignQps("another/device/").size());
    }

    @Test
    void gidsFindTheirLikeOnAnotherPort() {
        final Gid v4 = new Gid(0, 0xffff_0a00_0002L);
        final Gid otherV4 = new Gid(0, 0xffff_c0a8_0002L);
        final Gid otherLocal = new Gid(0xfe80_0000_0000_0000L, 9);
        final PortIds before = new PortIds(1, 0, 0, 0, 2, new PortIds.GidPair[] {
            new PortIds.GidPair(0, 1, LINK_LOCAL, 0, LINK_LOCAL), new PortIds.GidPair(1, 2, LINK_LOCAL, 1, LINK_LOCAL),
            new PortIds.GidPair(3, 2, v4, 3, v4)});
        final PortIds now = new PortIds(1, 0, 0, 0, 2, new PortIds.GidPair[] {
            new PortIds.GidPair(0, 1, otherLocal, 0, otherLocal), new PortIds.GidPair(1, 2, otherLocal, 1, otherLocal),
            new PortIds.GidPair(2, 1, otherV4, 2, otherV4), new PortIds.GidPair(5, 2, otherV4, 5, otherV4)});
        final PortIds carried = before.carriedOverTo(now);
        assertEquals(5, carried.byVirtualIndex(3).realIndex);
        assertEquals(otherV4, carried.byVirtual(v4).real);
        assertEquals(1, carried.byVirtualIndex(1).realIndex);
        final PortIds onInfiniBand = before.carriedOverTo(port(0, 77, ROUTED, otherLocal));
        assertEquals(77, onInfiniBand.realLid);
        assertEquals(otherLocal, onInfiniBand.byVirtual(v4).real);
    }

    @Property
    void scramblingIsItsOwnInverse(@ForAll @IntRange(max = 0xbfff) final int lid, @ForAll final long prefix,
            @ForAll final long id) {
        final int scrambled = IdMasks.SCRAMBLED.lid(lid);
        assertEquals(lid, IdMasks.SCRAMBLED.lid(scrambled));
        assertEquals(lid == 0, scrambled == 0);
        assertEquals(true, scrambled <= 0xbfff);
        final Gid gid = new Gid(prefix, id);
        assertEquals(gid, IdMasks.SCRAMBLED.gid(IdMasks.SCRAMBLED.gid(gid)));
        assertEquals(gid, IdMasks.IDENTITY.gid(gid));
    }
}
