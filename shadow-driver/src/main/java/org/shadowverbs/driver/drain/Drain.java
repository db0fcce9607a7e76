// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.bindings.abi.sv_bookmark;
import org.shadowverbs.bindings.abi.sv_foreign_qp;
import org.shadowverbs.bindings.abi.sv_sent;
import org.shadowverbs.bindings.abi.sv_srq_mark;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.DomainMember;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;

/**
 * Brings every connection of this rank to where nothing can move any more: in rounds, each of which empties the
 * completion queues, lets {@link DrainPolicy} decide about every queue pair, carries that out, and tells the peers. Used by
 * one thread, with the gate closed.
 */
public final class Drain {
    /** So many last looks in succession find nothing, where connections are unreliable, with a rest between two. */
    private static final int LAST_LOOKS = 8;
    private static final long LAST_LOOK_NANOS = 250_000;

    private final Native library;
    private final Backend backend;
    private final Model model;
    private final List<Connection> connections;
    private final int rank;
    /** The beginning of the keys that bookmarks are published under. */
    private final String scope;
    private final SaidRecords records;
    private final Arena arena = Arena.ofConfined();
    private final MemorySegment bookmark = sv_bookmark.allocate(arena);
    private final MemorySegment sent = sv_sent.allocate(arena);
    private final MemorySegment srqBookmark = sv_srq_mark.allocate(arena);
    /** What the queue pairs with shared receive queues receive from. */
    private final Map<Srq, Pool> pools = new LinkedHashMap<Srq, Pool>();
    /** The connected queue pairs that receive from it. */
    private final Map<Pool, List<Connection>> users = new HashMap<Pool, List<Connection>>();
    /** The pools that are settled in what is being published. */
    private final Set<Pool> settledPools = new HashSet<Pool>();
    /** What the XRC queue pairs receive from, by the domain's number. */
    private final Map<Integer, DomainDrain> domains = new LinkedHashMap<Integer, DomainDrain>();
    private final MemorySegment foreignQps;
    private final Map<Cq, Integer> ownRequests = new HashMap<Cq, Integer>();
    /** Something was done, or seen, since the last round. */
    private boolean moved;

    public Drain(final Native library, final Backend backend, final Model model, final List<Connection> connections,
            final int rank, final String scope) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.connections = connections;
        this.rank = rank;
        this.scope = scope;
        records = new SaidRecords(scope, rank, connections);
        for (final Connection c : connections) {
            if (c.qp.srq != null) {
                final Pool pool = pools.computeIfAbsent(c.qp.srq, Drain::pool);
                if (c.qp.reliable() && c.pairing == Pairing.CONNECTED) {
                    users.computeIfAbsent(pool, p -> new ArrayList<Connection>()).add(c);
                }
            }
            if (c.qp.xrcd != null) {
                takePart(c.qp.xrcd);
            }
        }
        for (final Xrcd xrcd : model.domains()) {
            if (!model.sharers(xrcd.domain).isEmpty()) {
                takePart(xrcd);
            }
        }
        foreignQps = domains.isEmpty() ? null : sv_foreign_qp.allocateArray(shadowverbs_h.SV_MAX_FOREIGN_QPS(), arena);
    }

    private void takePart(final Xrcd xrcd) {
        if (domains.containsKey(xrcd.domain)) {
            return;
        }
        final List<String> others = new ArrayList<String>();
        model.sharers(xrcd.domain).forEach(member -> others.add(member.name()));
        final DomainDrain domain = new DomainDrain(new DomainMember(rank, xrcd.domain).name(), others);
        for (final Srq srq : model.srqs.inOrder()) {
            if (srq.xrcd != null && srq.xrcd.domain == xrcd.domain) {
                domain.queues.add(new Pool.Queue(srq, srq.virtualNumber));
            }
        }
        domains.put(xrcd.domain, domain);
    }

    private static Pool pool(final Srq srq) {
        final Pool pool = new Pool(false);
        pool.queues.add(new Pool.Queue(srq, 0));
        return pool;
    }

    /** One round, with what the peers said in the one before. */
    public void round(final Map<String, byte[]> found) throws Refusal {
        moved = false;
        hear(found);
        emptyCompletionQueues();
        for (final Connection c : connections) {
            c.end.bookmark = read(c.qp);
        }
        readPools();
        countOwnRequests();
        for (final Connection c : connections) {
            // Retries for a receive that is not there may run out at any time, also of a settled queue pair; and a
            // landing at a shared receive queue may let it go on.
            if (!c.settled() || c.end.bookmark.inError() || c.heard != null && c.heard.pool.shared) {
                settle(c);
            }
            serve(c);
        }
        for (final Pool pool : pools.values()) {
            land(pool);
        }
        for (final Map.Entry<Integer, DomainDrain> e : domains.entrySet()) {
            // Who does not know, which CLOSE has made unlikely, says nothing: then all wait until the deadline.
            final int count = !model.hearsForeignQps(e.getKey()) ? 0 : library.xrcdForeignQps(e.getKey(), foreignQps);
            if (count >= 0 && e.getValue().conclude()) {
                land(e.getValue());
                e.getValue().look(share(e.getKey(), count));
            }
        }
    }

    /** What is known of a domain, beside its queues. */
    private Share share(final int domain, final int count) {
        final Share share = new Share();
        for (int i = 0; i < count; i++) {
            final MemorySegment foreignQp = sv_foreign_qp.asSlice(foreignQps, i);
            share.foreignQps.put(sv_foreign_qp.qp_num(foreignQp), sv_foreign_qp.received(foreignQp));
        }
        share.ended.addAll(model.endedReceivers(domain));
        for (final Connection c : connections) {
            if (c.qp.xrcd != null && c.qp.xrcd.domain == domain && c.pairing == Pairing.CONNECTED) {
                share.targets.add(new Share.Target(c.qp.virtualQpNum, c.end.bookmark.received, c.heard));
            }
        }
        return share;
    }

    /**
     * When all ranks have settled, and nothing waits to be sent any more: looks once more, and takes back what the queue pairs
     * without acknowledgements hold, where only that tells. That concerns nobody else. The last look because the sender of a
     * message that nobody acknowledges settles when it is executed, which may be after the receiver's look of that round. A device
     * may show its completion a little later: where there are unreliable connections, until some looks have found nothing.
     */
    public void finish(final int seconds) throws Refusal {
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        int looks = 1;
        for (final Connection c : connections) {
            if (c.qp.reliable()) {
                continue;
            }
            if (!c.qp.datagrams()) {
                looks = LAST_LOOKS;
            }
            if (DrainPolicy.needsFlush(c.end, c.qp.datagrams(), new NativeSendLog(c.qp))) {
                flush(c);
            }
        }
        int left = looks;
        do {
            if (System.nanoTime() > end) {
                throw new Refusal((flushed() ? "completions still come" : waitingFor()) + " for " + seconds + " s");
            }
            if (left < looks) {
                LockSupport.parkNanos(LAST_LOOK_NANOS);
            }
            moved = false;
            emptyCompletionQueues();
            left = moved ? looks : left - 1;
            for (final Connection c : connections) {
                c.end.bookmark = read(c.qp);
                if (!c.qp.reliable() && (c.end.flushing || c.end.bookmark.inError())) {
                    settle(c);
                } else if (c.end.bookmark.inError() && c.end.state != verbs_h.IBV_QPS_ERR()) {
                    // It has settled, so nothing was under way but what cannot take effect: its retries have run out.
                    c.end.withdrawn = true;
                    check(c, "withdraw", library.qpErrorsWithdraw(c.qp.virtual));
                }
            }
        } while (left > 0 || !flushed());
    }

    private boolean flushed() {
        for (final Connection c : connections) {
            if (c.end.flushing && !c.settled()) {
                return false;
            }
        }
        return true;
    }

    private void flush(final Connection c) throws Refusal {
        try (Arena frame = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(frame);
            ibv_qp_attr.qp_state(attr, verbs_h.IBV_QPS_ERR());
            check(c, "flush", backend.modifyQp(c.qp.real, attr, verbs_h.IBV_QP_STATE()));
        }
        c.end.flushing = true;
        c.decision = DrainPolicy.Decision.of(DrainPolicy.Action.WAIT, "its flush");
    }

    public boolean settled() {
        for (final Connection c : connections) {
            if (!c.settled()) {
                return false;
            }
        }
        for (final Pool pool : pools.values()) {
            if (!pool.isKnownTo(users(pool))) {
                return false;
            }
        }
        for (final DomainDrain domain : domains.values()) {
            if (!domain.settled()) {
                return false;
            }
        }
        return true;
    }

    private List<Connection> users(final Pool pool) {
        return users.getOrDefault(pool, List.of());
    }

    private void readPools() throws Refusal {
        for (final Pool.Queue queue : allQueues()) {
            library.srqBookmark(queue.srq.virtual, srqBookmark);
            queue.receives = sv_srq_mark.receives(srqBookmark);
            queue.landings = sv_srq_mark.landings(srqBookmark);
        }
        for (final Connection c : connections) {
            // That all its messages have been counted is told by an event.
            if (c.qp.srq != null && !c.end.bookmark.lastReceive && (c.end.bookmark.inError() || c.end.flushing)) {
                check(c, "take the events of its device", library.contextDrain(c.qp.context().virtual));
            }
        }
    }

    private List<Pool.Queue> allQueues() {
        final List<Pool.Queue> queues = new ArrayList<Pool.Queue>();
        pools.values().forEach(pool -> queues.addAll(pool.queues));
        domains.values().forEach(domain -> queues.addAll(domain.queues));
        return queues;
    }

    /** Whether both ends of each connection are settled: this rank need not stay for anybody. */
    boolean settledOnBothSides() {
        for (final Connection c : connections) {
            if (!c.settled() || c.pairing == Pairing.CONNECTED && (c.heard == null || !c.heard.settled
                    || c.heard.pool.shared && !c.heard.pool.settled)) {
                return false;
            }
        }
        for (final Pool pool : pools.values()) {
            if (!pool.settled(users(pool))) {
                return false;
            }
        }
        for (final DomainDrain domain : domains.values()) {
            if (!domain.finished()) {
                return false;
            }
        }
        return true;
    }

    public boolean moved() {
        return moved;
    }

    /** What the peers are to know after this round: what has changed. */
    public Map<String, byte[]> published() {
        final Map<String, byte[]> values = new LinkedHashMap<String, byte[]>();
        settledPools.clear();
        for (final Pool pool : pools.values()) {
            if (pool.settled(users(pool))) {
                settledPools.add(pool);
            }
        }
        // Of XRC, what has been received, and what is left, is known of a moment at which nothing moved.
        records.say(values, c -> c.qp.xrcd != null && domain(c).view() == null ? null : record(c));
        for (final Map.Entry<Integer, DomainDrain> e : domains.entrySet()) {
            if (e.getValue().shared() && e.getValue().said() != null) {
                values.put(key(new DomainMember(rank, e.getKey()).name()), e.getValue().said());
            }
        }
        return values;
    }

    private String key(final String member) {
        return scope + "m/" + member;
    }

    private DomainDrain domain(final Connection c) {
        return domains.get(c.qp.xrcd.domain);
    }

    /** The peers of all connections: also one that is settled may yet have to do something for its peer. */
    public Set<String> wanted() {
        final Set<String> keys = new HashSet<String>(records.wanted());
        domains.values().forEach(domain -> domain.others().forEach(other -> keys.add(key(other))));
        return keys;
    }

    /** What is waited for, for the message of a deadline. */
    public String waitingFor() {
        int n = 0;
        String first = "";
        for (final Connection c : connections) {
            if (!c.settled() && n++ == 0) {
                first = c.name() + " waits for " + c.decision.why;
            }
        }
        for (final Map.Entry<Integer, DomainDrain> e : domains.entrySet()) {
            if (!e.getValue().settled() && n++ == 0) {
                first = "XRC domain " + e.getKey() + " waits until nothing moves in it";
            }
        }
        return n > 1 ? first + ", and " + (n - 1) + " more" : first;
    }

    public void close() {
        arena.close();
    }

    private void hear(final Map<String, byte[]> found) {
        records.hear(found);
        for (final DomainDrain domain : domains.values()) {
            for (final String other : domain.others()) {
                final byte[] bytes = found.get(key(other));
                if (bytes != null) {
                    domain.hear(other, bytes);
                }
            }
        }
    }

    private void emptyCompletionQueues() throws Refusal {
        for (final Cq cq : model.cqs.inOrder()) {
            final int n = library.cqDrain(cq.virtual);
            if (n < 0) {
                throw new Refusal("a completion queue cannot be drained: " + VerbsErrno.name(-n));
            }
            moved |= n > 0;
        }
    }

    private Bookmark read(final Qp qp) {
        library.qpBookmark(qp.virtual, bookmark);
        return Bookmark.of(bookmark);
    }

    /** Markers and landings on their way, by completion queue: no more than there is room for. */
    private void countOwnRequests() {
        ownRequests.clear();
        for (final Connection c : connections) {
            if (c.end.bookmark.marker == Bookmark.MARKER_POSTED) {
                count(c.qp.sendCq, 1);
            }
            if (c.end.bookmark.landings > 0) {
                count(c.qp.receiveCq, c.end.bookmark.landings);
            }
        }
        for (final Pool pool : pools.values()) {
            for (final Cq cq : pool.landings() > 0 ? receiveCqs(pool) : Set.<Cq>of()) {
                count(cq, pool.landings());
            }
        }
        for (final DomainDrain domain : domains.values()) {
            domain.queues.forEach(queue -> count(queue.srq.cq, queue.landings));
        }
    }

    /** Where the completion of a landing may come: any of its users may get it. */
    private Set<Cq> receiveCqs(final Pool pool) {
        final Set<Cq> cqs = new HashSet<Cq>();
        for (final Connection c : users(pool)) {
            cqs.add(c.qp.receiveCq);
        }
        return cqs;
    }

    private int count(final Cq cq, final int more) {
        final Integer before = ownRequests.get(cq);
        final int n = (before == null ? 0 : before) + more;
        ownRequests.put(cq, n);
        return n;
    }

    private boolean takeRoom(final Cq cq) {
        return count(cq, 1) <= Backend.CQ_ROOM;
    }

    /** Decides and acts until only the peer or the network can bring news. */
    private void settle(final Connection c) throws Refusal {
        c.end.state = c.qp.attributes.state();
        lookAtHardware(c);
        c.end.roundsInError = c.end.bookmark.inError() ? c.end.roundsInError + 1 : 0;
        final NativeSendLog log = new NativeSendLog(c.qp);
        for (;;) {
            c.decision = c.qp.reliable() ? DrainPolicy.decide(c.end, c.pairing, c.heard, log)
                    : c.qp.datagrams() ? DrainPolicy.decideDatagrams(c.end, log)
                    : DrainPolicy.decideUnacknowledged(c.end, log);
            switch (c.decision.action) {
                case RETIRE:
                    check(c, "retire", library.qpRetire(c.qp.virtual, c.decision.position));
                    break;
                case WITHDRAW:
                    c.end.withdrawn = true;
                    check(c, "withdraw", library.qpErrorsWithdraw(c.qp.virtual));
                    break;
                case DELIVER:
                    c.qp.attributes.failed();
                    c.end.state = c.qp.attributes.state();
                    check(c, "deliver", library.qpErrorsDeliver(c.qp.virtual));
                    break;
                case FAIL_AFTERWARDS:
                    library.say(c.name() + ": " + c.decision.why + "; it will report an error");
                    c.end.failAfterwards = true;
                    break;
                case FLUSH:
                    flush(c);
                    moved = true;
                    return;
                case MARKER:
                    postMarker(c);
                    return;
                case REFUSE:
                    throw new Refusal(c.name() + ": " + c.decision.why);
                default:
                    return;
            }
            moved = true;
            c.end.bookmark = read(c.qp);
            log.forget();
        }
    }

    private void postMarker(final Connection c) throws Refusal {
        if (!takeRoom(c.qp.sendCq)) {
            return;
        }
        final int err = library.qpPostMarker(c.qp.virtual);
        if (err == VerbsErrno.ENOMEM || err == VerbsErrno.EBUSY) {
            return; // the next round tries again
        }
        check(c, "post a marker", err);
        moved = true;
    }

    /** What the peer needs of this end. */
    private void serve(final Connection c) throws Refusal {
        if (c.pairing != Pairing.CONNECTED || c.end.flushing) {
            return;
        }
        if (DrainPolicy.grants(c.heard, c.granted)) {
            allowRemoteWrites(c);
            c.granted = true;
            moved = true;
        }
        if (DrainPolicy.lands(c.end.bookmark, c.heard) && takeRoom(c.qp.receiveCq)) {
            check(c, "post a landing of " + c.heard.landingLength + " bytes",
                    library.qpPostLanding(c.qp.virtual, c.heard.landingLength));
            c.end.bookmark = read(c.qp);
            moved = true;
        }
    }

    /** What the senders to shared receive queues need. */
    private void land(final Pool pool) throws Refusal {
        final List<Connection> users = users(pool);
        final Pool.Landing landing = pool.landing(users);
        if (landing == null) {
            return;
        }
        for (final Cq cq : receiveCqs(pool)) {
            if (!takeRoom(cq)) {
                return;
            }
        }
        post(landing);
        landing.queue.landings++;
        pool.landingsPosted++;
    }

    private void land(final DomainDrain domain) throws Refusal {
        final Pool.Landing landing = domain.landing();
        if (landing != null && takeRoom(landing.queue.srq.cq)) {
            post(landing);
            domain.landed(landing.queue);
        }
    }

    private void post(final Pool.Landing landing) throws Refusal {
        final int err = library.srqPostLanding(landing.queue.srq.virtual, landing.length);
        if (err != 0) {
            throw new Refusal("a shared receive queue: cannot post a landing of " + landing.length + " bytes: "
                    + VerbsErrno.name(err));
        }
        moved = true;
    }

    /** A queue pair in RTR cannot change its access flags, but on the way to RTS. */
    private void allowRemoteWrites(final Connection c) throws Refusal {
        try (Arena frame = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(frame);
            int mask = verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_ACCESS_FLAGS();
            ibv_qp_attr.qp_state(attr, c.qp.attributes.stateForChange());
            ibv_qp_attr.qp_access_flags(attr, c.qp.attributes.accessFlags() | verbs_h.IBV_ACCESS_REMOTE_WRITE());
            if (c.qp.attributes.state() == verbs_h.IBV_QPS_RTR() && c.qp.xrcd != null) {
                mask |= verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_SQ_PSN();
                ibv_qp_attr.timeout(attr, (byte) 14);
            } else if (c.qp.attributes.state() == verbs_h.IBV_QPS_RTR()) {
                mask |= verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT() | verbs_h.IBV_QP_RNR_RETRY()
                        | verbs_h.IBV_QP_SQ_PSN() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC();
                ibv_qp_attr.timeout(attr, (byte) 14);
                ibv_qp_attr.retry_cnt(attr, (byte) 7);
                ibv_qp_attr.rnr_retry(attr, (byte) 7);
            }
            check(c, "allow remote writes", backend.modifyQp(c.qp.real, attr, mask));
        }
    }

    private void lookAtHardware(final Connection c) throws Refusal {
        c.end.hardwareError = false;
        if (c.end.flushing || c.end.state <= verbs_h.IBV_QPS_INIT() || c.end.state == verbs_h.IBV_QPS_ERR()) {
            return;
        }
        try (Arena frame = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(frame);
            check(c, "query", backend.queryQp(c.qp.real, attr, verbs_h.IBV_QP_STATE(),
                    ibv_qp_init_attr.allocate(frame)));
            final int state = ibv_qp_attr.qp_state(attr);
            if (state == verbs_h.IBV_QPS_SQE()) {
                throw new Refusal(c.name() + ": the send queue is in error (SQE), which cannot be checkpointed");
            }
            c.end.hardwareError = state == verbs_h.IBV_QPS_ERR();
            c.end.lookedAtSendQueue(ibv_qp_attr.sq_draining(attr) != 0);
        }
    }

    private static void check(final Connection c, final String what, final int err) throws Refusal {
        if (err != 0) {
            throw new Refusal(c.name() + ": cannot " + what + ": " + VerbsErrno.name(err));
        }
    }

    private DrainRecord record(final Connection c) {
        final Bookmark b = c.end.bookmark;
        final DomainDrain.View view = c.qp.xrcd == null ? null : domain(c).view();
        final Pool pool = view == null ? pools.get(c.qp.srq) : view.pool;
        final boolean lands = c.decision.action == DrainPolicy.Action.ASK_LANDING;
        return new DrainRecord(view == null ? b.received : view.received(c.qp.virtualQpNum), pool == null ? b.receives : pool.receives(),
                pool == null ? b.landings : pool.landings(),
                c.qp.attributes.state() == verbs_h.IBV_QPS_ERR(), c.end.withdrawn || c.end.failAfterwards || c.end.flushing,
                c.end.undecided(), c.decision.action == DrainPolicy.Action.ASK_MARKER, c.granted,
                c.settled(), c.end.held(), lands ? c.decision.ordinal : 0, lands ? c.decision.length : 0,
                poolRecord(c, pool, view == null ? settledPools.contains(pool) : view.settled));
    }

    private PoolRecord poolRecord(final Connection c, final Pool pool, final boolean settled) {
        final boolean toShared = c.heard != null && c.heard.pool.shared;
        if (pool == null && !toShared) {
            return PoolRecord.NONE;
        }
        long ordinal = 0;
        long length = 0;
        int srq = 0;
        if (toShared) {
            final NativeSendLog log = new NativeSendLog(c.qp);
            final long next = DrainPolicy.next(c.end.bookmark, c.heard.received, log);
            if (next < c.end.bookmark.posted) {
                ordinal = log.ordinal(next);
                length = DrainPolicy.messageLength(log, next);
                srq = log.srq(next);
            }
        }
        return new PoolRecord(pool != null, pool == null ? 0 : pool.landingsPosted,
                settled, pool == null ? new int[0] : pool.numbers(),
                pool == null ? new long[0] : pool.free(), toShared ? c.heard.pool.landings : 0,
                c.end.bookmark.consumers, ordinal, length, srq);
    }

    /** The C side's log, one entry at a time. */
    private final class NativeSendLog implements DrainPolicy.SendLog {
        private final Qp qp;
        private long at = -1;

        NativeSendLog(final Qp qp) {
            this.qp = qp;
        }

        void forget() {
            at = -1;
        }

        private MemorySegment entry(final long position) {
            if (at != position) {
                final int err = library.qpSent(qp.virtual, position, sent);
                if (err != 0) {
                    throw new IllegalStateException(qp.name() + ": position " + position + " is not in the log");
                }
                at = position;
            }
            return sent;
        }

        @Override
        public int opcode(final long position) {
            return sv_sent.opcode(entry(position));
        }

        @Override
        public boolean signaled(final long position) {
            return sv_sent.signaled(entry(position)) != 0;
        }

        @Override
        public long ordinal(final long position) {
            return sv_sent.ordinal(entry(position));
        }

        @Override
        public long length(final long position) {
            return sv_sent.length(entry(position));
        }

        @Override
        public int srq(final long position) {
            return sv_sent.srq(entry(position));
        }
    }
}
