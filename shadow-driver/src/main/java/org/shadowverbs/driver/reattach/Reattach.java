// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.reattach;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.coordinator.client.CheckpointAborted;
import org.shadowverbs.coordinator.client.Contribution;
import org.shadowverbs.coordinator.client.LinkLostException;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.Reply;
import org.shadowverbs.coordinator.client.WayBack;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.drain.Drained;
import org.shadowverbs.driver.drain.Pairing;
import org.shadowverbs.driver.drain.PairwiseDrain;
import org.shadowverbs.driver.model.Ah;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Mr;
import org.shadowverbs.driver.model.MulticastGroup;
import org.shadowverbs.driver.model.Mw;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Registration;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Timings;
import org.shadowverbs.driver.nativelib.UnexpectedException;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.verbs.QueuePairVerbs;
import org.shadowverbs.driver.verbs.SharedReceiveVerbs;
import org.shadowverbs.driver.xrc.SharedDomains;
import org.shadowverbs.driver.xrc.SharedReceivers;
import org.shadowverbs.driver.xrc.XrcVerbs;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Lids;
import org.shadowverbs.ids.NumberRanges;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

/**
 * The one way back to work, for resume, abort and restart: from no real objects at all to open gates. Read {@link #run}
 * from top to bottom; docs/PROTOCOL.md has the steps.
 *
 * <p>Nothing takes effect at a peer before the last barrier, so after an abort on the way all of it is done again. Runs in
 * the checkpoint's thread, with the gate closed until all is done.
 */
public final class Reattach {
    /** The key of a region whose memory is gone: no provider gives it out. */
    private static final int INVALID_KEY = 0;
    // What the keys begin with under which ranks publish: how far their drain has come, their addresses over TCP,
    // their ids.
    private static final String DRAINED = "d/";
    private static final String ADDRESSES = "a/";
    private static final String IDS = "x/";

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final QueuePairVerbs queuePairs;
    private final KeyMaps keyMaps;
    private final RealObjects realObjects;
    private final Timings timings;
    private Drained drained = Drained.NO;
    /** Of which new queue pairs' numbers are, where each process has a device for itself. */
    private int range = NumberRanges.NONE;
    private boolean restored;
    /** Those that the device does not take back to where they were: each is in error, and all else goes on. */
    private final Set<Qp> broken = new LinkedHashSet<Qp>();

    public Reattach(final Native library, final ChosenBackend backend, final Model model,
            final QueuePairVerbs queuePairs, final KeyMaps keyMaps, final RealObjects realObjects, final Timings timings) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.queuePairs = queuePairs;
        this.keyMaps = keyMaps;
        this.realObjects = realObjects;
        this.timings = timings;
    }

    /**
     * @param numbers the ranks that are known to take part
     * @param connections the queue pairs as the drain left them
     * @param seconds how long what was left of the drain may take
     * @return this rank's ids as they are now
     * @throws Refusal this rank cannot do it: {@link #giveUp} is what is left
     * @throws IOException the others have gone on without this rank: likewise
     */
    public OwnerRecord run(final WayBack way, final long epoch, final List<Integer> numbers,
            final List<Connection> connections, final int seconds) throws Refusal, IOException {
        realObjects.watched(() -> way.progress(Phase.CONNECTED, "its devices to make its objects anew"));
        final Set<Integer> ranks = new LinkedHashSet<Integer>(numbers);
        for (final Connection c : connections) {
            if (c.peer != null) {
                ranks.add(c.peer.rank);
            }
        }
        for (;;) {
            try {
                timings.begin();
                if (BackendName.overTcp(backend.now().name())) {
                    SharedDomains.refuseCrossing(connections);
                }
                settle(way, epoch, ranks, connections, seconds);
                destroy(connections);
                timings.end("PUBLISHED");
                backend.now().numbersFrom(range);
                realObjects.create();
                giveLid(way.link().rank());
                timings.end("devices opened, objects made anew");
                final OwnerRecord own = publish(way, ranks, connections);
                timings.end("CONNECTED");
                connect();
                realObjects.windows().rebind();
                holdSends();
                postReceives();
                way.exchange(Phase.RECEIVES_POSTED, Contribution.AGREED);
                timings.end("RECEIVES_POSTED");
                way.exchange(Phase.REPLAYED, Contribution.AGREED);
                postSends();
                fail(connections);
                model.forgetTombstones();
                library.gateOpen();
                timings.end("REPLAYED, gate open");
                return own;
            } catch (CheckpointAborted e) {
                library.say("the reattachment begins again: " + e.getMessage());
            } catch (LinkLostException e) {
                // Not in an exchange, so before this rank has told its new ids.
                library.say("the reattachment begins again: " + e.getMessage());
                way.reconnect();
            }
        }
    }

    /**
     * Learns who is there, and finishes the drain if it was broken off. One rank that knows that all had agreed is enough:
     * the others' word of it was lost.
     */
    private void settle(final WayBack way, final long epoch, final Set<Integer> ranks,
            final List<Connection> connections, final int seconds) throws Refusal, CheckpointAborted, IOException {
        final Map<String, byte[]> values = new HashMap<String, byte[]>();
        values.put(drainedKey(way.link().rank()), drained.encode());
        final boolean overTcp = BackendName.overTcp(backend.now().name());
        if (overTcp) {
            values.put(addressesKey(way.link().rank()), NumberRanges.encode(addresses()));
        }
        final Set<String> wanted = new LinkedHashSet<String>();
        NumberedKeys.want(wanted, DRAINED, ranks);
        if (overTcp) {
            NumberedKeys.want(wanted, ADDRESSES, ranks);
        }
        final Reply reply = way.exchange(Phase.PUBLISHED, new Contribution(values, wanted, true, ""));
        final Map<Integer, Drained> others = new HashMap<Integer, Drained>();
        final Map<Integer, Set<String>> addresses = new HashMap<Integer, Set<String>>();
        for (final int rank : ranks) {
            final byte[] record = reply.found().get(drainedKey(rank));
            if (record != null && !reply.departed().contains(rank)) {
                others.put(rank, Drained.decode(record));
            }
            final byte[] theirs = reply.found().get(addressesKey(rank));
            if (theirs != null) {
                addresses.put(rank, NumberRanges.decode(theirs));
            }
        }
        range = NumberRanges.choose(way.link().rank(), addresses);
        final List<Connection> left = new ArrayList<Connection>();
        for (final Connection c : connections) {
            if (c.pairing == Pairing.CONNECTED && !others.containsKey(c.peer.rank)) {
                c.pairing = Pairing.GONE;
            }
            // A peer that is through is settled with us, too.
            if (c.pairing != Pairing.CONNECTED || others.get(c.peer.rank) == Drained.NO) {
                left.add(c);
            }
        }
        queuePairs.receivers().findHomesAmong(others.keySet());
        if (others.containsValue(Drained.ALL)) {
            drained = Drained.ALL;
        }
        if (drained != Drained.NO) {
            return;
        }
        // What a rank knows that takes no part (any more) nobody else does.
        final Set<Integer> apart = new LinkedHashSet<Integer>(ranks);
        apart.removeIf(rank -> others.get(rank) == Drained.NO);
        model.forgetSharers(apart);
        // The coordinator waits as long for what follows, which takes its time, too.
        new PairwiseDrain(library, backend.now(), model, left, apart).run(way.link(), epoch, seconds - seconds / 4);
        drained = Drained.PAIRWISE;
    }

    /** From now on a queue pair that cannot be brought back is a refusal: the restart ends, and its checkpoint is as good as before. */
    public void restored() {
        restored = true;
    }

    /** How far the drain has come. */
    public void drained(final Drained progress) {
        drained = progress;
    }

    private static String drainedKey(final int rank) {
        return DRAINED + rank;
    }

    private static String addressesKey(final int rank) {
        return ADDRESSES + rank;
    }

    private Set<String> addresses() {
        return NumberRanges.addresses(model.contexts.inOrder().stream().filter(context -> context.ports != null)
                .flatMap(context -> Stream.of(context.ports)).toList());
    }

    /** Gives everything back to the device; after a checkpoint that succeeded that was done long ago. */
    private void destroy(final List<Connection> connections) {
        for (final Connection c : connections) {
            c.rememberPeer();
        }
        final String trouble = realObjects.destroy();
        if (trouble != null) {
            library.say(trouble);
        }
    }

    /** Only messages between ranks have it from now on; the program keeps what it knows. */
    private void giveLid(final int rank) {
        if (backend.now().lidsAreOurs() && !model.contexts.inOrder().isEmpty()) {
            backend.now().lid(Lids.of(rank, 0));
        }
    }

    /** Real ids against virtual ones: this rank's to all, all ranks' to this one. */
    private OwnerRecord publish(final WayBack way, final Set<Integer> ranks, final List<Connection> connections)
            throws Refusal, CheckpointAborted, IOException {
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.home) {
                queuePairs.receivers().register(qp);
            }
        }
        final OwnerRecord own = new OwnerRecord(way.link().rank(), carriedOver());
        final Map<String, byte[]> values = new HashMap<String, byte[]>();
        values.put(key(own.rank), own.encode());
        final Set<String> wanted = new LinkedHashSet<String>();
        NumberedKeys.want(wanted, IDS, ranks);
        final Reply reply = way.exchange(Phase.CONNECTED, new Contribution(values, wanted, true, ""));
        final List<OwnerRecord> owners = new ArrayList<OwnerRecord>();
        for (final int rank : ranks) {
            final byte[] record = reply.found().get(key(rank));
            if (record != null) {
                owners.add(OwnerRecord.decode(record));
            }
        }
        SharedDomains.checkStillShared(connections, owners);
        adopt(new AddressBook(owners), own);
        return own;
    }

    /** From here on ids translate by what the job has published. */
    private void adopt(final AddressBook book, final OwnerRecord own) {
        model.book(book);
        final List<Context> contexts = model.contexts.inOrder();
        for (int i = 0; i < contexts.size(); i++) {
            final Context context = contexts.get(i);
            book.reattach(own.contextAt(i), context.qpNums, context.srqNums, context.remoteKeys, allRemoteKeys(context));
            setLocalKeys(context);
        }
    }

    private OwnerRecord.ContextIds[] carriedOver() throws Refusal {
        final List<Context> contexts = model.contexts.inOrder();
        final List<OwnerRecord.ContextIds> ids = new ArrayList<OwnerRecord.ContextIds>();
        for (final Context context : contexts) {
            ids.add(carriedOver(context));
        }
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.home && qp.foreign) {
                ids.add(inherited(qp));
            }
        }
        final Map<Integer, String> left = XrcVerbs.leftDomains(library, backend.now(), model);
        if (!left.isEmpty()) {
            ids.add(OwnerRecord.ContextIds.inherited(new PortIds[0], ExceptionSet.EMPTY, left));
        }
        return ids.toArray(new OwnerRecord.ContextIds[0]);
    }

    /** A queue pair that another process has made, by whose addresses its peer knows it. */
    private OwnerRecord.ContextIds inherited(final Qp qp) throws Refusal {
        return OwnerRecord.ContextIds.inherited(SharedReceivers.portsNow(qp),
                ExceptionSet.of(new int[] {qp.virtualQpNum}, new int[] {backend.now().qpNum(qp.real)}, 1),
                XrcVerbs.sharedDomains(library, backend.now(), model, qp.context()));
    }

    private static String key(final int rank) {
        return IDS + rank;
    }

    private OwnerRecord.ContextIds carriedOver(final Context context) throws Refusal {
        context.reattached = true;
        Ports.refresh(backend.now(), context, model.masks);
        for (int i = 0; i < context.ports.length; i++) {
            context.ports[i] = context.ports[i].sendingFrom(model.sourceIndex(context, i + 1));
        }
        final List<Qp> qps = new ArrayList<Qp>();
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.context() == context && !qp.foreign && qp.home) {
                qps.add(qp);
            }
        }
        final int[] virtuals = new int[qps.size()];
        final int[] reals = new int[virtuals.length];
        for (int i = 0; i < virtuals.length; i++) {
            virtuals[i] = qps.get(i).virtualQpNum;
            reals[i] = backend.now().qpNum(qps.get(i).real);
        }
        return new OwnerRecord.ContextIds(context.ports, ExceptionSet.of(virtuals, reals, virtuals.length),
                srqNumbers(context), keys(context, true, true),
                XrcVerbs.sharedDomains(library, backend.now(), model, context),
                backend.now().numberRange());
    }

    private ExceptionSet srqNumbers(final Context context) {
        final List<Srq> srqs = model.srqs.inOrder();
        final int[] virtuals = new int[srqs.size()];
        final int[] reals = new int[virtuals.length];
        int n = 0;
        for (final Srq srq : srqs) {
            if (srq.xrcd != null && srq.pd.context == context) {
                virtuals[n] = srq.virtualNumber;
                reals[n++] = backend.now().srqNum(srq.real);
            }
        }
        return ExceptionSet.of(virtuals, reals, n);
    }

    private ExceptionSet allRemoteKeys(final Context context) {
        return keys(context, true, false);
    }

    /**
     * The keys of a context's regions and windows; {@code remote}: rkeys, {@code accessible}: only of what peers may access. Devices
     * give an rkey to several regions that no peer may access.
     */
    private ExceptionSet keys(final Context context, final boolean remote, final boolean accessible) {
        final List<Mr> mrs = model.mrs.inOrder();
        final List<Mw> mws = remote ? model.mws.inOrder() : List.of();
        final int[] virtuals = new int[mrs.size() + mws.size() * Mw.RKEYS];
        final int[] reals = new int[virtuals.length];
        int n = 0;
        for (final Mr mr : mrs) {
            final boolean nothing = mr.what.kind == Registration.Kind.NULL;
            if (mr.pd.context != context || accessible && !mr.remote() || nothing && (remote
                    || contains(virtuals, n, mr.virtualLkey))) {
                continue; // null regions have no use for an rkey, and may share their lkey
            }
            virtuals[n] = remote ? mr.virtualRkey : mr.virtualLkey;
            reals[n++] = mr.dead ? INVALID_KEY : remote ? backend.now().rkey(mr.real) : backend.now().lkey(mr.real);
        }
        for (final Mw mw : mws) {
            for (int tag = 0; mw.pd.context == context && tag < Mw.RKEYS; tag++) {
                virtuals[n] = mw.block | tag;
                reals[n++] = library.mwRealRkey(mw.virtual, mw.block | tag);
            }
        }
        return ExceptionSet.ofShared(virtuals, reals, n, INVALID_KEY);
    }

    private static boolean contains(final int[] keys, final int count, final int key) {
        for (int i = 0; i < count; i++) {
            if (keys[i] == key) {
                return true;
            }
        }
        return false;
    }

    private void setLocalKeys(final Context context) {
        final ExceptionSet keys = keys(context, false, false);
        context.localKeys.reattached(keys, List.of());
        final long old = context.localKeyMap;
        context.localKeyMap = keyMaps.acquire(keys);
        library.contextSetLkeys(context.virtual, context.localKeyMap);
        keyMaps.release(old);
    }

    /** Its completions may name senders, or queue pairs, that are not its own: of datagrams, and of shared XRC domains. */
    private boolean hearsOthers(final Context context) {
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.datagrams() && qp.context() == context) {
                return true;
            }
        }
        for (final Xrcd xrcd : model.xrcds.inOrder()) {
            if (xrcd.fd >= 0 && xrcd.context == context) {
                return true;
            }
        }
        return context.sourceMap != 0;
    }

    /** Address handles, then modify_qp up to the recorded state, destinations translated. */
    private void connect() throws Refusal {
        for (final Ah ah : model.ahs.inOrder()) {
            try {
                queuePairs.datagrams().bind(ah);
            } catch (VerbsException e) {
                throw new Refusal("an address handle cannot be made anew: "
                        + (e.getMessage() == null ? VerbsErrno.name(e.errno()) : e.getMessage()));
            }
        }
        for (final Context context : model.contexts.inOrder()) {
            if (hearsOthers(context)) {
                queuePairs.datagrams().pushSources(context);
            }
        }
        for (final Qp qp : model.qps.inOrder()) {
            if (!qp.home) {
                realObjects.xrc().openAnew(qp);
                continue;
            }
            queuePairs.pushRemoteIds(qp);
            if (!walk(qp)) {
                continue;
            }
            if (qp.attributes.sends()) {
                queuePairs.pacing().limit(qp);
            }
            for (final MulticastGroup group : qp.groups) {
                final int err = group.attach(backend.now(), qp.real);
                if (err != 0) {
                    breakOff(qp, "cannot be attached to multicast group " + group.gid + " again: "
                            + VerbsErrno.name(err));
                    break;
                }
            }
        }
    }

    /** From RESET to where it was, but not yet to SQD. @return false: it cannot be brought there */
    private boolean walk(final Qp qp) throws Refusal {
        for (final int state : qp.attributes.path()) {
            if (state != verbs_h.IBV_QPS_SQD() && !replay(qp, state)) {
                return false;
            }
        }
        return true;
    }

    private boolean replay(final Qp qp, final int state) throws Refusal {
        try {
            final int err = queuePairs.replay(qp, state);
            if (err != 0) {
                breakOff(qp, "cannot be brought to state " + state + " again: " + VerbsErrno.name(err));
            }
            return err == 0;
        } catch (VerbsException e) {
            breakOff(qp, "cannot be connected again: " + e.getMessage());
            return false;
        }
    }

    /** A queue pair that cannot be brought back: its peer finds it in error, and so does the application. */
    private void breakOff(final Qp qp, final String why) throws Refusal {
        if (restored) {
            throw new Refusal(qp.name() + " " + why);
        }
        library.say(qp.name() + " " + why + "; it reports an error");
        broken.add(qp);
        qp.attributes.failed();
        // As far as it has come; one that is still in RESET does nothing, either.
        queuePairs.replay(qp, verbs_h.IBV_QPS_ERR());
    }

    /** Send queues that were in SQD, once memory windows, which are bound by requests, need them no more. */
    private void holdSends() throws Refusal {
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.home && qp.attributes.state() == verbs_h.IBV_QPS_SQD()) {
                replay(qp, verbs_h.IBV_QPS_SQD());
            }
        }
    }

    /** Oldest first. */
    private void postReceives() throws Refusal {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment position = arena.allocate(8, 8);
            for (final Srq srq : model.srqs.inOrder()) {
                int err = library.srqReplay(srq.virtual, position);
                if (err != 0) {
                    throw new Refusal("receive " + positionOf(position) + " of a shared receive queue cannot be posted"
                            + " again: " + VerbsErrno.name(err));
                }
                err = SharedReceiveVerbs.armLimit(backend.now(), srq);
                if (err != 0) {
                    throw new Refusal("the limit of a shared receive queue cannot be armed again: "
                            + VerbsErrno.name(err));
                }
            }
            for (final Qp qp : model.qps.inOrder()) {
                final int state = qp.attributes.state();
                if (state == verbs_h.IBV_QPS_RESET() || state == verbs_h.IBV_QPS_ERR()) {
                    continue;
                }
                final int err = library.qpReplayReceives(qp.virtual, position);
                if (err != 0) {
                    breakOff(qp, "cannot have receive " + positionOf(position) + " posted again: "
                            + VerbsErrno.name(err));
                }
            }
        }
    }

    /** Oldest first. From here on things take effect, and there is no way back: a failure is the queue pair's own. */
    private void postSends() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment position = arena.allocate(8, 8);
            for (final Qp qp : model.qps.inOrder()) {
                if (!qp.attributes.sends()) {
                    continue;
                }
                final int err = library.qpReplaySends(qp.virtual, position);
                if (err != 0) {
                    library.say(qp.name() + ": send request " + positionOf(position) + " cannot be posted again: "
                            + VerbsErrno.name(err) + "; the queue pair reports an error");
                    qp.attributes.failed();
                    library.qpFail(qp.virtual);
                }
            }
        }
    }

    private static long positionOf(final MemorySegment position) {
        return position.get(java.lang.foreign.ValueLayout.JAVA_LONG, 0);
    }

    /** Those that the device does not take back, and those with a request in doubt, complete what they hold in error. */
    private void fail(final List<Connection> connections) {
        for (final Qp qp : broken) {
            library.qpFail(qp.virtual);
        }
        for (final Connection c : connections) {
            if (c.end.failAfterwards && !broken.contains(c.qp)) {
                c.qp.attributes.failed();
                library.qpFail(c.qp.virtual);
            }
        }
    }

    /** As {@link #run}, of a process that is alone and has no link: for tests. */
    public void train() throws Refusal {
        final List<OwnerRecord> owners = new ArrayList<OwnerRecord>();
        owners.add(OwnerRecord.decode(new OwnerRecord(0, carriedOver()).encode()));
        adopt(new AddressBook(owners), owners.get(0));
        connect();
        realObjects.windows().rebind();
        holdSends();
        postReceives();
        postSends();
        fail(List.of());
    }

    /**
     * There is no device, or no way to connect: the application learns of it by its queue pairs' errors. The gate opens
     * whatever happens here, for it would stay closed for ever.
     */
    public void giveUp(final String reason) {
        try {
            library.say("this process cannot be reattached: " + reason + "; its queue pairs report errors from now on");
            destroyWhatThereIs();
            for (final Qp qp : model.qps.inOrder()) {
                if (qp.attributes.state() != verbs_h.IBV_QPS_RESET()) {
                    qp.attributes.failed();
                    library.qpState(qp.virtual, verbs_h.IBV_QPS_ERR());
                    library.qpFail(qp.virtual);
                }
            }
        } finally {
            library.gateOpen();
        }
    }

    private void destroyWhatThereIs() {
        try {
            realObjects.destroy();
        } catch (RuntimeException e) {
            library.say("not all of its real objects could be destroyed: " + UnexpectedException.describe(e));
        }
    }
}
