// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.Attachment;
import org.shadowverbs.coordinator.client.CheckpointAborted;
import org.shadowverbs.coordinator.client.CheckpointRequest;
import org.shadowverbs.coordinator.client.Contribution;
import org.shadowverbs.coordinator.client.LinkLostException;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.coordinator.client.Reply;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.client.WayBack;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.drain.Drain;
import org.shadowverbs.driver.drain.Drained;
import org.shadowverbs.driver.drain.Pairing;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Used;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Timings;
import org.shadowverbs.driver.nativelib.UnexpectedException;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.reattach.Attached;
import org.shadowverbs.driver.reattach.RealObjects;
import org.shadowverbs.driver.reattach.Reattach;
import org.shadowverbs.driver.verbs.QueuePairVerbs;
import org.shadowverbs.driver.xrc.SharedDomains;
import org.shadowverbs.driver.xrc.SharedReceivers;
import org.shadowverbs.driver.xrc.XrcVerbs;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.QpRecord;

/**
 * One checkpoint of this rank, from ANNOUNCE to open gates again. Read {@link #run} from top to bottom;
 * docs/PROTOCOL.md has the steps and the failure of each. Runs in the checkpoint's thread.
 */
final class Checkpoint {
    private static final Duration RECONNECT_DEADLINE = Duration.ofSeconds(30);
    /** The longest pause between two rounds of the drain in which nothing moved. */
    private static final long LONGEST_PAUSE_NANOS = 5_000_000;
    /** So long it is waited for sections of the program to end, before those that wait are let into theirs: first, and at most. */
    private static final long SHORT_PATIENCE_NANOS = 100_000_000;
    private static final long LONG_PATIENCE_NANOS = 1_000_000_000;
    private static final long GARBAGE_STACK = 256 << 10;

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final Reattach reattach;
    private final QueuePairVerbs queuePairs;
    private final SharedReceivers receivers;
    private final RealObjects realObjects;
    private final Disconnections disconnections;
    private final Timings timings;
    private final ProgramCall call;
    private final Agent agent;
    private final CheckpointRequest request;
    private final long epoch;

    private RankLink link;
    private final Roster roster = new Roster();
    private final PeerTable peers;
    private boolean ranksHaveLeft;
    private Gate gate = Gate.OPEN;
    /** When it was opened again, by System.nanoTime. */
    private long openedAt = System.nanoTime();
    private Ending ending;
    /** The XRC domains with a file, as of CLOSE. */
    private SharedDomains shared;
    /** All ranks keep their devices open for the image; null: they close them. */
    private Attached attached;
    /** What that would be, while it is not known. */
    private Attached undecided;

    /** Collects it since ANNOUNCE; null: it was not begun. */
    private Thread garbage;

    /** As shadowverbs_program.h has it. */
    private int outcome = ProgramCall.GIVEN_UP;
    private boolean programTold;

    /** Where it is, for whatever may be thrown: it is never left closed. */
    private enum Gate {
        OPEN,
        /** Open, but error completions are kept back. */
        ANNOUNCED,
        /** Closed, and the connections are as the application left them. */
        UNTOUCHED,
        /** The drain may have acted on the connections, and real objects may be gone. */
        CLOSED
    }

    /**
     * What has become of this process in an epoch.
     *
     * @param ids its ids from now on, or null when they are what they were
     * @param failedIn the phase that it could not go on with, or null
     * @param failure why
     * @param openedAt when its gate was opened again, by System.nanoTime
     */
    record Ending(long epoch, OwnerRecord ids, Phase failedIn, String failure, long openedAt) {
        Ending openedAt(final long when) {
            return new Ending(epoch, ids, failedIn, failure, when);
        }
    }

    /** How the rank finds its agent; after a restart, another. */
    interface Agent {
        /** @param epoch the one that goes on */
        RankLink reconnect(Path socket, long epoch, Duration deadline) throws IOException;

        /** Where the agent was last. */
        Path socket();
    }

    Checkpoint(final Native library, final ChosenBackend backend, final Model model, final Reattach reattach,
            final QueuePairVerbs queuePairs, final RealObjects realObjects, final Disconnections disconnections,
            final Timings timings, final ProgramCall call, final Agent agent, final RankLink link,
            final CheckpointRequest request) {
        this.call = call;
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.reattach = reattach;
        this.queuePairs = queuePairs;
        this.receivers = queuePairs.receivers();
        this.realObjects = realObjects;
        this.disconnections = disconnections;
        this.timings = timings;
        this.agent = agent;
        this.link = link;
        this.request = request;
        this.epoch = request.epoch();
        this.peers = new PeerTable(model, link.rank());
        this.ending = new Ending(epoch, null, null, null, 0);
    }

    /** @return how it has ended, which the coordinator is to be told; the gate is open */
    Ending run() {
        try {
            timings.begin();
            if (prepare() && drain()) {
                detachAndWait();
            }
        } catch (Throwable t) {
            endWith(t);
        }
        tellProgram();
        return ending.openedAt(openedAt);
    }

    /** It runs again. */
    private void tellProgram() {
        if (!programTold) {
            programTold = true;
            library.programAfter(outcome);
            call.ends(outcome);
        }
    }

    /** The link that was used last; it may be broken. */
    RankLink link() {
        return link;
    }

    /** Whatever it is, the application's threads wait at the gate. */
    private void endWith(final Throwable thrown) {
        try {
            final String reason = thrown instanceof IOException || thrown instanceof Refusal ? thrown.getMessage()
                    : UnexpectedException.describe(thrown);
            if (gate == Gate.CLOSED) {
                cannotGoBack(reason);
            } else {
                library.say("checkpoint " + epoch + " cannot go on: " + reason);
                ending = new Ending(epoch, ending.ids(), Phase.CLOSE, reason, 0);
                if (gate != Gate.OPEN) {
                    reopen();
                }
            }
        } finally {
            if (gate != Gate.OPEN) {
                library.gateOpen();
                isOpen();
            }
        }
    }

    /**
     * ANNOUNCE and CLOSE, and the barrier of PAIRED where something has changed between them.
     *
     * @return false: the checkpoint was given up, and the application runs on as if there had been none
     */
    private boolean prepare() throws IOException {
        Phase phase = Phase.ANNOUNCE;
        boolean reattach;
        try {
            gate = Gate.ANNOUNCED;
            announceOutsideOfSections();
            timings.end("ANNOUNCE");
            phase = Phase.CLOSE;
            close();
            gate = Gate.UNTOUCHED;
            // Nobody touches a connection before all have found that theirs can be saved.
            if (!allAreAsAnnounced()) {
                pairAtClosedGate();
                phase = Phase.PAIRED;
                link.exchange(epoch, phase, 0, Contribution.AGREED);
                realObjects.xrc().forgetEnded(shared);
            }
            gate = Gate.CLOSED;
            timings.end("CLOSE");
            return true;
        } catch (Refusal e) {
            reattach = giveUp(phase, e.getMessage());
        } catch (VerbsException e) {
            reattach = giveUp(phase, e.getMessage() == null ? VerbsErrno.name(e.errno()) : e.getMessage());
        } catch (CheckpointAborted e) {
            library.say("checkpoint " + epoch + " was given up: " + e.getMessage());
            reattach = e.reattach();
        } catch (LinkLostException e) {
            library.say("checkpoint " + epoch + " is given up: " + e.getMessage());
            reattach = false;
        }
        if (reattach) {
            gate = Gate.CLOSED;
            backToWork();
        } else {
            reopen();
        }
        return false;
    }

    /**
     * The program's callbacks, and its sections. All ranks are out of theirs, and begin none, when the last contribution to ANNOUNCE
     * is made: no gate is closed before. Where that does not come by waiting somebody may be in one that cannot end before another rank
     * comes into one, too: so who waits to begin one may begin it, and it is tried again.
     */
    private void announceOutsideOfSections() throws Refusal, CheckpointAborted, IOException {
        final String refused = library.programBefore(ownPatienceNanos());
        if (refused != null) {
            throw new Refusal(refused);
        }
        // Here, for it takes milliseconds, and the program runs. Nobody waits for it before there is to be an image.
        garbage = Thread.ofPlatform().daemon().name("shadowverbs-garbage").stackSize(GARBAGE_STACK).start(System::gc);
        long patience = SHORT_PATIENCE_NANOS;
        if (announce(library.sectionsClose(patience))) {
            return;
        }
        String inside;
        int round = 1;
        do {
            library.gateAnnounce(false);
            library.sectionsPass();
            patience = Math.min(2 * patience, LONG_PATIENCE_NANOS);
            inside = library.sectionsClose(patience);
            library.gateAnnounce(inside == null);
        } while (!link.exchange(epoch, Phase.ANNOUNCE, round++, outside(inside, Map.of(), Set.of())).unanimous());
    }

    private static Contribution outside(final String inside, final Map<String, byte[]> publish, final Set<String> want) {
        return new Contribution(publish, want, inside == null, inside == null ? "" : inside);
    }

    /** Publishes the queue pairs, looks up their peers, keeps error completions back, sets the longest RNR timers. */
    private boolean announce(final String inside) throws Refusal, CheckpointAborted, IOException {
        for (final Context context : model.contexts.inOrder()) {
            if (!context.reattached) {
                Ports.refresh(backend.now(), context, model.masks);
            }
        }
        JoiningRank.begun(link, epoch);
        library.gateAnnounce(inside == null);
        final boolean allAreOutside = exchangePeers(Phase.ANNOUNCE, inside);
        for (final Connection c : peers.connections()) {
            // At the RNR NAK of a finite count of retries, the sender's error may be minutes, or milliseconds, away.
            if (c.peer != null && c.peer.rnrRetry < 7 && c.qp.attributes.sends() && c.qp.attributes.minRnrTimer() != 0) {
                c.timerRaised = setMinRnrTimer(c.qp, 0) == 0;
            }
        }
        return allAreOutside;
    }

    /**
     * Publishes and pairs; refuses queue pairs that cannot be checkpointed.
     *
     * @param inside who is in a section that is kept free of checkpoints, or null
     * @return whether all agree to go on
     */
    private boolean exchangePeers(final Phase phase, final String inside) throws Refusal, CheckpointAborted, IOException {
        // While the gates are open domains come and go.
        final SharedDomains domains = phase == Phase.CLOSE ? new SharedDomains(model, link.rank(), receivers.self(),
                context -> XrcVerbs.device(library, backend.now(), context),
                qp -> XrcVerbs.targets(library, qp)) : null;
        Reply reply = publishPeers(phase, phase == Phase.CLOSE ? 1 : 0, domains, inside);
        if (domains != null) {
            model.sharers(domains.sharers(roster.numbers(), keys -> link.lookup(keys, RECONNECT_DEADLINE)));
            receivers.findHomes(domains.ranksById());
            shared = domains;
            if (!reply.unanimous()) {
                // Somebody has the queue pair of another open. Now that nobody changes it any more, its home speaks for it.
                reply = publishPeers(phase, 2, domains, null);
            }
        }
        final Map<String, byte[]> found = new LinkedHashMap<String, byte[]>(reply.found());
        final Set<String> missing = peers.missing(kind(phase), found);
        if (!missing.isEmpty()) {
            found.putAll(link.lookup(missing, RECONNECT_DEADLINE));
        }
        ranksHaveLeft = !reply.departed().isEmpty() || roster.ranksHaveLeft();
        peers.pair(kind(phase), found, ranksHaveLeft);
        for (final Connection c : peers.connections()) {
            // While the gates are open, a peer may have been created after its rank had published.
            if (c.pairing == Pairing.OUTSIDE && phase == Phase.CLOSE) {
                throw new Refusal(c.name() + ": the peer is outside the job");
            }
        }
        return reply.unanimous();
    }

    /** @param domains null: the gates are open */
    private Reply publishPeers(final Phase phase, final int round, final SharedDomains domains, final String inside)
            throws CheckpointAborted, IOException {
        peers.refresh();
        final Map<String, byte[]> values = peers.published(kind(phase));
        final Set<String> wanted = peers.wanted(kind(phase));
        if (domains != null) {
            domains.publish(values);
        }
        final boolean known = domains == null || round > 1 || !model.anyForeign();
        final Reply reply = link.exchange(epoch, phase, round, domains == null ? outside(inside, values, wanted)
                : new Contribution(values, wanted, known, "queue pairs of other processes"));
        roster.are(reply.numbers());
        return reply;
    }

    private static QpRecord.Kind kind(final Phase phase) {
        return phase == Phase.CLOSE ? QpRecord.Kind.CLOSED : QpRecord.Kind.ANNOUNCED;
    }

    private int setMinRnrTimer(final Qp qp, final int value) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.min_rnr_timer(attr, (byte) value);
            synchronized (qp) {
                ibv_qp_attr.qp_state(attr, qp.attributes.stateForChange());
                return qp.real == 0 ? VerbsErrno.EINVAL
                        : backend.now().modifyQp(qp.real, attr,
                                verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_MIN_RNR_TIMER());
            }
        }
    }

    /** Threads finish the verb they are in and wait at the next. */
    private void close() throws Refusal {
        final String inside = library.gateClose(ownPatienceNanos());
        if (inside != null) {
            throw new Refusal("the gate did not close within " + TimeUnit.NANOSECONDS.toSeconds(ownPatienceNanos()) + " s: " + inside);
        }
    }

    /** Shorter than the coordinator's, which would only say that this rank has not answered. */
    private long ownPatienceNanos() {
        return TimeUnit.SECONDS.toNanos(request.deadlineSeconds()) * 3 / 4;
    }

    /**
     * Whether no rank has anything to tell that it has not told at ANNOUNCE: then each has paired its queue pairs for good there.
     * The first round of CLOSE.
     */
    private boolean allAreAsAnnounced() throws CheckpointAborted, IOException {
        for (final Context context : model.contexts.inOrder()) {
            Ports.ensure(backend.now(), context, model.masks); // opened since ANNOUNCE
        }
        final boolean as = !model.anyXrc() && peers.areAsAnnounced();
        return link.exchange(epoch, Phase.CLOSE, 0, new Contribution(Map.of(), Set.of(), as, "what it has announced")).unanimous();
    }

    /** Now that no application thread can change them, the queue pairs are paired for good. */
    private void pairAtClosedGate() throws Refusal, CheckpointAborted, IOException {
        exchangePeers(Phase.CLOSE, null);
        XrcVerbs.forgetForeignQps(library, model, shared);
        XrcVerbs.refuseManyForeignQps(library, model);
        SharedDomains.check(peers.connections(), qp -> XrcVerbs.targets(library, qp), ranksHaveLeft,
                keys -> link.lookup(keys, RECONNECT_DEADLINE));
    }

    /**
     * This rank cannot go on: says so, and waits until the coordinator has told everybody.
     *
     * @return whether everything must be made anew, because the drain of some had begun
     */
    private boolean giveUp(final Phase phase, final String reason) throws IOException {
        library.say("checkpoint " + epoch + " cannot go on: " + reason);
        link.fail(epoch, phase, reason);
        try {
            for (int round = 0;; round++) {
                link.exchange(epoch, phase, Integer.MAX_VALUE - round,
                        new Contribution(Map.of(), Set.of(), false, reason));
            }
        } catch (CheckpointAborted e) {
            return e.reattach();
        }
    }

    /** Nothing was let go of: timers are put back, and everything goes on. */
    private void reopen() {
        for (final Connection c : peers.connections()) {
            if (c.timerRaised) {
                setMinRnrTimer(c.qp, c.qp.attributes.minRnrTimer());
                c.timerRaised = false;
            }
        }
        if (gate == Gate.ANNOUNCED) {
            library.gateAnnounce(false);
            library.sectionsOpen();
        } else {
            library.gateOpen();
        }
        isOpen();
    }

    private void isOpen() {
        gate = Gate.OPEN;
        openedAt = System.nanoTime();
    }

    /**
     * DRAIN and the barrier of DETACH.
     *
     * @return false: the checkpoint was given up and the application runs on already
     */
    private boolean drain() throws IOException {
        final Drain drain = new Drain(library, backend.now(), model, peers.connections(), link.rank(), "b/");
        try {
            if (drained(drain)) {
                return true;
            }
        } catch (LinkLostException e) {
            library.say("checkpoint " + epoch + " is given up: " + e.getMessage());
            reconnect(link);
            learnAgreement();
        } finally {
            drain.close();
        }
        // Markers, landings and access flags of the drain do not belong to the application's connections.
        backToWork();
        return false;
    }

    /** @return false: the checkpoint was given up */
    private boolean drained(final Drain drain) throws IOException {
        Phase phase = Phase.DRAIN;
        try {
            rounds(drain);
            drain.finish(request.deadlineSeconds());
            reattach.drained(Drained.ALL);
            timings.end("DRAIN");
            phase = Phase.DETACH;
            agree();
            return true;
        } catch (CheckpointAborted e) {
            library.say("checkpoint " + epoch + " was given up: " + e.getMessage());
        } catch (Refusal e) {
            giveUp(phase, e.getMessage());
        }
        return false;
    }

    /** All keep their devices open for the image, or none. */
    private void agree() throws Refusal, CheckpointAborted, IOException {
        final Attached candidate = new Attached(library, backend, model, queuePairs, realObjects, peers.connections(),
                link.rank());
        final Attachment own = candidate.look(request.detached() ? CheckpointRequest.DETACHED : "");
        final Map<String, byte[]> values = new LinkedHashMap<String, byte[]>();
        values.put(Needs.key(link.rank()), Needs.encode(Used.all(model, link.rank())));
        if (!own.silent()) {
            values.put(Attachment.key(link.rank()), own.encode());
        }
        undecided = candidate;
        if (link.exchange(epoch, Phase.DETACH, 0, new Contribution(values, Set.of(), own.independent(), "")).unanimous()) {
            attached = candidate;
            return;
        }
        final Set<String> wanted = new LinkedHashSet<String>();
        NumberedKeys.want(wanted, Attachment.KEYS, roster.numbers());
        final Reply reply = link.exchange(epoch, Phase.DETACH, 1,
                new Contribution(Map.of(), wanted, own.obstacle().isEmpty(), own.obstacle()));
        if (!reply.unanimous()) {
            return;
        }
        final Map<Integer, Attachment> said = new LinkedHashMap<Integer, Attachment>();
        for (final int rank : roster.numbers()) {
            final byte[] record = reply.found().get(Attachment.key(rank));
            if (record != null) {
                said.put(rank, Attachment.decode(record));
            }
        }
        candidate.hear(said);
        candidate.resetBothSides();
        link.exchange(epoch, Phase.DETACH, 2, Contribution.AGREED);
        attached = candidate;
    }

    /** The link broke in the moment in which it was decided, perhaps. The others know, and so does the coordinator. */
    private void learnAgreement() throws IOException {
        if (undecided == null || attached != null) {
            return;
        }
        for (;;) {
            try {
                if (link.lookup(Set.of(Attachment.AGREED), RECONNECT_DEADLINE).containsKey(Attachment.AGREED)) {
                    attached = undecided;
                    attached.hold(epoch);
                }
                return;
            } catch (LinkLostException e) {
                reconnect(link);
            }
        }
    }

    /** As one that is in the midst of the epoch. */
    private RankLink reconnect(final RankLink before) throws IOException {
        before.close();
        link = agent.reconnect(agent.socket(), epoch, RECONNECT_DEADLINE);
        return link;
    }

    /** Gives everything back to the device. @return what went wrong, or null */
    private String letGo() {
        final WayBack way = new WayBack(link, epoch, this::reconnect);
        realObjects.watched(() -> way.progress(Phase.DETACH, "its devices to take everything back"));
        for (final Connection c : peers.connections()) {
            c.rememberPeer();
        }
        return realObjects.destroy();
    }

    private void rounds(final Drain drain) throws Refusal, CheckpointAborted, IOException {
        Map<String, byte[]> found = Map.of();
        long pause = 100_000;
        for (int round = 0;; round++) {
            drain.round(found);
            final boolean agree = drain.settled();
            final Set<String> wanted = Phase.continues(Phase.DRAIN.ordinal(), round) ? Set.of() : drain.wanted();
            final Reply reply = link.exchange(epoch, Phase.DRAIN, round,
                    new Contribution(drain.published(), wanted, agree, drain.waitingFor()));
            if (reply.unanimous()) {
                return;
            }
            found = reply.found();
            if (Integer.bitCount(round) == 1 && round >= 64) {
                timings.note("DRAIN, round " + round + ": " + drain.waitingFor());
            }
            // Asking again at once would only slow down those who have something to do.
            pause = drain.moved() ? 100_000 : Math.min(LONGEST_PAUSE_NANOS, pause * 2);
            LockSupport.parkNanos(pause);
        }
    }

    /** DETACH: lets go of the device, as far as it must, and waits to be told what has become of the process. */
    private void detachAndWait() throws IOException {
        final int pipe = library.openForReading(link.verdictPipe().toString());
        final EventChannels eventChannels = new EventChannels(library);
        final String ofChannels = eventChannels.detach(link);
        final String ofObjects = attached != null ? attached.hold(epoch) : ofChannels == null ? letGo() : null;
        final String trouble = ofChannels != null ? ofChannels : ofObjects;
        giveMemoryBack();
        if (request.countsWrites()) {
            model.mrs.inOrder().stream().filter(mr -> !mr.dead).forEach(mr -> mr.what.countAsWritten(library, backend.now().name()));
        }
        timings.end("DETACH");
        final String line;
        library.timersStop();
        try {
            line = awaitVerdict(pipe, trouble);
        } finally {
            library.timersStart();
            library.close(pipe);
        }
        timings.begin();
        final Path socket;
        boolean restored = false;
        if (line == null) {
            library.say("the agent ended during checkpoint " + epoch);
            socket = agent.socket();
        } else {
            final Verdict verdict = Verdict.parse(line);
            if (verdict.outcome() == Verdict.Outcome.ABORTED) {
                library.say("checkpoint " + epoch + " was given up: " + verdict.reason());
            }
            restored = verdict.outcome() == Verdict.Outcome.RESTORED;
            outcome = restored ? ProgramCall.RESTARTED : verdict.outcome() == Verdict.Outcome.RESUMED ? ProgramCall.RESUMED
                    : ProgramCall.GIVEN_UP;
            if (restored) {
                if (attached != null) {
                    attached = null;
                    realObjects.abandon();
                }
                reattach.restored();
                backend.restored(verdict.secret(), verdict.address());
                choose(verdict.backend());
            }
            socket = verdict.agent();
        }
        if (attached != null && !eventChannels.held()) {
            goOn();
        }
        link = agent.reconnect(socket, epoch, RECONNECT_DEADLINE);
        eventChannels.reattach(link, restored);
        if (attached == null) {
            disconnections.takeOver();
        }
        timings.end("agent");
        backToWork();
    }

    /** With the devices that it has kept. */
    private void goOn() {
        if (gate != Gate.OPEN) {
            gate = Gate.OPEN;
            attached.goOn();
            isOpen();
            tellProgram(); // the agent may be long in coming
            timings.end("gate open");
        }
    }

    /** What neither the program nor the virtual machine needs is to be in no image. */
    private void giveMemoryBack() {
        if (garbage != null) {
            try {
                if (!garbage.join(Duration.ofNanos(ownPatienceNanos()))) {
                    library.say("the JVM has not collected its garbage within "
                            + TimeUnit.NANOSECONDS.toSeconds(ownPatienceNanos()) + " s: the image is larger for it");
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        if (attached == null) {
            System.gc(); // what has made and destroyed objects
        }
        library.memoryTrim();
    }

    /** @return null: there is no agent any more */
    private String awaitVerdict(final int pipe, final String trouble) {
        try {
            if (trouble != null) {
                library.say("checkpoint " + epoch + " cannot go on: " + trouble);
                link.fail(epoch, Phase.DETACH, trouble);
            } else {
                call.detaches();
                link.detached(epoch);
            }
        } catch (IOException e) {
            return null;
        } finally {
            link.close();
        }
        return library.readLine(pipe);
    }

    /** The restart says what the real objects are made of from now on; a process that was not restored keeps its own. */
    private void choose(final String name) {
        try {
            backend.choose(name.equals(Verdict.SAME_BACKEND) ? backend.now().name() : name);
        } catch (VerbsException e) {
            library.say(e.getMessage() + "; " + backend.now().name() + " is used");
        }
    }

    private void backToWork() throws IOException {
        if (attached != null) {
            goOn();
            return;
        }
        final WayBack way = new WayBack(link, epoch, this::reconnect);
        try {
            final OwnerRecord own = reattach.run(way, epoch, roster.numbers(), peers.connections(),
                    request.deadlineSeconds());
            isOpen();
            ending = new Ending(epoch, own, null, null, 0);
            disconnections.reattached();
        } catch (Refusal e) {
            cannotGoBack(e.getMessage());
        } catch (VerbsException e) {
            cannotGoBack(e.getMessage() == null ? VerbsErrno.name(e.errno()) : e.getMessage());
        }
    }

    /** The others need not wait for this process; it goes on with its queue pairs in error. */
    private void cannotGoBack(final String reason) {
        ending = new Ending(epoch, null, Phase.PUBLISHED, reason, 0);
        try {
            link.fail(epoch, Phase.PUBLISHED, reason);
        } catch (IOException e) {
            timings.note(e.getMessage()); // it is said again by the next link
        }
        reattach.giveUp(reason);
        isOpen();
    }
}
