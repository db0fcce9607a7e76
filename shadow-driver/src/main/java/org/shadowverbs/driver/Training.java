// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.shadowverbs.bindings.abi.sv_request;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.bindings.verbs.ibv_port_attr;
import org.shadowverbs.bindings.verbs.ibv_qp;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_cap;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.coordinator.client.JobBackend;
import org.shadowverbs.coordinator.client.TrainingAgent;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.checkpoint.CheckpointThread;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.NativeLibrary;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.verbs.Op;
import org.shadowverbs.driver.verbs.Request;
import org.shadowverbs.driver.verbs.ServiceThread;
import org.shadowverbs.driver.verbs.Verbs;
import org.shadowverbs.ids.IdMasks;

/**
 * Walks the boot path, the common control verbs, a checkpoint and restarts, so that the AOT cache holds what they need. Wants
 * {@code libshadowverbs.so} and {@code libibverbs.so.1} where the loader finds them, and a free place for an agent's socket in
 * {@code SHADOWVERBS_AGENT}; where there is no device, the part up to the first verb is all there is.
 */
final class Training {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    private final Native library = new NativeLibrary();
    private final ChosenBackend backend = new ChosenBackend(library, BackendName.HCA);
    private final Model model = new Model(IdMasks.IDENTITY);
    private final KeyMaps keyMaps = new KeyMaps(library);
    private final Verbs verbs;
    private final MemorySegment mailbox;
    private final Request request;

    private Training(final Arena arena) {
        final CheckpointThread checkpoints = new CheckpointThread(library, backend, model, keyMaps);
        verbs = new Verbs(library, backend, model, keyMaps, checkpoints);
        mailbox = arena.allocate(sv_request.sizeof() * 64, 128);
        request = new Request(mailbox).at(0);
        checkpoints.start(verbs.queuePairs());
        ServiceThread.startPool(library, verbs);
    }

    /** @param verdictPipe a FIFO */
    static void run(final Path verdictPipe) {
        // In a rank the preload library gives its function to the class before this one is there.
        System.loadLibrary("shadowverbs");
        try (TrainingAgent agent = new TrainingAgent(AgentPlace.ofThisProcess(), verdictPipe);
                Arena arena = Arena.ofConfined()) {
            new Training(arena).verbs(arena, agent);
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException("training: " + e.getMessage(), e);
        }
    }

    private void verbs(final Arena arena, final TrainingAgent agent) throws IOException, InterruptedException {
        library.abiVersion();
        JobBackend.read(AgentPlace.ofThisProcess());
        library.setMasks(0, 0, 0, 0);
        library.mailbox();
        library.mailboxTake(0);
        final long[] devices = backend.now().devices();
        if (devices.length == 0) {
            return;
        }
        final long vdevice = library.deviceFor(devices[0]);
        library.deviceBind(vdevice, devices[0]);
        final long context = call(Op.OPEN_DEVICE, vdevice);
        call(Op.QUERY_DEVICE, context, ibv_device_attr.allocate(arena).address());
        final MemorySegment port = ibv_port_attr.allocate(arena);
        call(Op.QUERY_PORT, context, 1, port.address(), ibv_port_attr.sizeof());
        call(Op.QUERY_GID, context, 1, 0, arena.allocate(16, 8).address());
        final long pd = call(Op.ALLOC_PD, context);
        final long memory = arena.allocate(4096, 4096).address();
        final long mr = call(Op.REG_MR, pd, memory, 4096, memory, verbs_h.IBV_ACCESS_LOCAL_WRITE());
        final long channel = call(Op.CREATE_COMP_CHANNEL, context);
        final long cq = call(Op.CREATE_CQ, context, 10, 0, channel, 0);
        final MemorySegment init = ibv_qp_init_attr.allocate(arena);
        ibv_qp_init_attr.send_cq(init, MemorySegment.ofAddress(cq));
        ibv_qp_init_attr.recv_cq(init, MemorySegment.ofAddress(cq));
        ibv_qp_init_attr.qp_type(init, verbs_h.IBV_QPT_RC());
        final MemorySegment cap = ibv_qp_init_attr.cap(init);
        ibv_qp_cap.max_send_wr(cap, 4);
        ibv_qp_cap.max_recv_wr(cap, 4);
        ibv_qp_cap.max_send_sge(cap, 1);
        ibv_qp_cap.max_recv_sge(cap, 1);
        final long qp = call(Op.CREATE_QP, pd, init.address());
        final long peer = call(Op.CREATE_QP, pd, init.address());
        connect(arena, qp, peer, ibv_port_attr.lid(port));
        connect(arena, peer, qp, ibv_port_attr.lid(port));
        call(Op.QUERY_QP, qp, ibv_qp_attr.allocate(arena).address(), verbs_h.IBV_QP_STATE(), init.address());
        agent.checkpoint(DEADLINE);
        for (final String next : List.of(BackendName.HCA, BackendName.TCP, BackendName.HCA)) {
            agent.restart(next, DEADLINE);
        }
        call(Op.DESTROY_QP, peer);
        call(Op.DESTROY_QP, qp);
        call(Op.DESTROY_CQ, cq);
        call(Op.DESTROY_COMP_CHANNEL, channel);
        call(Op.DEREG_MR, mr);
        call(Op.DEALLOC_PD, pd);
        call(Op.CLOSE_DEVICE, context);
        call(Op.EXIT, 0);
    }

    /** From RESET to RTS, as a program of one process would that sends to itself. */
    private void connect(final Arena arena, final long qp, final long peer, final short lid) {
        final MemorySegment attr = ibv_qp_attr.allocate(arena);
        ibv_qp_attr.qp_state(attr, verbs_h.IBV_QPS_INIT());
        ibv_qp_attr.port_num(attr, (byte) 1);
        call(Op.MODIFY_QP, qp, attr.address(), verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PKEY_INDEX()
                | verbs_h.IBV_QP_PORT() | verbs_h.IBV_QP_ACCESS_FLAGS());
        ibv_qp_attr.qp_state(attr, verbs_h.IBV_QPS_RTR());
        ibv_qp_attr.path_mtu(attr, verbs_h.IBV_MTU_1024());
        ibv_qp_attr.dest_qp_num(attr, ibv_qp.qp_num(Structs.at(peer, ibv_qp.sizeof())));
        ibv_qp_attr.max_dest_rd_atomic(attr, (byte) 1);
        ibv_qp_attr.min_rnr_timer(attr, (byte) 12);
        ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(attr), lid);
        ibv_ah_attr.port_num(ibv_qp_attr.ah_attr(attr), (byte) 1);
        call(Op.MODIFY_QP, qp, attr.address(), verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_PATH_MTU()
                | verbs_h.IBV_QP_DEST_QPN() | verbs_h.IBV_QP_RQ_PSN() | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC()
                | verbs_h.IBV_QP_MIN_RNR_TIMER());
        ibv_qp_attr.qp_state(attr, verbs_h.IBV_QPS_RTS());
        ibv_qp_attr.timeout(attr, (byte) 14);
        ibv_qp_attr.retry_cnt(attr, (byte) 7);
        ibv_qp_attr.rnr_retry(attr, (byte) 7);
        ibv_qp_attr.max_rd_atomic(attr, (byte) 1);
        call(Op.MODIFY_QP, qp, attr.address(), verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT()
                | verbs_h.IBV_QP_RNR_RETRY() | verbs_h.IBV_QP_SQ_PSN() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC());
    }

    /** @throws IllegalStateException the verb failed: the cache would lack what comes after it */
    private long call(final int op, final long... args) {
        final MemorySegment slot = mailbox.asSlice(0, sv_request.sizeof());
        sv_request.op(slot, op);
        for (int i = 0; i < args.length; i++) {
            slot.set(ValueLayout.JAVA_LONG, sv_request.arg$offset() + 8L * i, args[i]);
        }
        verbs.serve(request);
        if (sv_request.err(slot) != 0) {
            throw new IllegalStateException("training: verb " + op + " failed: " + VerbsErrno.name(sv_request.err(slot)));
        }
        return sv_request.result(slot);
    }
}
