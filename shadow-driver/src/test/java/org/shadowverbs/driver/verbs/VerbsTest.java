// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.bindings.abi.sv_cq_spec;
import org.shadowverbs.bindings.abi.sv_qp_spec;
import org.shadowverbs.bindings.abi.sv_request;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_alloc_dm_attr;
import org.shadowverbs.bindings.verbs.ibv_cq_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.bindings.verbs.ibv_device_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_mr;
import org.shadowverbs.bindings.verbs.ibv_packet_pacing_caps;
import org.shadowverbs.bindings.verbs.ibv_port_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_cap;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_rate_limit_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.checkpoint.PeerTable;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.TestJob;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

/** Control verbs from the mailbox's request to the answer, over a library and a device that only take notes. */
class VerbsTest {
    private static final int REAL_LID = 0x44;

    private final Arena arena = Arena.ofConfined();
    private final Fake library = new Fake(0x10_0000);
    private final Fake device = new Fake(0x20_0000);
    private final TestJob job = new TestJob(library.calls, null);
    private Model model;
    private Verbs verbs;
    private MemorySegment mailbox;
    private int nextQpNum = 500;
    private int nextKey = 900;
    private MemorySegment lastModify;
    private MemorySegment lastInit;

    @BeforeEach
    void setUp() {
        start(IdMasks.IDENTITY);
    }

    private void start(final IdMasks masks) {
        device.answer("queryDevice", args -> {
            ibv_device_attr.phys_port_cnt((MemorySegment) args[1], (byte) 1);
            ibv_device_attr.max_qp_wr((MemorySegment) args[1], 100);
            ibv_device_attr.max_cqe((MemorySegment) args[1], 1000);
            return 0;
        });
        device.answer("queryPort", args -> {
            ibv_port_attr.lid((MemorySegment) args[2], (short) REAL_LID);
            return 0;
        });
        device.answer("qpNum", args -> nextQpNum);
        device.answer("lkey", args -> nextKey);
        device.answer("rkey", args -> nextKey);
        device.answer("modifyQp", args -> {
            lastModify = arena.allocate(ibv_qp_attr.sizeof(), 8).copyFrom((MemorySegment) args[1]);
            return 0;
        });
        device.answer("createQp", args -> {
            lastInit = arena.allocate(ibv_qp_init_attr.sizeof(), 8)
                    .copyFrom(((MemorySegment) args[1]).asSlice(0, ibv_qp_init_attr.sizeof()));
            return 0x7000L + nextQpNum;
        });
        model = new Model(masks);
        final Native nativeFake = library.as(Native.class);
        mailbox = arena.allocate(sv_request.sizeof() * 64, 128);
        verbs = new Verbs(nativeFake, new ChosenBackend(device.as(Backend.class)), model, new KeyMaps(nativeFake), job);
    }

    @AfterEach
    void tearDown() {
        arena.close();
    }

    private int errOf(final int op, final long... args) {
        final MemorySegment first = mailbox.asSlice(0, sv_request.sizeof());
        sv_request.op(first, op);
        for (int i = 0; i < args.length; i++) {
            sv_request.arg(first, i, args[i]);
        }
        verbs.serve(new Request(mailbox).at(0));
        return sv_request.err(first);
    }

    private long call(final int op, final long... args) {
        assertEquals(0, errOf(op, args), "errno of verb " + op + ": " + library.calls);
        return sv_request.result(mailbox.asSlice(0, sv_request.sizeof()));
    }

    private long createQp(final long pd, final long cq) {
        final MemorySegment init = ibv_qp_init_attr.allocate(arena);
        ibv_qp_init_attr.send_cq(init, MemorySegment.ofAddress(cq));
        ibv_qp_init_attr.recv_cq(init, MemorySegment.ofAddress(cq));
        ibv_qp_init_attr.qp_type(init, verbs_h.IBV_QPT_RC());
        ibv_qp_cap.max_send_wr(ibv_qp_init_attr.cap(init), 10);
        final long qp = call(Op.CREATE_QP, pd, init.address());
        assertEquals(10, ibv_qp_cap.max_send_wr(ibv_qp_init_attr.cap(init)), "what the application is told");
        return qp;
    }

    private int connect(final long qp, final int qpNum, final int lid) {
        final MemorySegment attr = ibv_qp_attr.allocate(arena);
        ibv_qp_attr.qp_state(attr, verbs_h.IBV_QPS_RTR());
        ibv_qp_attr.dest_qp_num(attr, qpNum);
        ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(attr), (short) lid);
        ibv_ah_attr.port_num(ibv_qp_attr.ah_attr(attr), (byte) 1);
        return errOf(Op.MODIFY_QP, qp, attr.address(),
                verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_DEST_QPN());
    }

    private long init(final long qp) {
        final MemorySegment attr = ibv_qp_attr.allocate(arena);
        ibv_qp_attr.qp_state(attr, verbs_h.IBV_QPS_INIT());
        ibv_qp_attr.port_num(attr, (byte) 1);
        return errOf(Op.MODIFY_QP, qp, attr.address(), verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PORT());
    }

    @Test
    void operationsAreNumberedAsInTheHeader() {
        assertEquals(shadowverbs_h.SV_OP_OPEN_DEVICE(), Op.OPEN_DEVICE);
        assertEquals(shadowverbs_h.SV_OP_GET_PKEY_INDEX(), Op.GET_PKEY_INDEX);
        assertEquals(shadowverbs_h.SV_OP_REREG_MR(), Op.REREG_MR);
        assertEquals(shadowverbs_h.SV_OP_CREATE_CQ_EX(), Op.CREATE_CQ_EX);
        assertEquals(shadowverbs_h.SV_OP_MODIFY_QP(), Op.MODIFY_QP);
        assertEquals(shadowverbs_h.SV_OP_DESTROY_AH(), Op.DESTROY_AH);
        assertEquals(shadowverbs_h.SV_OP_CREATE_SRQ_EX(), Op.CREATE_SRQ_EX);
        assertEquals(shadowverbs_h.SV_OP_OPEN_QP(), Op.OPEN_QP);
        assertEquals(shadowverbs_h.SV_OP_MODIFY_QP_RATE_LIMIT(), Op.MODIFY_QP_RATE_LIMIT);
        assertEquals(shadowverbs_h.SV_OP_CM_DISCONNECT(), Op.CM_DISCONNECT);
        assertEquals(shadowverbs_h.SV_OP_EXIT(), Op.EXIT);
    }

    /** {@return the queue pair of a fresh device, context first} */
    private long[] freshQueuePair() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        return new long[] {context, createQp(pd, call(Op.CREATE_CQ, context, 10, 0, 0, 0))};
    }

    /** Before the program can tell anybody of it. */
    @Test
    void aDeviceWhoseLidsAreOursGetsOneWhenItIsOpened() {
        final Gid gid = new Gid(0xfe80L << 48, 0x77);
        final int[] lid = {0};
        device.answer("lidsAreOurs", args -> true).answer("queryPort", args -> {
            ibv_port_attr.lid((MemorySegment) args[2], (short) lid[0]);
            return 0;
        }).answer("queryGid", args -> {
            Structs.gid((MemorySegment) args[3], gid);
            return 0;
        }).answer("lid", args -> {
            lid[0] = (int) args[0];
            return null;
        });
        final long first = call(Op.OPEN_DEVICE, 0x5000);
        assertEquals(TestJob.LID, lid[0]);
        call(Op.OPEN_DEVICE, 0x5000);
        assertEquals(Map.of(TestJob.LID, gid), job.published, "one for all contexts of the device");
        final MemorySegment attr = ibv_port_attr.allocate(arena);
        call(Op.QUERY_PORT, first, 1, attr.address(), attr.byteSize());
        assertEquals(model.masks.lid(TestJob.LID), ibv_port_attr.lid(attr) & 0xffff);
    }

    @Test
    void aRateLimitIsTheDevicesBusinessAndRecordedWhenItHasTakenIt() {
        final long qp = freshQueuePair()[1];
        final MemorySegment limit = ibv_qp_rate_limit_attr.allocate(arena);
        ibv_qp_rate_limit_attr.rate_limit(limit, 7000);
        ibv_qp_rate_limit_attr.max_burst_sz(limit, 64);
        ibv_qp_rate_limit_attr.typical_pkt_sz(limit, (short) 32);
        device.answer("modifyQpRateLimit", args -> VerbsErrno.EBUSY);
        assertEquals(VerbsErrno.EBUSY, errOf(Op.MODIFY_QP_RATE_LIMIT, qp, limit.address()));
        assertEquals(0, model.queuePair(qp).attributes.rateLimit());
        device.answer("modifyQpRateLimit", args -> {
            assertEquals(model.queuePair(qp).real, args[0]);
            assertEquals(7000, ibv_qp_rate_limit_attr.rate_limit((MemorySegment) args[1]));
            return 0;
        });
        call(Op.MODIFY_QP_RATE_LIMIT, qp, limit.address());
        assertEquals(7000, model.queuePair(qp).attributes.rateLimit());
        ibv_qp_rate_limit_attr.comp_mask(limit, 1);
        ibv_qp_rate_limit_attr.rate_limit(limit, 8000);
        assertEquals(VerbsErrno.EINVAL, errOf(Op.MODIFY_QP_RATE_LIMIT, qp, limit.address()));
        assertEquals(7000, model.queuePair(qp).attributes.rateLimit());
    }

    @Test
    void packetPacingIsShownForTypesOfQueuePairsThatThereAre() {
        final int rawPacket = 8;
        final long context = freshQueuePair()[0];
        final MemorySegment attr = ibv_device_attr_ex.allocate(arena);
        final MemorySegment caps = ibv_device_attr_ex.packet_pacing_caps(attr);
        final int[] types = {1 << rawPacket | 1 << verbs_h.IBV_QPT_RC(), 1 << rawPacket};
        for (final int type : types) {
            device.answer("queryDeviceEx", args -> {
                final MemorySegment real = ibv_device_attr_ex.packet_pacing_caps((MemorySegment) args[1]);
                ibv_packet_pacing_caps.qp_rate_limit_min(real, 3);
                ibv_packet_pacing_caps.qp_rate_limit_max(real, -2);
                ibv_packet_pacing_caps.supported_qpts(real, type);
                return 0;
            });
            call(Op.QUERY_DEVICE_EX, context, 0, attr.address(), attr.byteSize());
            final boolean any = type != 1 << rawPacket;
            assertEquals(any ? 1 << verbs_h.IBV_QPT_RC() : 0, ibv_packet_pacing_caps.supported_qpts(caps));
            assertEquals(any ? 3 : 0, ibv_packet_pacing_caps.qp_rate_limit_min(caps));
            assertEquals(any ? -2 : 0, ibv_packet_pacing_caps.qp_rate_limit_max(caps));
        }
    }

    @Test
    void aWholeLifeLeavesNothingBehind() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final long mr = call(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 7);
        final long channel = call(Op.CREATE_COMP_CHANNEL, context);
        final long cq = call(Op.CREATE_CQ, context, 10, 0, channel, 0);
        final long qp = createQp(pd, cq);
        assertEquals(VerbsErrno.EBUSY, errOf(Op.DESTROY_COMP_CHANNEL, channel));
        call(Op.DESTROY_QP, qp);
        call(Op.DESTROY_CQ, cq);
        call(Op.DESTROY_COMP_CHANNEL, channel);
        call(Op.DEREG_MR, mr);
        call(Op.DEALLOC_PD, pd);
        call(Op.CLOSE_DEVICE, context);
        assertEquals(0, model.contexts.size() + model.pds.size() + model.mrs.size() + model.cqs.size()
                + model.qps.size() + model.channels.size());
        assertEquals(List.of("closeDevice", "deallocPd", "deregMr", "destroyChannel", "destroyCq", "destroyQp"),
                device.names().stream().filter(c -> c.matches("(de(alloc|reg|stroy)|close).*")).sorted().toList());
        assertEquals(VerbsErrno.EINVAL, errOf(Op.DESTROY_QP, qp), "twice");
    }

    @Test
    void roomForMarkersIsAddedAndNotShown() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final MemorySegment attr = ibv_device_attr.allocate(arena);
        call(Op.QUERY_DEVICE, context, attr.address());
        assertEquals(99, ibv_device_attr.max_qp_wr(attr));
        assertEquals(1000 - Backend.CQ_ROOM, ibv_device_attr.max_cqe(attr));
        device.answer("createCq", args -> {
            assertEquals(10 + Backend.CQ_ROOM, args[1]);
            return 0x8000L;
        });
        final long cq = call(Op.CREATE_CQ, context, 10, 0, 0, 0);
        createQp(call(Op.ALLOC_PD, context), cq);
        assertEquals(11, ibv_qp_cap.max_send_wr(ibv_qp_init_attr.cap(lastInit)));
        assertEquals(0x8000L, ibv_qp_init_attr.send_cq(lastInit).address(), "the real queue");
    }

    /** The device, which is asked for more than the application asked for, must not take the sum for a small number. */
    @Test
    void aSizeThatTheRoomMakesOverflowIsRefused() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final long cq = call(Op.CREATE_CQ, context, 10, 0, 0, 0);
        final long queues = device.count("createCq");
        final MemorySegment init = ibv_qp_init_attr.allocate(arena);
        ibv_qp_init_attr.send_cq(init, MemorySegment.ofAddress(cq));
        ibv_qp_init_attr.recv_cq(init, MemorySegment.ofAddress(cq));
        ibv_qp_init_attr.qp_type(init, verbs_h.IBV_QPT_RC());
        ibv_qp_cap.max_send_wr(ibv_qp_init_attr.cap(init), 0xffff_ffff);
        assertEquals(VerbsErrno.EINVAL, errOf(Op.CREATE_QP, pd, init.address()));
        assertEquals(0, device.count("createQp"));
        final MemorySegment extended = cqAttributes(0, 0);
        for (final int cqe : new int[] {Integer.MAX_VALUE, Integer.MAX_VALUE - Backend.CQ_ROOM + 1, 0, -1}) {
            assertEquals(VerbsErrno.EINVAL, errOf(Op.CREATE_CQ, context, cqe, 0, 0, 0));
            assertEquals(VerbsErrno.EINVAL, errOf(Op.RESIZE_CQ, cq, cqe));
            ibv_cq_init_attr_ex.cqe(extended, cqe);
            assertEquals(VerbsErrno.EINVAL, errOf(Op.CREATE_CQ_EX, context, extended.address()));
        }
        assertEquals(queues, device.count("createCq"));
        assertEquals(0, device.count("resizeCq"));
    }

    private MemorySegment cqAttributes(final long wcFlags, final int flags) {
        final MemorySegment attr = ibv_cq_init_attr_ex.allocate(arena);
        ibv_cq_init_attr_ex.cqe(attr, 10);
        ibv_cq_init_attr_ex.wc_flags(attr, wcFlags);
        ibv_cq_init_attr_ex.comp_mask(attr, flags == 0 ? 0 : verbs_h.IBV_CQ_INIT_ATTR_MASK_FLAGS());
        ibv_cq_init_attr_ex.flags(attr, flags);
        return attr;
    }

    @Test
    void anExtendedQueueOfPlainFieldsIsPlainBelow() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        library.answer("cqOpen", args -> {
            final MemorySegment spec = (MemorySegment) args[1];
            assertEquals(1, sv_cq_spec.extended(spec));
            assertEquals(1, sv_cq_spec.single_threaded(spec));
            assertEquals(verbs_h.IBV_WC_STANDARD_FLAGS(), sv_cq_spec.wc_flags(spec));
            return 0;
        });
        call(Op.CREATE_CQ_EX, context, cqAttributes(verbs_h.IBV_WC_STANDARD_FLAGS(),
                verbs_h.IBV_CREATE_CQ_ATTR_SINGLE_THREADED()).address());
        assertEquals(1, library.count("cqOpen"));
        assertEquals(1, device.count("createCq"));
        assertEquals(0, device.count("createCqEx"));
    }

    @Test
    void aQueueWithTimestampsIsExtendedBelow() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long stamped = verbs_h.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP();
        device.answer("createCqEx", args -> {
            final MemorySegment attr = (MemorySegment) args[1];
            assertEquals(10 + Backend.CQ_ROOM, ibv_cq_init_attr_ex.cqe(attr));
            assertEquals(stamped | verbs_h.IBV_WC_EX_WITH_BYTE_LEN() | verbs_h.IBV_WC_EX_WITH_IMM()
                    | verbs_h.IBV_WC_EX_WITH_SRC_QP() | verbs_h.IBV_WC_EX_WITH_SLID(),
                    ibv_cq_init_attr_ex.wc_flags(attr), "and what the drain reads, and who finds out senders");
            assertEquals(0, ibv_cq_init_attr_ex.comp_mask(attr));
            return 0x8000L;
        });
        call(Op.CREATE_CQ_EX, context, cqAttributes(stamped, 0).address());
        assertEquals(0, device.count("createCq"));
        assertEquals(1, library.count("cqBind"));
        device.answer("createCqEx", args -> {
            assertEquals(verbs_h.IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN(),
                    ibv_cq_init_attr_ex.flags((MemorySegment) args[1]));
            throw new VerbsException(VerbsErrno.ENODEV);
        });
        assertEquals(VerbsErrno.ENODEV, errOf(Op.CREATE_CQ_EX, context, cqAttributes(0,
                verbs_h.IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN()).address()), "as the device answers");
        assertEquals(VerbsErrno.EOPNOTSUPP,
                errOf(Op.CREATE_CQ_EX, context, cqAttributes(verbs_h.IBV_WC_EX_WITH_TM_INFO(), 0).address()));
        assertEquals(1, model.cqs.size());
    }

    @Test
    void idsAreScrambledBothWays() {
        start(IdMasks.SCRAMBLED);
        final int[] seen = new int[1];
        library.answer("qpOpen", args -> {
            seen[0] = sv_qp_spec.vqp_num((MemorySegment) args[1]);
            return 0;
        });
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long qp = createQp(call(Op.ALLOC_PD, context), call(Op.CREATE_CQ, context, 10, 0, 0, 0));
        assertEquals(500 ^ IdMasks.SCRAMBLED.qpNum(), seen[0]);
        final MemorySegment port = ibv_port_attr.allocate(arena);
        call(Op.QUERY_PORT, context, 1, port.address(), ibv_port_attr.sizeof());
        assertNotEquals(REAL_LID, ibv_port_attr.lid(port) & 0xffff);
        assertEquals(0, connect(qp, seen[0], ibv_port_attr.lid(port)));
        assertEquals(500, ibv_qp_attr.dest_qp_num(lastModify));
        assertEquals(REAL_LID, ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(lastModify)) & 0xffff);
    }

    @Test
    void anObjectThatWouldHaveACarriedOverIdIsReplaced() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final long cq = call(Op.CREATE_CQ, context, 10, 0, 0, 0);
        final Context c = model.contexts.get(context);
        final ExceptionSet carried = ExceptionSet.of(new int[] {500, 501}, new int[] {7, 8}, 2);
        c.qpNums.reattached(carried, List.of());
        final ExceptionSet keys = ExceptionSet.of(new int[] {900}, new int[] {9}, 1);
        c.localKeys.reattached(keys, List.of());
        device.answer("createQp", args -> 0x7000L + nextQpNum++);
        device.answer("qpNum", args -> (int) ((long) args[0] - 0x7000L));
        device.answer("regMr", args -> 0x9000L + nextKey++);
        device.answer("lkey", args -> (int) ((long) args[0] - 0x9000L));
        createQp(pd, cq);
        assertEquals(502, model.qps.inOrder().get(0).virtualQpNum);
        assertEquals(3, device.count("createQp"));
        assertEquals(2, device.count("destroyQp"));
        assertTrue(device.names().lastIndexOf("createQp") < device.names().indexOf("destroyQp"),
                "held while the next is made, or it would come again");
        call(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 7);
        assertEquals(901, model.mrs.inOrder().get(0).virtualLkey);
        assertEquals(1, device.count("deregMr"));
    }

    /** Key 0, which Soft-RoCE gives to all regions that no peer may access, has been carried over. */
    @Test
    void aRegionThatNoPeerMayAccessSharesItsRemoteKey() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final ExceptionSet carried = ExceptionSet.of(new int[] {0}, new int[] {0}, 1);
        model.contexts.get(context).remoteKeys.reattached(carried, List.of());
        device.answer("rkey", args -> 0);
        assertEquals(0, errOf(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 1));
        assertEquals(0, model.mrs.inOrder().get(0).virtualRkey);
        assertEquals(VerbsErrno.ENOMEM, errOf(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 7), "one that peers may access needs its own");
    }

    @Test
    void aDestinationCarriedOverIsTranslated() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long qp = createQp(call(Op.ALLOC_PD, context), call(Op.CREATE_CQ, context, 10, 0, 0, 0));
        library.calls.clear();
        final PortIds port = new PortIds(1, 0x11, 0x99, 0, 1, new PortIds.GidPair[0]);
        model.book(new AddressBook(List.of(new OwnerRecord(3, new OwnerRecord.ContextIds[] {
            new OwnerRecord.ContextIds(new PortIds[] {port}, ExceptionSet.of(new int[] {40}, new int[] {41}, 1),
                    ExceptionSet.EMPTY, ExceptionSet.of(new int[] {1}, new int[] {2}, 1), Map.of())}))));
        assertEquals(0, connect(qp, 40, 0x11));
        assertEquals(41, ibv_qp_attr.dest_qp_num(lastModify));
        assertEquals(0x99, ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(lastModify)));
        assertEquals(1, library.count("qpSetRkeys"));
        assertEquals(40, model.qps.inOrder().get(0).attributes.destQpNum(), "recorded as the application gave it");
        assertEquals(1, library.count("awaitAddressBook"));
    }

    /** A device gives its ids to all who have it open, also to a process that joins, and to one that opens it once more. */
    @Test
    void aDeviceOpenedAfterARestartTakesNoIdThatAnotherProcessHasCarriedOver() {
        final PortIds port = new PortIds(1, REAL_LID, REAL_LID, 0, 1, new PortIds.GidPair[0]);
        final ExceptionSet numbers = ExceptionSet.of(new int[] {500}, new int[] {501}, 1);
        final ExceptionSet keys = ExceptionSet.of(new int[] {900}, new int[] {901}, 1);
        model.book(new AddressBook(List.of(new OwnerRecord(3, new OwnerRecord.ContextIds[] {
            new OwnerRecord.ContextIds(new PortIds[] {port}, numbers, ExceptionSet.EMPTY, keys, Map.of())}))));
        device.answer("createQp", args -> 0x7000L + nextQpNum++);
        device.answer("qpNum", args -> (int) ((long) args[0] - 0x7000L));
        device.answer("regMr", args -> 0x9000L + nextKey++);
        device.answer("rkey", args -> (int) ((long) args[0] - 0x9000L));
        for (final boolean reattached : new boolean[] {false, true}) {
            nextQpNum = 500;
            nextKey = 900;
            final long context = call(Op.OPEN_DEVICE, 0x5000);
            assertEquals(reattached, model.contexts.get(context).reattached);
            final long pd = call(Op.ALLOC_PD, context);
            createQp(pd, call(Op.CREATE_CQ, context, 10, 0, 0, 0));
            assertEquals(502, model.qps.inOrder().getLast().virtualQpNum);
            assertEquals(0, errOf(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 7));
            assertEquals(902, model.mrs.inOrder().getLast().virtualRkey);
            model.contexts.get(context).reattached = true;
        }
    }

    private static MemorySegment mrStruct(final long address) {
        return MemorySegment.ofAddress(address).reinterpret(ibv_mr.sizeof());
    }

    /** The virtual region is a struct, which ibv_rereg_mr changes. */
    private long region(final long pd) {
        final long struct = ibv_mr.allocate(arena).address();
        library.answer("mrAlloc", args -> struct);
        return call(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 7);
    }

    /** A driver that gives ids out one after the other, on a device that was not used before. */
    @Test
    void asManyIdsMayBeTakenAsObjectsWereCarriedOver() {
        final int objects = 1000;
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final long cq = call(Op.CREATE_CQ, context, 10, 0, 0, 0);
        final Context c = model.contexts.get(context);
        final int[] ids = IntStream.rangeClosed(1, objects).toArray();
        final int[] reals = IntStream.rangeClosed(100_001, 100_000 + objects).toArray();
        final ExceptionSet carried = ExceptionSet.of(ids, reals, objects);
        c.qpNums.reattached(carried, List.of());
        c.localKeys.reattached(carried, List.of());
        final int[] next = new int[2];
        device.answer("createQp", args -> 0x7000L + ++next[0]);
        device.answer("qpNum", args -> (int) ((long) args[0] - 0x7000L));
        device.answer("regMr", args -> 0x9000L + ++next[1]);
        device.answer("lkey", args -> (int) ((long) args[0] - 0x9000L));
        createQp(pd, cq);
        assertEquals(objects + 1, model.qps.inOrder().get(0).virtualQpNum);
        assertEquals(objects, device.count("destroyQp"));
        call(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 7);
        assertEquals(objects + 1, model.mrs.inOrder().get(0).virtualLkey);
        assertEquals(objects, device.count("deregMr"));
    }

    @Test
    void aRegionIsChangedUntilItsKeysAreAcceptable() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final long mr = region(pd);
        final ExceptionSet carried = ExceptionSet.of(new int[] {901, 902}, new int[] {9, 10}, 2);
        model.contexts.get(context).localKeys.reattached(carried, List.of());
        device.answer("reregMr", args -> {
            nextKey++;
            return 0;
        });
        call(Op.REREG_MR, mr, 1, 0, 0x9000, 8192, 0);
        assertEquals(3, device.count("reregMr"));
        assertEquals(903, ibv_mr.lkey(mrStruct(mr)));
        assertEquals(0x9000, ibv_mr.addr(mrStruct(mr)).address());
        assertEquals(8192, model.mrs.get(mr).what.length);
        assertEquals(7, model.mrs.get(mr).what.access, "as before");
        device.answer("reregMr", args -> 0);
        call(Op.REREG_MR, mr, 4, 0, 0, 0, 1);
        assertEquals(1, model.mrs.get(mr).what.access);
        assertEquals(0x9000, model.mrs.get(mr).what.address);
        device.answer("reregMr", args -> -4);
        errOf(Op.REREG_MR, mr, 1, 0, 0x7000, 1, 0);
        assertEquals(-4, (int) sv_request.result(mailbox.asSlice(0, sv_request.sizeof())));
        assertEquals(0x9000, model.mrs.get(mr).what.address);
    }

    /** It was brought back with another rkey than the program knows, which no peer was told, for none might use it. */
    @Test
    void aCarriedOverRegionThatPeersMayAccessFromNowOnGetsKeysThatTheyKnow() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final long struct = ibv_mr.allocate(arena).address();
        library.answer("mrAlloc", args -> struct);
        nextKey = 20;
        final long mr = call(Op.REG_MR, pd, 0x1000, 4096, 0x1000, 1);
        final int rkey = model.mrs.get(mr).virtualRkey;
        model.mrs.get(mr).virtualRkey = rkey + 500; // as of before the restart
        device.answer("reregMr", args -> 0);
        call(Op.REREG_MR, mr, 4, 0, 0, 0, 0);
        assertEquals(rkey + 500, ibv_mr.rkey(mrStruct(mr)), "still for nobody");
        assertEquals(0, device.count("deregMr"));
        nextKey = 30;
        call(Op.REREG_MR, mr, 4, 0, 0, 0, 7);
        assertEquals(1, device.count("deregMr"), "of the old region");
        final int now = ibv_mr.rkey(mrStruct(mr));
        assertEquals(model.contexts.get(context).remoteKeys.virtualOf(now), now);
        assertTrue(now != rkey && now != rkey + 500, Integer.toString(now));
        assertEquals(7, model.mrs.get(mr).what.access);
        call(Op.REREG_MR, mr, 4, 0, 0, 0, 15);
        assertEquals(now, ibv_mr.rkey(mrStruct(mr)), "all know it");
    }

    @Test
    void aDeadRegionLivesAgainWithOtherMemory() {
        final long pd = call(Op.ALLOC_PD, call(Op.OPEN_DEVICE, 0x5000));
        final long mr = region(pd);
        model.mrs.get(mr).dead = true;
        assertEquals(VerbsErrno.EINVAL, errOf(Op.REREG_MR, mr, 4, 0, 0, 0, 1));
        nextKey = 950;
        call(Op.REREG_MR, mr, 1, 0, 0x3000, 64, 0);
        assertEquals(0, device.count("reregMr"));
        assertEquals(2, device.count("regMr"));
        assertEquals(950, ibv_mr.lkey(mrStruct(mr)));
        call(Op.DEREG_MR, mr);
        assertEquals(1, device.count("deregMr"));
    }

    @Test
    void aParentDomainIsTheDomainBelowIt() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final long parent = call(Op.ALLOC_PARENT_DOMAIN, pd);
        assertEquals(1, device.count("allocPd"));
        assertEquals(model.pds.get(pd).real, model.pds.get(parent).real);
        final long mr = call(Op.REG_MR, parent, 0x1000, 4096, 0x1000, 7);
        assertEquals(VerbsErrno.EBUSY, errOf(Op.DEALLOC_PD, pd));
        assertEquals(VerbsErrno.EBUSY, errOf(Op.DEALLOC_PD, parent));
        call(Op.DEREG_MR, mr);
        call(Op.DEALLOC_PD, parent);
        assertEquals(0, device.count("deallocPd"));
        call(Op.DEALLOC_PD, pd);
        assertEquals(1, device.count("deallocPd"));
    }

    @Test
    void whatIsRefusedIsNotThereToBeginWith() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        device.answer("queryDeviceEx", args -> {
            ((MemorySegment) args[1]).fill((byte) 1);
            return 0;
        });
        final MemorySegment attr = ibv_device_attr_ex.allocate(arena);
        call(Op.QUERY_DEVICE_EX, context, 0, attr.address(), ibv_device_attr_ex.sizeof());
        assertEquals(0, ibv_device_attr_ex.raw_packet_caps(attr));
        assertEquals(-1, ibv_device_attr_ex.odp_caps(attr).mismatch(MemorySegment.ofArray(
                new byte[(int) ibv_device_attr_ex.odp_caps(attr).byteSize()])));
        assertEquals(0x0101_0101_0101_0101L, ibv_device_attr_ex.max_dm_size(attr), "that is there");
    }

    @Test
    void nullRegionsMayShareTheirKey() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        call(Op.ALLOC_NULL_MR, pd);
        final ExceptionSet carried = ExceptionSet.of(new int[] {600}, new int[] {900}, 1);
        model.contexts.get(context).localKeys.reattached(carried, List.of());
        model.mrs.inOrder().get(0).virtualLkey = 600;
        call(Op.ALLOC_NULL_MR, pd);
        assertEquals(2, device.count("allocNullMr"));
        assertEquals(600, model.mrs.inOrder().get(1).virtualLkey, "the device gave the same key again");
    }

    @Test
    void deviceMemory() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final MemorySegment attr = ibv_alloc_dm_attr.allocate(arena);
        ibv_alloc_dm_attr.length(attr, 100);
        final long dm = call(Op.ALLOC_DM, context, attr.address());
        assertEquals(VerbsErrno.EINVAL, errOf(Op.REG_DM_MR, pd, dm, 50, 51, 1));
        final long mr = call(Op.REG_DM_MR, pd, dm, 50, 50, 1);
        device.answer("freeDm", args -> VerbsErrno.EBUSY);
        assertEquals(VerbsErrno.EBUSY, errOf(Op.FREE_DM, dm));
        call(Op.DEREG_MR, mr);
        device.answer("freeDm", args -> 0);
        call(Op.FREE_DM, dm);
        assertEquals(0, model.dms.size() + model.mrs.size());
        ibv_alloc_dm_attr.comp_mask(attr, 1);
        assertEquals(VerbsErrno.EINVAL, errOf(Op.ALLOC_DM, context, attr.address()));
    }

    @Test
    void aBufferOfAnotherDriverIsHeldByADescriptorOfOurs() {
        final long pd = call(Op.ALLOC_PD, call(Op.OPEN_DEVICE, 0x5000));
        library.answer("duplicate", args -> 33);
        final long mr = call(Op.REG_DMABUF_MR, pd, 0, 4096, 0x1000, 5, 1);
        assertEquals(33, model.mrs.get(mr).what.fd);
        call(Op.DEREG_MR, mr);
        assertTrue(library.calls.contains("close 33"));
        device.answer("regDmabufMr", args -> {
            throw new VerbsException(VerbsErrno.EOPNOTSUPP);
        });
        assertEquals(VerbsErrno.EOPNOTSUPP, errOf(Op.REG_DMABUF_MR, pd, 0, 4096, 0x1000, 5, 1));
        assertEquals(2, library.calls.stream().filter("close 33"::equals).count());
    }

    @Test
    void whatFailsHalfwayIsUndoneAndKeepsItsErrno() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        library.answer("cqBind", args -> (long) args[1] == 0 ? 0 : 24);
        assertEquals(24, errOf(Op.CREATE_CQ, context, 10, 0, 0, 0));
        assertEquals(1, device.count("destroyCq"));
        assertEquals(1, library.count("cqFree"));
        device.answer("allocPd", args -> {
            throw new VerbsException(28);
        });
        assertEquals(28, errOf(Op.ALLOC_PD, context));
        device.answer("closeDevice", args -> {
            throw new IllegalStateException("a bug");
        });
        assertEquals(VerbsErrno.EIO, errOf(Op.CLOSE_DEVICE, context));
        assertEquals(1, library.count("say"));
    }

    @Test
    void whatIsNotVirtualizedIsRefusedByName() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long pd = call(Op.ALLOC_PD, context);
        final MemorySegment init = ibv_qp_init_attr.allocate(arena);
        ibv_qp_init_attr.qp_type(init, verbs_h.IBV_QPT_RAW_PACKET());
        assertEquals(VerbsErrno.EOPNOTSUPP, errOf(Op.CREATE_QP, pd, init.address()));
        assertEquals(1, library.count("say"));
        assertEquals(0, device.count("createQp"));
    }

    @Test
    void aQueryAnswersWithWhatTheApplicationKnows() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long cq = call(Op.CREATE_CQ, context, 10, 0, 0, 0);
        final long qp = createQp(call(Op.ALLOC_PD, context), cq);
        assertEquals(0, init(qp));
        assertEquals(0, connect(qp, 40, 0x11));
        final MemorySegment attr = ibv_qp_attr.allocate(arena);
        final MemorySegment init = ibv_qp_init_attr.allocate(arena);
        device.answer("queryQp", args -> {
            ibv_qp_attr.dest_qp_num((MemorySegment) args[1], 999);
            ibv_qp_cap.max_send_wr(ibv_qp_attr.cap((MemorySegment) args[1]), 11);
            return 0;
        });
        call(Op.QUERY_QP, qp, attr.address(), verbs_h.IBV_QP_DEST_QPN(), init.address());
        assertEquals(40, ibv_qp_attr.dest_qp_num(attr));
        assertEquals(10, ibv_qp_cap.max_send_wr(ibv_qp_attr.cap(attr)));
        assertEquals(cq, ibv_qp_init_attr.send_cq(init).address());
    }

    @Test
    void aDestroyedConnectionLeavesWordForItsPeer() {
        final long context = call(Op.OPEN_DEVICE, 0x5000);
        final long qp = createQp(call(Op.ALLOC_PD, context), call(Op.CREATE_CQ, context, 10, 0, 0, 0));
        assertEquals(0, init(qp));
        assertEquals(0, connect(qp, 40, 0x11));
        call(Op.DESTROY_QP, qp);
        assertEquals(1, model.tombstones().size());
        assertEquals(1, PeerTable.exitRecords(model, 3, Set.of()).size());
    }
}
