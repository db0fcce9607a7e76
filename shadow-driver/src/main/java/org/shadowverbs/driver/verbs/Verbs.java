// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_alloc_dm_attr;
import org.shadowverbs.bindings.verbs.ibv_cq_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.bindings.verbs.ibv_grh;
import org.shadowverbs.bindings.verbs.ibv_modify_cq_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_qp_open_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_rate_limit_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_xrcd_init_attr;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.nativelib.Downcall;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.UnexpectedException;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.xrc.XrcVerbs;

/** Takes a control verb's request to the class that serves it, and its outcome back. */
public final class Verbs {
    private static final int GID_SIZE = 16;

    private final Native library;
    private final ContextVerbs contexts;
    private final MemoryVerbs memory;
    private final WindowVerbs windows;
    private final CompletionVerbs completion;
    private final QueuePairVerbs queuePairs;
    private final SharedReceiveVerbs sharedReceives;
    private final XrcVerbs xrc;
    private final Job job;

    public Verbs(final Native library, final ChosenBackend backend, final Model model, final KeyMaps keyMaps,
            final Job job) {
        this.library = library;
        this.job = job;
        contexts = new ContextVerbs(library, backend, model, keyMaps, job);
        memory = new MemoryVerbs(library, backend, model);
        windows = new WindowVerbs(library, backend, model);
        completion = new CompletionVerbs(library, backend, model);
        sharedReceives = new SharedReceiveVerbs(library, backend, model);
        queuePairs = new QueuePairVerbs(library, backend, model, keyMaps, job);
        xrc = new XrcVerbs(library, backend, model, queuePairs.receivers());
    }

    public QueuePairVerbs queuePairs() {
        return queuePairs;
    }

    /** Serves one request. Whatever goes wrong becomes an errno value; nothing is thrown. */
    public void serve(final Request request) {
        try {
            dispatch(request);
        } catch (VerbsException e) {
            if (e.loud()) {
                library.say(e.getMessage());
            }
            request.answer(0, e.errno());
        } catch (OutOfMemoryError e) {
            library.say("verb " + request.op() + " of thread " + request.tid() + " failed: out of Java memory");
            request.answer(0, VerbsErrno.ENOMEM);
        } catch (Throwable e) {
            library.say("verb " + request.op() + " of thread " + request.tid() + " failed: " + UnexpectedException.describe(e));
            request.answer(0, VerbsErrno.EIO);
        }
    }

    private void dispatch(final Request r) {
        switch (r.op()) {
            case Op.OPEN_DEVICE:
                r.answer(contexts.open(r.arg(0)), 0);
                break;
            case Op.CLOSE_DEVICE:
                queuePairs.leave(r.arg(0));
                r.answer(0, contexts.close(r.arg(0)));
                break;
            case Op.QUERY_DEVICE:
                r.answer(0, contexts.queryDevice(r.arg(0), r.struct(1, ibv_device_attr.sizeof())));
                break;
            case Op.QUERY_DEVICE_EX:
                r.answer(0, contexts.queryDeviceEx(r.arg(0), r.arg(2), r.arg(3)));
                break;
            case Op.QUERY_PORT:
                r.answer(0, contexts.queryPort(r.arg(0), r.intArg(1) & 0xff, r.arg(2), r.arg(3)));
                break;
            case Op.QUERY_GID:
                r.answer(0, contexts.queryGid(r.arg(0), r.intArg(1) & 0xff, r.intArg(2), r.struct(3, GID_SIZE)));
                break;
            case Op.QUERY_GID_EX:
                r.answer(0, contexts.queryGidEx(r.arg(0), r.intArg(1), r.intArg(2), r.arg(3), r.intArg(4), r.arg(5)));
                break;
            case Op.QUERY_GID_TABLE:
                count(r, contexts.queryGidTable(r.arg(0), r.arg(1), r.arg(2), r.intArg(3), r.arg(4)));
                break;
            case Op.QUERY_PKEY:
                r.answer(0, contexts.queryPkey(r.arg(0), r.intArg(1) & 0xff, r.intArg(2), r.arg(3)));
                break;
            case Op.GET_PKEY_INDEX:
                count(r, contexts.pkeyIndex(r.arg(0), r.intArg(1) & 0xff, r.intArg(2) & 0xffff));
                break;
            case Op.ALLOC_PD:
                r.answer(memory.allocPd(r.arg(0)), 0);
                break;
            case Op.ALLOC_PARENT_DOMAIN:
                r.answer(memory.allocParentDomain(r.arg(0)), 0);
                break;
            case Op.DEALLOC_PD:
                r.answer(0, memory.deallocPd(r.arg(0)));
                break;
            case Op.REG_MR:
                r.answer(memory.regMr(r.arg(0), r.arg(1), r.arg(2), r.arg(3), r.intArg(4)), 0);
                break;
            case Op.REREG_MR:
                final int result = memory.reregMr(r.arg(0), r.intArg(1), r.arg(2), r.arg(3), r.arg(4),
                        r.intArg(5));
                r.answer(result, result == 0 ? 0 : Downcall.errno());
                break;
            case Op.DEREG_MR:
                r.answer(0, memory.deregMr(r.arg(0)));
                break;
            case Op.ALLOC_NULL_MR:
                r.answer(memory.allocNullMr(r.arg(0)), 0);
                break;
            case Op.REG_DMABUF_MR:
                r.answer(memory.regDmabufMr(r.arg(0), r.arg(1), r.arg(2), r.arg(3), r.intArg(4), r.intArg(5)), 0);
                break;
            case Op.ALLOC_DM:
                r.answer(memory.allocDm(r.arg(0), r.struct(1, ibv_alloc_dm_attr.sizeof())), 0);
                break;
            case Op.FREE_DM:
                r.answer(0, memory.freeDm(r.arg(0)));
                break;
            case Op.REG_DM_MR:
                r.answer(memory.regDmMr(r.arg(0), r.arg(1), r.arg(2), r.arg(3), r.intArg(4)), 0);
                break;
            case Op.ALLOC_MW:
                r.answer(windows.alloc(r.arg(0), r.intArg(1)), 0);
                break;
            case Op.DEALLOC_MW:
                r.answer(0, windows.dealloc(r.arg(0)));
                break;
            case Op.CREATE_COMP_CHANNEL:
                r.answer(completion.createChannel(r.arg(0)), 0);
                break;
            case Op.DESTROY_COMP_CHANNEL:
                r.answer(0, completion.destroyChannel(r.arg(0)));
                break;
            case Op.CREATE_CQ:
                r.answer(completion.createCq(r.arg(0), r.intArg(1), r.arg(2), r.arg(3), r.intArg(4)), 0);
                break;
            case Op.CREATE_CQ_EX:
                r.answer(completion.createCqEx(r.arg(0), r.struct(1, ibv_cq_init_attr_ex.sizeof())), 0);
                break;
            case Op.RESIZE_CQ:
                r.answer(0, completion.resizeCq(r.arg(0), r.intArg(1)));
                break;
            case Op.MODIFY_CQ:
                r.answer(0, completion.modifyCq(r.arg(0), r.struct(1, ibv_modify_cq_attr.sizeof())));
                break;
            case Op.DESTROY_CQ:
                r.answer(0, completion.destroyCq(r.arg(0)));
                break;
            case Op.CREATE_QP:
                r.answer(queuePairs.create(r.arg(0), r.struct(1, ibv_qp_init_attr.sizeof())), 0);
                break;
            case Op.CREATE_QP_EX:
                r.answer(queuePairs.createEx(r.struct(1, ibv_qp_init_attr_ex.sizeof())), 0);
                break;
            case Op.QUERY_QP:
                r.answer(0, queuePairs.query(r.arg(0), r.struct(1, ibv_qp_attr.sizeof()), r.intArg(2),
                        r.struct(3, ibv_qp_init_attr.sizeof())));
                break;
            case Op.MODIFY_QP:
                r.answer(0, queuePairs.modify(r.arg(0), r.struct(1, ibv_qp_attr.sizeof()), r.intArg(2)));
                break;
            case Op.MODIFY_QP_RATE_LIMIT:
                r.answer(0, queuePairs.modifyRateLimit(r.arg(0), r.struct(1, ibv_qp_rate_limit_attr.sizeof())));
                break;
            case Op.DESTROY_QP:
                r.answer(0, queuePairs.destroy(r.arg(0)));
                break;
            case Op.CM_DISCONNECT:
                job.disconnect(r.arg(0));
                r.answer(0, 0);
                break;
            case Op.EXIT:
                job.exit(r.intArg(0));
                r.answer(0, 0);
                break;
            case Op.CHECKPOINT:
                job.wantsCheckpoint(r.arg(0), r.intArg(1));
                r.answer(0, 0);
                break;
            case Op.CREATE_SRQ:
                r.answer(sharedReceives.create(r.arg(0), r.struct(1, ibv_srq_init_attr.sizeof())), 0);
                break;
            case Op.CREATE_SRQ_EX:
                r.answer(sharedReceives.createEx(r.struct(1, ibv_srq_init_attr_ex.sizeof())), 0);
                break;
            case Op.INIT_AH:
                r.answer(0, queuePairs.datagrams().initAh(r.arg(0), r.intArg(1) & 0xff, r.struct(2, ibv_grh.sizeof()),
                        r.struct(3, ibv_ah_attr.sizeof())));
                break;
            case Op.FROM_KERNEL:
                queuePairs.datagrams().fromKernel(r.struct(0, ibv_ah_attr.sizeof()));
                r.answer(0, 0);
                break;
            case Op.ATTACH_MCAST:
                r.answer(0, queuePairs.datagrams().attach(r.arg(0), r.struct(1, GID_SIZE), r.intArg(2) & 0xffff));
                break;
            case Op.DETACH_MCAST:
                r.answer(0, queuePairs.datagrams().detach(r.arg(0), r.struct(1, GID_SIZE), r.intArg(2) & 0xffff));
                break;
            case Op.OPEN_XRCD:
                queuePairs.datagrams().hearOthers(r.arg(0));
                r.answer(xrc.open(r.arg(0), r.struct(1, ibv_xrcd_init_attr.sizeof())), 0);
                break;
            case Op.CLOSE_XRCD:
                r.answer(0, xrc.close(r.arg(0)));
                break;
            case Op.OPEN_QP:
                r.answer(xrc.openQp(r.arg(0), r.struct(1, ibv_qp_open_attr.sizeof())), 0);
                break;
            case Op.MODIFY_SRQ:
                r.answer(0, sharedReceives.modify(r.arg(0), r.struct(1, ibv_srq_attr.sizeof()), r.intArg(2)));
                break;
            case Op.QUERY_SRQ:
                r.answer(0, sharedReceives.query(r.arg(0), r.struct(1, ibv_srq_attr.sizeof())));
                break;
            case Op.DESTROY_SRQ:
                r.answer(0, sharedReceives.destroy(r.arg(0)));
                break;
            case Op.CREATE_AH:
                r.answer(queuePairs.datagrams().createAh(r.arg(0), r.struct(1, ibv_ah_attr.sizeof())), 0);
                break;
            case Op.DESTROY_AH:
                r.answer(0, queuePairs.datagrams().destroyAh(r.arg(0)));
                break;
            default:
                throw VerbsException.unsupported("verb " + r.op());
        }
    }

    /** Answers verbs that return a count or index: a negative number is an errno value. */
    private static void count(final Request r, final int countOrErrno) {
        r.answer(Math.max(0, countOrErrno), countOrErrno < 0 ? -countOrErrno : 0);
    }
}
