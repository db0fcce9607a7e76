// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.client.CheckAnswer;
import org.shadowverbs.coordinator.client.CheckQuestion;
import org.shadowverbs.coordinator.client.CheckpointRequest;
import org.shadowverbs.coordinator.client.Command;
import org.shadowverbs.coordinator.client.LinkLost;
import org.shadowverbs.coordinator.client.LinkLostException;
import org.shadowverbs.coordinator.client.ProgramAnswer;
import org.shadowverbs.coordinator.client.RankHello;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.coordinator.client.WorkQuestion;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Timings;
import org.shadowverbs.driver.nativelib.UnexpectedException;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.reattach.RealObjects;
import org.shadowverbs.driver.reattach.Reattach;
import org.shadowverbs.driver.verbs.QueuePairVerbs;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.Gid;

/**
 * Keeps the link to the agent and runs the checkpoints that come through it. All of it is off the application's way: an
 * agent that is lost is looked for again while the job goes on.
 */
public final class CheckpointThread implements Runnable, Job, Checkpoint.Agent, Disconnections.Others,
        ProgramCall.Link {
    private static final Duration CONNECT_DEADLINE = Duration.ofSeconds(60);
    private static final Duration COORDINATOR_DEADLINE = Duration.ofSeconds(5);
    private static final Duration BOOK_DEADLINE = Duration.ofSeconds(60);
    private static final long POLL_NANOS = 2_000_000;
    private static final String NOBODY = "no agent serves this process, which runs without checkpoints";
    private static final long STACK = 512 << 10;

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final KeyMaps keyMaps;
    private final Disconnections disconnections;
    private final Timings timings;
    private final ProgramCall call;
    private String uid;
    private String program;
    private volatile Path socket;
    private long treeRootPid;
    /** The last epoch that this rank took part in. */
    private volatile long epoch;
    private QueuePairVerbs queuePairs;
    private Thread thread;
    private volatile RankLink link;
    /** What has become of this process in the last epoch; each link that is made hears it. Null: there was none. */
    private Checkpoint.Ending ending;
    /** Ids of others may be carried over without this process having heard of it. */
    private volatile boolean joining = true;

    public CheckpointThread(final Native library, final ChosenBackend backend, final Model model,
            final KeyMaps keyMaps) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.keyMaps = keyMaps;
        this.disconnections = new Disconnections(library, model, this);
        this.timings = new Timings(library, "1".equals(System.getenv("SHADOWVERBS_VERBOSE")));
        this.call = new ProgramCall(library);
    }

    public void start(final QueuePairVerbs verbs) {
        queuePairs = verbs;
        thread = new Thread(null, this, "shadowverbs-checkpoint", STACK);
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void run() {
        try {
            final Path agent = AgentPlace.ofThisProcess();
            if (agent == null) {
                joining = false;
                library.say("no agent (SHADOWVERBS_AGENT is not set): this process runs without checkpoints");
                return;
            }
            library.unblockWakeUpSignal();
            identify(agent);
            stayLinked();
        } catch (Throwable t) {
            library.say("no more checkpoints of this process: " + UnexpectedException.describe(t));
        } finally {
            joining = false;
            call.nobodyServes(NOBODY);
        }
    }

    private void identify(final Path agent) throws IOException {
        socket = agent;
        final String tree = System.getenv("SHADOWVERBS_TREE");
        treeRootPid = tree == null || tree.isEmpty() ? library.processId() : Long.parseLong(tree.trim());
        final StringBuilder b = new StringBuilder(32);
        try (FileInputStream random = new FileInputStream("/dev/urandom")) {
            for (final byte x : random.readNBytes(16)) {
                b.append(Character.forDigit(x >> 4 & 15, 16)).append(Character.forDigit(x & 15, 16));
            }
        }
        uid = b.toString();
        try (FileInputStream comm = new FileInputStream("/proc/self/comm")) {
            program = new String(comm.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8).trim();
        }
    }

    /** Until the job is over. */
    private void stayLinked() throws InterruptedException {
        boolean said = false;
        for (;;) {
            try {
                if (link == null) {
                    link = connect(socket, RankHello.State.FRESH, epoch, CONNECT_DEADLINE);
                    joining &= link.epoch() != 0;
                    tellEnding();
                    call.again(this);
                    said = false;
                }
                final Command command = link.next();
                if (command instanceof CheckpointRequest) {
                    checkpoint((CheckpointRequest) command);
                } else if (command instanceof CheckQuestion) {
                    link.answer((CheckQuestion) command, outlook());
                } else if (command instanceof WorkQuestion) {
                    link.answer((WorkQuestion) command, work());
                } else if (command instanceof ProgramAnswer) {
                    call.answered((ProgramAnswer) command);
                } else if (command instanceof LinkLost) {
                    throw new LinkLostException(((LinkLost) command).reason());
                } else {
                    link.close();
                    link = null;
                    return;
                }
            } catch (LinkLostException e) {
                drop();
                if (!said) {
                    library.say(e.getMessage() + "; the program runs on, and the agent is tried again");
                    said = true;
                }
            } catch (IOException e) {
                // A refusal is for good: another secret, another version, an epoch that is over.
                drop();
                library.say("the agent refuses this process, which runs on without checkpoints: " + e.getMessage());
                return;
            }
        }
    }

    /** Also to a coordinator that has come meanwhile: what it knows already it hears twice without harm. */
    private void tellEnding() throws IOException {
        if (ending != null && ending.failedIn() != null) {
            link.fail(ending.epoch(), ending.failedIn(), ending.failure());
        }
        if (ending != null) {
            JoiningRank.back(link, ending.epoch(), ending.ids());
        }
        disconnections.leaveExitMessages();
        if (ending != null) {
            link.done(ending.epoch(), System.nanoTime() - ending.openedAt());
        }
    }

    private void drop() {
        final RankLink lost = link;
        link = null;
        if (lost != null) {
            lost.close();
        }
    }

    private RankLink connect(final Path agent, final RankHello.State state, final long at, final Duration deadline)
            throws IOException {
        final int writes = library.writesDescriptor();
        try {
            return RankLink.connect(agent, new RankHello(uid, library.processId(), treeRootPid, program, at, state, writes),
                    deadline, disconnections);
        } finally {
            if (writes >= 0) {
                library.close(writes); // the agent has one of its own; CRIU saves no process that has one
            }
        }
    }

    /** Changes with each request that is posted or completed. Queue pairs come and go meanwhile, which is as good a sign. */
    private long work() {
        long work = 0;
        for (final Qp qp : model.qps.inOrder()) {
            work += library.qpWork(qp.virtual);
        }
        return work;
    }

    private CheckAnswer outlook() {
        try {
            return new Outlook(backend.now(), model, link.rank()).look();
        } catch (RuntimeException e) {
            return new CheckAnswer(List.of("its objects can't be looked at: " + e.getMessage()), Set.of(), Map.of(),
                    backend.now().listener());
        }
    }

    private void checkpoint(final CheckpointRequest request) throws IOException {
        call.begins(request);
        epoch = request.epoch();
        final RealObjects realObjects = new RealObjects(library, backend, model, queuePairs);
        final Reattach reattach = new Reattach(library, backend, model, queuePairs, keyMaps, realObjects, timings);
        final Checkpoint checkpoint = new Checkpoint(library, backend, model, reattach, queuePairs, realObjects,
                disconnections, timings, call, this, link, request);
        ending = checkpoint.run();
        link = checkpoint.link();
        joining &= model.book().isEmpty();
        tellEnding();
        call.again(this);
    }

    @Override
    public void ask(final long number, final int processes, final long written) throws IOException {
        linked().askCheckpoint(number, processes, epoch, written);
    }

    @Override
    public void wantsCheckpoint(final long number, final int processes) {
        call.wants(number, processes, this);
        if (!thread.isAlive()) {
            call.nobodyServes(NOBODY);
        }
    }

    @Override
    public void awaitAddressBook() {
        final long end = System.nanoTime() + BOOK_DEADLINE.toNanos();
        while (joining) {
            final RankLink current = link;
            try {
                final AddressBook book = current == null ? null : JoiningRank.read(current, epoch);
                if (book != null) {
                    model.book(book);
                    joining = false;
                    return;
                }
            } catch (LinkLostException e) {
                // The link is made again, as long as there is time.
                timings.note(e.getMessage());
            } catch (IOException e) {
                throw new VerbsException(VerbsErrno.EIO, "the ids of the job cannot be read: " + e.getMessage());
            }
            if (System.nanoTime() > end) {
                library.say("waited " + BOOK_DEADLINE.toSeconds() + " s for the agent to tell the ids of the job; "
                        + "goes on without");
                joining = false;
                return;
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /** Of the coordinator. */
    private interface Question<T> {
        T ask(RankLink link) throws IOException;
    }

    /** Waits for a link, and asks again by another when it breaks, as long as there is time. */
    private <T> T ask(final String what, final Question<T> question) {
        final long end = System.nanoTime() + BOOK_DEADLINE.toNanos();
        for (;;) {
            final RankLink current = link;
            try {
                if (current != null) {
                    return question.ask(current);
                }
            } catch (LinkLostException e) {
                timings.note(e.getMessage());
            } catch (IOException e) {
                throw new VerbsException(VerbsErrno.EIO, what + ": " + e.getMessage());
            }
            if (!thread.isAlive() || System.nanoTime() > end) {
                throw new VerbsException(VerbsErrno.EIO, what + ": " + (thread.isAlive()
                        ? "the agent did not answer within " + BOOK_DEADLINE.toSeconds() + " s" : "there is no agent"));
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    @Override
    public int publishLid(final Gid gid, final int has) {
        awaitAddressBook();
        return ask("the port gets no lid", current -> {
            final int lid = has != 0 ? has : LidRegister.choose(current, model.book());
            LidRegister.publish(current, lid, gid);
            return lid;
        });
    }

    @Override
    public Gid gidOf(final int lid) {
        // On the way back all who are there are in the address book.
        return Thread.currentThread() == thread ? null
                : ask("lid " + lid + " cannot be looked up", current -> LidRegister.find(current, lid));
    }

    @Override
    public RankLink reconnect(final Path agent, final long at, final Duration deadline) throws IOException {
        socket = agent;
        for (;;) {
            try {
                final RankLink connected = connect(agent, RankHello.State.REATTACHING, at, deadline);
                link = connected;
                return connected;
            } catch (LinkLostException e) {
                // The gate is closed and nothing is behind it: there is nothing else to do but to go on trying.
                library.say(e.getMessage() + "; this process waits for its agent");
            }
        }
    }

    @Override
    public Path socket() {
        return socket;
    }

    @Override
    public Path hostFolder() {
        final Path agent = socket;
        try {
            final Path now = agent == null ? AgentPlace.ofThisProcess() : agent;
            return now == null ? null : now.getParent();
        } catch (IOException e) {
            throw new VerbsException(VerbsErrno.EIO, "the place of the agent cannot be read: " + e.getMessage());
        }
    }

    private RankLink linked() throws LinkLostException {
        final RankLink current = link;
        if (current == null) {
            throw new LinkLostException("no agent");
        }
        return current;
    }

    @Override
    public void tell(final int rank, final byte[] what) throws IOException {
        linked().tell(rank, what);
    }

    @Override
    public void leaveExitMessages(final List<Integer> ranks, final List<byte[]> what) throws IOException {
        linked().leaveExitMessages(ranks, what);
    }

    @Override
    public void awaitCoordinator() throws IOException {
        linked().awaitCoordinator(COORDINATOR_DEADLINE);
    }

    @Override
    public void disconnect(final long token) {
        disconnections.disconnect(token);
    }

    /** The process ends normally: leaves word of its queue pairs, whose peers may live on. */
    @Override
    public void exit(final int status) {
        backend.now().settle();
        final RankLink current = link;
        if (current == null) {
            return;
        }
        try {
            for (final Context context : model.contexts.inOrder()) {
                Ports.ensure(backend.now(), context, model.masks);
            }
            current.publish(PeerTable.exitRecords(model, current.rank(), queuePairs.receivers().leaveAll(null)));
            current.goodbye(status);
        } catch (IOException | RuntimeException e) {
            library.say("the agent did not hear the goodbye: " + e.getMessage());
        }
    }
}
