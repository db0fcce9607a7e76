// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_grh;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.drain.Bookmark;
import org.shadowverbs.driver.drain.DrainPolicy;
import org.shadowverbs.driver.drain.SimulatedEnd;
import org.shadowverbs.driver.model.Ah;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.TestJob;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.reattach.RealObjects;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

/** Address handles and senders, over a library and a device that only take notes; and the drain of datagrams. */
class DatagramVerbsTest {
    private static final int VIRTUAL_LID = 0x11;

    private final Arena arena = Arena.ofAuto();
    private final Fake library = new Fake(0x10_0000);
    private final Fake device = new Fake(0x20_0000);
    private final Model model = new Model(IdMasks.IDENTITY);
    private final Context context = new Context(1, 101, 5, "shadow0", 1, 0, 0, IdMasks.IDENTITY);
    private final List<Integer> lids = new ArrayList<>();
    private final List<long[]> keys = new ArrayList<>();
    private final List<long[]> values = new ArrayList<>();
    private final List<long[]> routes = new ArrayList<>();
    private final List<long[]> names = new ArrayList<>();
    private final TestJob job = new TestJob(library.calls, null);
    private DatagramVerbs verbs;

    @BeforeEach
    void setUp() {
        model.contexts.add(context);
        model.pds.add(new Pd(2, 102, context));
        verbs = new DatagramVerbs(library.as(Native.class), new ChosenBackend(device.as(Backend.class)), model, job);
        device.answer("createAh", args -> {
            lids.add(ibv_ah_attr.dlid((MemorySegment) args[1]) & 0xffff);
            return 0x900L + lids.size();
        });
        library.answer("idmapNew", args -> {
            keys.add((long[]) args[0]);
            values.add((long[]) args[1]);
            return 0x700L + keys.size();
        });
        library.answer("routesNew", args -> {
            routes.add((long[]) args[0]);
            names.add((long[]) args[1]);
            return 0x800L + routes.size();
        });
    }

    private static OwnerRecord owner(final int rank, final int realLid, final int[] virtuals, final int[] reals) {
        final PortIds port = new PortIds(1, VIRTUAL_LID, realLid, 0, 1, new PortIds.GidPair[0]);
        return new OwnerRecord(rank, new OwnerRecord.ContextIds[] {new OwnerRecord.ContextIds(new PortIds[] {port},
                ExceptionSet.of(virtuals, reals, virtuals.length), ExceptionSet.EMPTY, ExceptionSet.EMPTY, Map.of())});
    }

    private long create() {
        final MemorySegment attr = ibv_ah_attr.allocate(arena);
        ibv_ah_attr.dlid(attr, (short) VIRTUAL_LID);
        ibv_ah_attr.port_num(attr, (byte) 1);
        return verbs.createAh(2, attr);
    }

    @Test
    void aHandleIsOneRealHandleAtFirst() {
        final long ah = create();
        assertEquals(List.of(VIRTUAL_LID), lids);
        assertTrue(keys.isEmpty());
        assertEquals(0, verbs.destroyAh(ah));
        assertEquals(1, device.count("destroyAh"));
        assertEquals(1, library.count("ahFree"));
    }

    /** Of a process that was not carried over, on a device that knows GIDs only. */
    @Test
    void aLidThatTheJobHasGivenStandsForTheGidThatWasPublished() {
        final Gid gid = new Gid(0xfe80L << 48, 0x44);
        final List<Gid> to = new ArrayList<>();
        device.answer("lidsAreOurs", args -> true).answer("createAh", args -> {
            final MemorySegment attr = (MemorySegment) args[1];
            assertEquals(1, ibv_ah_attr.is_global(attr));
            to.add(Structs.gid(ibv_global_route.dgid(ibv_ah_attr.grh(attr))));
            return 0x900L;
        });
        job.published.put(VIRTUAL_LID, gid);
        create();
        job.published.clear();
        create();
        assertEquals(List.of(gid, new Gid(0xfe80L << 48, 0)), to, "and one of a lid that no port has goes nowhere");
    }

    /** Two processes shared a port; after a restart each has one of its own. */
    @Test
    void aHandleBecomesOneForEachRealPort() {
        final long ah = create();
        final Ah handle = model.ahs.get(ah);
        assertEquals(0, verbs.unbind(handle));
        assertEquals(0, handle.real);
        model.book(new AddressBook(List.of(owner(0, 0x55, new int[] {40}, new int[] {41}),
                owner(1, 0x66, new int[] {42, 43}, new int[] {40, 44}))));
        lids.clear();
        verbs.bind(handle);
        assertEquals(List.of(0x55, 0x66), lids);
        assertEquals(2, handle.reals.length);
        assertArrayEquals(new long[] {40, 42, 43}, keys.get(0));
        assertArrayEquals(new long[] {41, 1L << 32 | 40, 1L << 32 | 44}, values.get(0));
        assertEquals(0, verbs.unbind(handle));
        assertEquals(3, device.count("destroyAh"));
    }

    /** What the kernel's connection manager says are real addresses; the application is to see what it knows. */
    @Test
    void addressesFromTheKernelBecomeVirtual() {
        final Gid known = new Gid(0xfe80L << 48, 0x11);
        final Gid real = new Gid(0xfe80L << 48, 0x22);
        final PortIds port = new PortIds(1, VIRTUAL_LID, 0x55, 0, 1,
                new PortIds.GidPair[] {new PortIds.GidPair(3, 0, known, 7, real)});
        model.book(new AddressBook(List.of(new OwnerRecord(0, new OwnerRecord.ContextIds[] {
            new OwnerRecord.ContextIds(new PortIds[] {port}, ExceptionSet.EMPTY, ExceptionSet.EMPTY,
                    ExceptionSet.EMPTY, Map.of())}))));
        context.ports = new PortIds[] {port};
        context.reattached = true;
        final MemorySegment attr = ibv_ah_attr.allocate(arena);
        final MemorySegment route = ibv_ah_attr.grh(attr);
        ibv_ah_attr.dlid(attr, (short) 0x55);
        ibv_ah_attr.port_num(attr, (byte) 1);
        ibv_ah_attr.is_global(attr, (byte) 1);
        ibv_global_route.sgid_index(route, (byte) 7);
        Structs.gid(ibv_global_route.dgid(route), real);
        verbs.fromKernel(attr);
        assertEquals(VIRTUAL_LID, ibv_ah_attr.dlid(attr) & 0xffff);
        assertEquals(3, ibv_global_route.sgid_index(route));
        assertEquals(known, Structs.gid(ibv_global_route.dgid(route)));
        // A stranger's mean themselves.
        final Gid stranger = new Gid(0xfe80L << 48, 0x33);
        ibv_ah_attr.dlid(attr, (short) 0x77);
        ibv_global_route.sgid_index(route, (byte) 9);
        Structs.gid(ibv_global_route.dgid(route), stranger);
        verbs.fromKernel(attr);
        assertEquals(0x77, ibv_ah_attr.dlid(attr) & 0xffff);
        assertEquals(9, ibv_global_route.sgid_index(route));
        assertEquals(stranger, Structs.gid(ibv_global_route.dgid(route)));
    }

    private static OwnerRecord owner(final int rank, final PortIds port, final int virtual, final int real) {
        return new OwnerRecord(rank, new OwnerRecord.ContextIds[] {new OwnerRecord.ContextIds(new PortIds[] {port},
                ExceptionSet.of(new int[] {virtual}, new int[] {real}, 1), ExceptionSet.EMPTY, ExceptionSet.EMPTY, Map.of())});
    }

    @Test
    void sendersAreKnownByPortAndNumber() {
        model.book(new AddressBook(List.of(owner(0, 0x55, new int[] {40}, new int[] {41}),
                owner(1, 0x66, new int[] {42}, new int[] {41}))));
        verbs.pushSources(context);
        final long own = 1L << 40;
        assertArrayEquals(new long[] {own | 0x55 << 24, own | 0x55 << 24 | 41, own | 0x66 << 24, own | 0x66 << 24 | 41},
                keys.get(0));
        assertArrayEquals(new long[] {VIRTUAL_LID << 24, VIRTUAL_LID << 24 | 40, VIRTUAL_LID << 24,
            VIRTUAL_LID << 24 | 42}, values.get(0));
    }

    /** On RoCE two HCAs may have queue pairs of one number: what tells them apart is the GID in the route header. */
    @Test
    void sendersWithoutLidsAreKnownByTheirGids() {
        context.ports = new PortIds[] {portWith(OURS, OURS_NOW, 0)};
        context.reattached = true;
        model.book(new AddressBook(List.of(owner(0, portWith(OURS, OURS_NOW, 0), 40, 41),
                owner(1, portWith(PEERS, PEERS_NOW, 0), 42, 41))));
        verbs.pushSources(context);
        final long route = 1L << 56;
        final List<Long> table = Arrays.stream(keys.get(0)).boxed().toList();
        final long first = values.get(0)[table.indexOf(route | 1 << 24 | 41)];
        final long second = values.get(0)[table.indexOf(route | 2 << 24 | 41)];
        assertEquals(40, first & 0xff_ffff);
        assertEquals(42, second & 0xff_ffff);
        assertArrayEquals(new long[] {OURS.prefix(), OURS.interfaceId(), 0}, name(first >> 40));
        assertArrayEquals(new long[] {PEERS.prefix(), PEERS.interfaceId(), 0}, name(second >> 40));
        assertArrayEquals(new long[] {OURS_NOW.prefix(), OURS_NOW.interfaceId(), 1, 0, 3,
            PEERS_NOW.prefix(), PEERS_NOW.interfaceId(), 2, 0, 0}, routes.get(0));
        assertArrayEquals(new long[] {OURS.prefix(), OURS.interfaceId(), 0}, name(2), "its own as a destination");
        assertEquals(0, library.count("say"));
    }

    private long[] name(final long at) {
        return Arrays.copyOfRange(names.get(0), (int) at * 3, (int) at * 3 + 3);
    }

    private static final Gid OURS = new Gid(0xfe80L << 48, 1);
    private static final Gid OURS_NOW = new Gid(0xfe80L << 48, 2);
    private static final Gid PEERS = new Gid(0xfe80L << 48, 3);
    private static final Gid PEERS_NOW = new Gid(0xfe80L << 48, 4);

    private static PortIds portWith(final Gid virtual, final Gid real) {
        return portWith(virtual, real, 0x55);
    }

    private static PortIds portWith(final Gid virtual, final Gid real, final int realLid) {
        return new PortIds(1, realLid == 0 ? 0 : VIRTUAL_LID, realLid, 0, 1,
                new PortIds.GidPair[] {new PortIds.GidPair(7, 0, virtual, 3, real)});
    }

    private MemorySegment header(final Gid from, final Gid to) {
        final MemorySegment grh = ibv_grh.allocate(arena);
        ibv_grh.version_tclass_flow(grh, Integer.reverseBytes(0x6231_2345));
        ibv_grh.hop_limit(grh, (byte) 9);
        Structs.gid(ibv_grh.sgid(grh), from);
        Structs.gid(ibv_grh.dgid(grh), to);
        return grh;
    }

    /** The header holds the GIDs that the application knows; where they could not be written there, those of now. */
    @Test
    void theWayBackIsByVirtualGids() {
        context.ports = new PortIds[] {portWith(OURS, OURS_NOW)};
        context.reattached = true;
        model.book(new AddressBook(List.of(new OwnerRecord(1, new OwnerRecord.ContextIds[] {
            new OwnerRecord.ContextIds(new PortIds[] {portWith(PEERS, PEERS_NOW)}, ExceptionSet.EMPTY,
                    ExceptionSet.EMPTY, ExceptionSet.EMPTY, Map.of())}))));
        for (final MemorySegment grh : List.of(header(PEERS_NOW, OURS_NOW), header(PEERS, OURS))) {
            final MemorySegment attr = ibv_ah_attr.allocate(arena);
            assertEquals(0, verbs.initAh(1, 1, grh, attr));
            assertEquals(1, ibv_ah_attr.is_global(attr));
            final MemorySegment route = ibv_ah_attr.grh(attr);
            assertEquals(PEERS, Structs.gid(ibv_global_route.dgid(route)));
            assertEquals(7, ibv_global_route.sgid_index(route));
            assertEquals(0x12345, ibv_global_route.flow_label(route));
            assertEquals(0x23, ibv_global_route.traffic_class(route));
            assertEquals(9, ibv_global_route.hop_limit(route));
        }
        assertEquals(VerbsErrno.EINVAL, verbs.initAh(1, 1, header(PEERS_NOW, PEERS_NOW),
                ibv_ah_attr.allocate(arena)), "it was not for us");
    }

    /** After a restart the hosts may have changed places: what is written in a header is not translated twice. */
    @Test
    void theWayBackToWhoHasOurOldAddress() {
        context.ports = new PortIds[] {portWith(OURS, OURS_NOW)};
        context.reattached = true;
        model.book(new AddressBook(List.of(owner(0, portWith(OURS, OURS_NOW), 40, 41),
                owner(1, portWith(OURS_NOW, PEERS_NOW), 42, 41), owner(2, portWith(PEERS, OURS), 43, 41))));
        for (final Gid peer : List.of(OURS_NOW, PEERS)) {
            final MemorySegment attr = ibv_ah_attr.allocate(arena);
            assertEquals(0, verbs.initAh(1, 1, header(peer, OURS), attr));
            assertEquals(peer, Structs.gid(ibv_global_route.dgid(ibv_ah_attr.grh(attr))));
        }
    }

    /** Scrambled ids differ from the beginning, and so do the GIDs in headers. */
    @Test
    void theWayBackWithScrambledIds() {
        final Model scrambled = new Model(IdMasks.SCRAMBLED);
        context.ports = new PortIds[] {portWith(IdMasks.SCRAMBLED.gid(OURS_NOW), OURS_NOW)};
        scrambled.contexts.add(context);
        final DatagramVerbs its = new DatagramVerbs(library.as(Native.class),
                new ChosenBackend(device.as(Backend.class)), scrambled, job);
        final MemorySegment attr = ibv_ah_attr.allocate(arena);
        for (final MemorySegment grh : List.of(header(IdMasks.SCRAMBLED.gid(PEERS), IdMasks.SCRAMBLED.gid(OURS_NOW)),
                header(PEERS, OURS_NOW))) {
            assertEquals(0, its.initAh(1, 1, grh, attr));
            assertEquals(IdMasks.SCRAMBLED.gid(PEERS), Structs.gid(ibv_global_route.dgid(ibv_ah_attr.grh(attr))));
        }
    }

    @Test
    void theWayBackOverIpv4() {
        final Gid here = new Gid(0, 0xffff_0a00_0001L);
        context.ports = new PortIds[] {portWith(here, here)};
        final MemorySegment grh = ibv_grh.allocate(arena);
        // Devices leave there what was there, which may look like the beginning of the other kind.
        for (final int garbage : new int[] {0xa5, 0, 0x60}) {
            grh.fill((byte) garbage);
            grh.asSlice(20).copyFrom(MemorySegment.ofArray(new byte[] {0x45, 8, 0, 0, 0, 0, 0, 0, 33, 17, (byte) 0x85, (byte) 0xe3,
                10, 0, 0, 2, 10, 0, 0, 1}));
            final MemorySegment attr = ibv_ah_attr.allocate(arena);
            assertEquals(0, verbs.initAh(1, 1, grh, attr));
            assertEquals(new Gid(0, 0xffff_0a00_0002L), Structs.gid(ibv_global_route.dgid(ibv_ah_attr.grh(attr))));
            assertEquals(33, ibv_global_route.hop_limit(ibv_ah_attr.grh(attr)));
            assertEquals(8, ibv_global_route.traffic_class(ibv_ah_attr.grh(attr)));
        }
    }

    /** The device keeps a queue pair while it listens to a group. */
    @Test
    void groupsAreLeftBeforeTheQueuePairIsDestroyed() {
        final Qp qp = new Qp(7, 107, 0, context, model.pds.get(2), null, null, null, null, verbs_h.IBV_QPT_UD(), 77,
                false, 0, 1, 1, 1, 1, 0);
        final MemorySegment gid = arena.allocate(16, 8);
        Structs.gid(gid, new Gid(0xff0eL << 48, 5));
        model.qps.add(qp);
        assertEquals(0, verbs.attach(7, gid, 0xc007));
        assertEquals(0, verbs.attach(7, gid, 0xc007));
        assertEquals(1, qp.groups.size());
        new RealObjects(library.as(Native.class), new ChosenBackend(device.as(Backend.class)), model, new QueuePairVerbs(
                library.as(Native.class), new ChosenBackend(device.as(Backend.class)), model, null, null)).destroy();
        assertTrue(device.calls.indexOf("detachMcast 107") >= 0
                && device.calls.indexOf("detachMcast 107") < device.calls.indexOf("destroyQp 107"));
        device.answer("detachMcast", args -> VerbsErrno.EINVAL);
        assertEquals(VerbsErrno.EINVAL, verbs.detach(7, gid, 0xc007));
        assertEquals(1, qp.groups.size());
        device.answer("detachMcast", args -> 0);
        assertEquals(0, verbs.detach(7, gid, 0xc007));
        assertEquals(0, qp.groups.size());
    }

    private static Bookmark bookmark(final int posted, final int retired, final int receives, final int error,
            final int marker, final int flushed) {
        return new Bookmark(posted, retired, posted, 0, receives, error, flushed > 0 ? 5 : 0, marker, 0, false, false,
                flushed);
    }

    private static DrainPolicy.Action decide(final SimulatedEnd end, final Bookmark bookmark) {
        end.end.bookmark = bookmark;
        end.retired = (int) bookmark.retired;
        return DrainPolicy.decideDatagrams(end.end, end).action;
    }

    /** Signaled ones are waited for, the rest is left to the flush. */
    @Test
    void datagramsAreSettledWhenTheSignaledOnesAreOut() {
        final SimulatedEnd end = new SimulatedEnd("A");
        end.sent.add(new SimulatedEnd.Sent(DrainPolicy.SEND, true));
        end.sent.add(new SimulatedEnd.Sent(DrainPolicy.SEND, false));
        assertEquals(DrainPolicy.Action.WAIT, decide(end, bookmark(2, 0, 3, 0, 0, 0)));
        assertEquals(DrainPolicy.Action.SETTLED, decide(end, bookmark(2, 1, 3, 0, 0, 0)));
        assertEquals(DrainPolicy.Action.DELIVER, decide(end, bookmark(2, 1, 3, 4, 0, 0)));
    }

    @Test
    void whatIsFlushedGoesBackToTheLog() {
        final SimulatedEnd end = new SimulatedEnd("A");
        end.end.flushing = true;
        assertEquals(DrainPolicy.Action.MARKER, decide(end, bookmark(2, 1, 3, 0, Bookmark.NO_MARKER, 0)));
        assertEquals(DrainPolicy.Action.WAIT, decide(end, bookmark(2, 1, 3, 0, Bookmark.MARKER_POSTED, 3)));
        assertEquals(DrainPolicy.Action.WAIT, decide(end, bookmark(2, 1, 3, 5, Bookmark.MARKER_FAILED, 2)));
        assertEquals(DrainPolicy.Action.WITHDRAW, decide(end, bookmark(2, 1, 3, 5, Bookmark.MARKER_FAILED, 3)));
        // None was flushed: all have been sent.
        assertEquals(DrainPolicy.Action.RETIRE, decide(end, bookmark(2, 1, 3, 0, Bookmark.MARKER_FAILED, 3)));
        assertEquals(DrainPolicy.Action.WITHDRAW, decide(end, bookmark(2, 2, 3, 0, Bookmark.MARKER_FAILED, 3)));
        end.end.withdrawn = true;
        assertEquals(DrainPolicy.Action.SETTLED, decide(end, bookmark(2, 2, 3, 0, Bookmark.MARKER_FAILED, 0)));
    }
}
