// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.PortIds;
import org.shadowverbs.ids.QpRecord;

/**
 * Every resource of this process, by family, in the order of dependence: what stands further down is made of what stands
 * above. Real objects are made from top to bottom and destroyed from bottom to top.
 *
 * <p>Thread-safe, but for who shares XRC domains and what has ended in them: control verbs add to that, the checkpoint's thread
 * alone reads it and takes from it, while the gate is closed and no control verb runs.
 */
public final class Model {
    public final IdMasks masks;
    public final Table<Context> contexts = new Table<Context>("context");
    public final Table<Pd> pds = new Table<Pd>("protection domain");
    public final Table<Dm> dms = new Table<Dm>("device memory");
    public final Table<Mr> mrs = new Table<Mr>("memory region");
    public final Table<Mw> mws = new Table<Mw>("memory window");
    public final Table<Channel> channels = new Table<Channel>("completion channel");
    public final Table<Cq> cqs = new Table<Cq>("completion queue");
    public final Table<Xrcd> xrcds = new Table<Xrcd>("XRC domain");
    public final Table<Srq> srqs = new Table<Srq>("shared receive queue");
    public final Table<Ah> ahs = new Table<Ah>("address handle");
    public final Table<Qp> qps = new Table<Qp>("queue pair");
    /** Further ones of some of them. */
    public final Table<QpHandle> qpHandles = new Table<QpHandle>("queue pair");

    /** The published ids of the whole job since the last REATTACH. */
    private volatile AddressBook book = AddressBook.EMPTY;
    private int sequence;
    /** By the number of an XRC domain: the other processes that have it open, as of the last closed gate. */
    private Map<Integer, List<DomainMember>> sharers = Map.of();
    /**
     * Likewise, of those with a file: the numbers of shared receive queues destroyed, of receive queue pairs destroyed or reset,
     * until a checkpoint finds that nobody can ask for them any more.
     */
    private final Map<Integer, Set<Integer>> endedQueues = new HashMap<Integer, Set<Integer>>();
    private final Map<Integer, Set<Integer>> endedReceivers = new HashMap<Integer, Set<Integer>>();
    /** Domains with a file that the process has closed, and that are to be spoken for as long as such numbers are kept of them. */
    private final List<Xrcd> leftDomains = new ArrayList<Xrcd>();
    /** Queue pairs destroyed since the last checkpoint while connected: their peers may still be there. */
    private final List<Tombstone> tombstones = new ArrayList<Tombstone>();

    /** A destroyed queue pair, under the keys that its peer may look it up by. */
    public static final class Tombstone {
        final int port;
        public final int qpNum;
        public final int sequence;
        public final int destQpNum;
        public final PortIds ids;

        public Tombstone(final Qp qp) {
            port = qp.attributes.port();
            qpNum = qp.virtualQpNum;
            sequence = qp.sequence;
            destQpNum = qp.attributes.destQpNum();
            ids = qp.port(port);
        }
    }

    public Model(final IdMasks masks) {
        this.masks = masks;
    }

    public AddressBook book() {
        return book;
    }

    public void book(final AddressBook published) {
        book = published;
    }

    /**
     * The queue pair that a handle stands for, be it its own or one of ibv_open_qp.
     *
     * @throws VerbsException EINVAL: there is no such handle
     */
    public Qp queuePair(final long virtual) {
        final QpHandle handle = qpHandles.find(virtual);
        final Qp qp = handle == null ? qps.get(virtual) : handle.qp;
        if (handle == null && qp.closed) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return qp;
    }

    public List<DomainMember> sharers(final int domain) {
        return sharers.getOrDefault(domain, List.of());
    }

    public void sharers(final Map<Integer, List<DomainMember>> found) {
        sharers = found;
    }

    /** Messages by way of queue pairs that other processes have, or have made, may come to a domain of this one. */
    public boolean hearsForeignQps(final int domain) {
        if (!sharers(domain).isEmpty()) {
            return true;
        }
        for (final Qp qp : qps.inOrder()) {
            if (qp.foreign && qp.xrcd.domain == domain) {
                return true;
            }
        }
        return false;
    }

    /** The XRC domains that are open, and those that were closed and are still spoken for. */
    public synchronized List<Xrcd> domains() {
        final List<Xrcd> all = new ArrayList<Xrcd>(xrcds.inOrder());
        all.addAll(leftDomains);
        return all;
    }

    /** A domain that the process has closed. @return whether it is still spoken for: then its file must stay open */
    public synchronized boolean leave(final Xrcd xrcd) {
        if (xrcd.fd < 0 || !hasEnded(xrcd.domain) || domains().stream().anyMatch(other -> other.domain == xrcd.domain)) {
            return false;
        }
        leftDomains.add(xrcd);
        return true;
    }

    /** Whether somebody may ask for numbers of a domain that are kept. */
    private boolean hasEnded(final int domain) {
        return !endedQueues(domain).isEmpty() || !endedReceivers(domain).isEmpty();
    }

    /** It is open again. @return what stood for it; null: nothing */
    public synchronized Xrcd comeBack(final int domain) {
        for (final Xrcd left : leftDomains) {
            if (left.domain == domain) {
                leftDomains.remove(left);
                return left;
            }
        }
        return null;
    }

    /** @return the domains that need not be spoken for any more */
    public synchronized List<Xrcd> domainsForgotten() {
        final List<Xrcd> forgotten = new ArrayList<Xrcd>();
        for (final Xrcd left : leftDomains) {
            if (!hasEnded(left.domain)) {
                forgotten.add(left);
            }
        }
        leftDomains.removeAll(forgotten);
        return forgotten;
    }

    /** Keeps only those numbers of a domain. To be called while no verb is under way. */
    public void keepEnded(final int domain, final Set<Integer> queues, final Set<Integer> receivers) {
        keep(endedQueues, domain, queues);
        keep(endedReceivers, domain, receivers);
    }

    private static void keep(final Map<Integer, Set<Integer>> numbers, final int domain, final Set<Integer> kept) {
        final Set<Integer> of = numbers.get(domain);
        if (of != null && of.retainAll(kept) && of.isEmpty()) {
            numbers.remove(domain);
        }
    }

    /** Whether it has anything of XRC, which processes may share. */
    public boolean anyXrc() {
        return !domains().isEmpty() || qps.inOrder().stream().anyMatch(Qp::ofXrc);
    }

    /** Whether it has queue pairs open that other processes have made. */
    public boolean anyForeign() {
        for (final Qp qp : qps.inOrder()) {
            if (qp.foreign) {
                return true;
            }
        }
        return false;
    }

    /** Goes on without those ranks. */
    public void forgetSharers(final Set<Integer> ranks) {
        final Map<Integer, List<DomainMember>> left = new HashMap<Integer, List<DomainMember>>(sharers);
        left.replaceAll((domain, members) -> members.stream().filter(m -> !ranks.contains(m.rank())).toList());
        sharers = left;
    }

    public synchronized void queueEnded(final Xrcd xrcd, final int number) {
        ended(endedQueues, xrcd, number);
    }

    public synchronized void receiverEnded(final Xrcd xrcd, final int number) {
        ended(endedReceivers, xrcd, number);
    }

    private static void ended(final Map<Integer, Set<Integer>> numbers, final Xrcd xrcd, final int number) {
        if (xrcd != null && xrcd.fd >= 0) {
            numbers.computeIfAbsent(xrcd.domain, d -> new TreeSet<Integer>()).add(number);
        }
    }

    /** While no verb is under way. */
    public Set<Integer> endedQueues(final int domain) {
        return endedQueues.getOrDefault(domain, Set.of());
    }

    /** While no verb is under way. */
    public Set<Integer> endedReceivers(final int domain) {
        return endedReceivers.getOrDefault(domain, Set.of());
    }

    public synchronized int nextSequence() {
        return sequence++;
    }

    public synchronized void bury(final Qp qp) {
        tombstones.add(new Tombstone(qp));
    }

    public synchronized List<Tombstone> tombstones() {
        return new ArrayList<Tombstone>(tombstones);
    }

    /** After a checkpoint every queue pair whose peer is gone knows it. */
    public synchronized void forgetTombstones() {
        tombstones.clear();
    }

    /**
     * Whether something hangs on a domain that its device does not know to: all of a parent domain, and of a domain the
     * parent domains.
     */
    public boolean inUse(final Pd pd) {
        for (final Pd other : pds.inOrder()) {
            if (other.below == pd) {
                return true;
            }
        }
        if (pd.below == null) {
            return false;
        }
        for (final Qp qp : qps.inOrder()) {
            if (qp.pd == pd) {
                return true;
            }
        }
        for (final Srq srq : srqs.inOrder()) {
            if (srq.pd == pd) {
                return true;
            }
        }
        for (final Mr mr : mrs.inOrder()) {
            if (mr.pd == pd) {
                return true;
            }
        }
        for (final Mw mw : mws.inOrder()) {
            if (mw.pd == pd) {
                return true;
            }
        }
        return false;
    }

    /** Everything that was made of a context that is closed: the application has let go of it. */
    public void forget(final Context context) {
        for (final Qp qp : qps.inOrder()) {
            if (qp.context() == context) {
                qps.remove(qp);
                qp.handles.forEach(qpHandles::remove);
            }
        }
        for (final Ah ah : ahs.inOrder()) {
            if (ah.pd.context == context) {
                ahs.remove(ah);
            }
        }
        for (final Srq srq : srqs.inOrder()) {
            if (srq.pd.context == context) {
                srqs.remove(srq);
            }
        }
        for (final Xrcd xrcd : xrcds.inOrder()) {
            if (xrcd.context == context) {
                xrcds.remove(xrcd);
            }
        }
        for (final Cq cq : cqs.inOrder()) {
            if (cq.context == context) {
                cqs.remove(cq);
            }
        }
        for (final Channel channel : channels.inOrder()) {
            if (channel.context == context) {
                channels.remove(channel);
            }
        }
        for (final Mw mw : mws.inOrder()) {
            if (mw.pd.context == context) {
                mws.remove(mw);
            }
        }
        for (final Mr mr : mrs.inOrder()) {
            if (mr.pd.context == context) {
                mrs.remove(mr);
            }
        }
        for (final Dm dm : dms.inOrder()) {
            if (dm.context == context) {
                dms.remove(dm);
            }
        }
        for (final Pd pd : pds.inOrder()) {
            if (pd.context == context) {
                pds.remove(pd);
            }
        }
        contexts.remove(context);
    }

    /** The domains of a context that were closed and are spoken for. */
    public synchronized List<Xrcd> leftDomains(final Context context) {
        return leftDomains.stream().filter(left -> left.context == context && !left.contextClosed).toList();
    }

    /**
     * The GID that the process sends from by a port, as the first of its address handles or, without any, of its queue pairs
     * says.
     *
     * @return its virtual index, or -1
     */
    public int sourceIndex(final Context context, final int port) {
        int index = -1;
        for (final Ah ah : ahs.inOrder()) {
            if (index < 0 && ah.pd.context == context) {
                index = ah.sourceIndex(port);
            }
        }
        for (final Qp qp : qps.inOrder()) {
            if (index < 0 && qp.context() == context) {
                index = qp.attributes.sourceIndex(port);
            }
        }
        return index;
    }

    /** What a queue pair tells the job about itself. */
    public QpRecord record(final Qp qp, final int rank) {
        final QpAttributes a = qp.attributes;
        final boolean connected = a.connected();
        return new QpRecord(rank, qp.sequence, qp.virtualQpNum, a.state(), connected ? a.destQpNum() : 0,
                connected ? a.destLid() : 0, connected ? a.destGid() : Gid.ZERO, a.rnrRetry());
    }
}
