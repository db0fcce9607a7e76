// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import org.shadowverbs.coordinator.agent.HostAnswer;
import org.shadowverbs.coordinator.agent.HostVoice;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspect;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspected;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepare;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepared;
import org.shadowverbs.coordinator.protocol.HostMessages.RankJoined;
import org.shadowverbs.coordinator.protocol.HostMessages.RankNumber;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.Seal;
import org.shadowverbs.coordinator.protocol.HostMessages.Sealed;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.Check;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;

/**
 * The agent of a host and its ranks, as the coordinator sees them: over a TCP connection of its own, in the real
 * protocol. What agents do with what their ranks say and get ({@link HostVoice}, {@link HostAnswer}) is done here, too;
 * there are no processes and no images.
 */
final class SimulatedHost implements AutoCloseable {
    /** Of what a rank publishes of a queue pair, of its drain, of its ids: about those of the real ones. */
    private static final int QUEUE_PAIR_BYTES = 40;
    private static final int BOOKMARK_BYTES = 56;
    private static final int IDS_BYTES = 120;
    private static final int CONNECT_MILLIS = 30_000;

    private final SimulatedJob job;
    private final int index;
    private final int first;
    private final List<Rank> ranks = new ArrayList<>();
    private final Map<String, Rank> byUid = new HashMap<>();
    private final FrameChannel channel;
    private final Outbox outbox;
    private final HostVoice voice;
    private final ReentrantLock lock = new ReentrantLock();
    /** What rounds of a drain have brought. */
    private final Map<String, byte[]> fetched = new HashMap<>();
    private int numbered;
    /** Whether the devices stay open over the image. */
    private boolean attached;
    /** What was asked for last: where the images go. */
    private Save saving;

    private final class Rank {
        final String uid;
        final HostAnswer.Wishes wishes = new HostAnswer.Wishes();
        int number = -1;

        Rank(final String uid) {
            this.uid = uid;
        }

        Member member(final MemberState state, final long epoch) {
            final long pid = 1000 + byUid.size();
            return new Member(uid, number, pid, pid, 999, "simulated", epoch, (byte) state.ordinal());
        }
    }

    /**
     * Connects and joins.
     *
     * @param index of the host in the job
     * @param first number among all ranks, of its first one
     */
    SimulatedHost(final SimulatedJob job, final int index, final int first, final int count, final int port)
            throws IOException {
        this.job = job;
        this.index = index;
        this.first = first;
        channel = FrameChannel.connect(new InetSocketAddress("127.0.0.1", port), CONNECT_MILLIS);
        outbox = new Outbox(channel, name());
        voice = new HostVoice(outbox::send, lock);
        for (int i = 0; i < count; i++) {
            final Rank rank = new Rank("simulated-" + (first + i));
            ranks.add(rank);
            byUid.put(rank.uid, rank);
        }
        outbox.send(new AgentHello(FrameType.VERSION, job.secret(), name() + "-agent", name(), 900, "", 0, 0, false,
                List.of(), List.of(new Tree(999, List.of("job root", "simulated"), "/")),
                Map.of("ckptdir", job.directory().toString()), List.of(),
                List.of()));
        Thread.ofVirtual().name(name()).start(this::read);
    }

    private String name() {
        return "node" + index;
    }

    private void read() {
        try {
            for (;;) {
                final Message message = channel.read();
                lock.lock();
                try {
                    heard(message);
                } finally {
                    lock.unlock();
                }
            }
        } catch (IOException | RuntimeException e) {
            job.lost(name() + ": " + e);
        }
    }

    private void heard(final Message message) throws IOException {
        switch (message) {
            case AgentWelcome m -> ranks.forEach(rank ->
                    outbox.send(new RankJoined(rank.member(MemberState.RUNNING, 0))));
            case RankNumber m -> numbered(m);
            case ToRanks m -> told(m);
            case Freeze m -> outbox.send(new Frozen(m.epoch(), List.of("rank 0"), 1, TcpSockets.NONE));
            case Prepare m -> outbox.send(new Prepared(m.epoch()));
            case Save m -> {
                saving = m;
                outbox.send(new Saved(m.epoch(), 1));
            }
            case Seal m -> outbox.send(new Sealed(m.epoch(), 1, images(saving)));
            case Thaw m -> thawed(m);
            case Inspect m -> outbox.send(new Inspected(m.id(), List.of(), TcpSockets.NONE));
            default -> { } // what an agent would do for processes
        }
    }

    private void numbered(final RankNumber m) {
        final Rank rank = byUid.get(m.uid());
        final boolean joins = rank.number < 0;
        rank.number = m.rank();
        numbered++;
        if (joins) {
            job.joined();
        } else if (attached) {
            voice.done(rank.uid, m.epoch(), 0, numbered == ranks.size() ? 0 : Integer.MAX_VALUE);
            job.opened();
        } else {
            contribute(rank, m.epoch(), m.attempt(), Phase.PUBLISHED, 0);
        }
    }

    private void told(final ToRanks m) throws ProtocolException {
        final Message message = Codec.decode(m.frame());
        switch (message) {
            case Checkpoint c -> {
                fetched.clear();
                ranks.forEach(rank -> contribute(rank, c.epoch(), 0, Phase.ANNOUNCE, 0));
            }
            case Answer a -> answered(a);
            case Check c -> { } // nobody asks the simulated ranks for more
            default -> throw new ProtocolException("message of type " + message.type() + " to a simulated rank");
        }
    }

    /** Each rank gets what it wants, and goes on. */
    private void answered(final Answer a) {
        final Phase phase = Phase.of(a.phase());
        if (phase == Phase.DRAIN) {
            fetched.putAll(a.found());
        }
        final HostAnswer cut = new HostAnswer(a, fetched::get);
        for (final Rank rank : ranks) {
            cut.of(rank.wishes); // the frame that its rank would get
            job.delivered(phase, a.round());
        }
        final int round = a.round() + 1;
        switch (phase) {
            case CLOSE -> next(a, Phase.DRAIN, 0); // as announced
            case DRAIN -> next(a, a.unanimous() ? Phase.DETACH : Phase.DRAIN, a.unanimous() ? 0 : round);
            case DETACH -> {
                attached = a.unanimous();
                if (attached || a.round() == 1) {
                    ranks.forEach(rank -> voice.detached(rank.uid, a.epoch(), ranks.size()));
                } else {
                    next(a, Phase.DETACH, 1);
                }
            }
            case REPLAYED -> ranks.forEach(rank -> {
                voice.done(rank.uid, a.epoch(), 0, rank == ranks.getLast() ? 0 : Integer.MAX_VALUE);
                job.opened();
            });
            default -> next(a, Phase.of(a.phase() + 1), 0);
        }
    }

    private void next(final Answer a, final Phase phase, final int round) {
        job.afterAll(Phase.of(a.phase()), a.round(), () -> {
            lock.lock();
            try {
                ranks.forEach(rank -> contribute(rank, a.epoch(), a.attempt(), phase, round));
            } finally {
                lock.unlock();
            }
        });
    }

    // ---- what ranks say ----

    private void contribute(final Rank rank, final long epoch, final int attempt, final Phase phase, final int round) {
        final Map<String, byte[]> publish = new LinkedHashMap<>();
        final Set<String> want = new LinkedHashSet<>();
        boolean agree = true;
        final int r = rank.number;
        switch (phase) {
            case ANNOUNCE -> {
                for (final int peer : job.peers(r)) {
                    publish.put("q/a/" + r + '/' + peer, new byte[QUEUE_PAIR_BYTES]);
                    want.add("q/a/" + peer + '/' + r);
                }
            }
            case DRAIN -> {
                agree = round > 0;
                if (round < 2) {
                    publish.put("b/m/" + r, new byte[BOOKMARK_BYTES * job.peers(r).length]);
                }
                if (round == 0) {
                    for (final int peer : job.peers(r)) {
                        want.add("b/m/" + peer);
                    }
                }
            }
            case DETACH -> {
                agree = !job.isDetached();
                if (round == 0) {
                    publish.put("needs/" + r, ("hca0 Ethernet max_qp_wr=128 max_sge=1 max_cqe=256\n").getBytes(
                            java.nio.charset.StandardCharsets.UTF_8));
                }
            }
            case PUBLISHED -> {
                publish.put("d/" + r, new byte[1]);
                wantOfAll(want, "d/", r);
            }
            case CONNECTED -> {
                publish.put("x/" + r, new byte[IDS_BYTES]);
                wantOfAll(want, "x/", r);
            }
            default -> { } // a barrier
        }
        final Contribute c = new Contribute(epoch, attempt, (byte) phase.ordinal(), round, publish, want, agree, "");
        rank.wishes.are(c);
        job.contributes(phase, round);
        voice.contributes(rank.uid, c, ranks.size());
    }

    private void wantOfAll(final Set<String> want, final String prefix, final int rank) {
        if (job.allToAll()) {
            NumberedKeys.want(want, prefix, job.everybody());
        } else {
            for (final int peer : job.peers(rank)) {
                want.add(prefix + peer);
            }
        }
    }

    // ---- steps ----

    private String images(final Save m) throws IOException {
        final String directory = "host-" + name();
        Files.createDirectories(Path.of(m.folder()).resolve(directory));
        final List<Manifest.RankPart> parts = new ArrayList<>();
        for (final Rank rank : ranks) {
            parts.add(new Manifest.RankPart(rank.number, rank.uid, 1000L + rank.number - first, "rank " + rank.number,
                    "simulated", 999, 0));
        }
        return ManifestFile.toJson(new Manifest.HostPart(name(), directory, parts,
                List.of(new Manifest.TreePart(999, "rank 0", List.of("simulated"), "/", null, null)),
                new HostImages("", "simulated", "", "", List.of(), List.of(), 0, 0, 0), List.of()));
    }

    private void thawed(final Thaw m) {
        numbered = 0;
        outbox.send(new Thawed(m.epoch()));
        // Each reads its verdict, and comes back.
        ranks.forEach(rank -> outbox.send(new RankJoined(rank.member(MemberState.REATTACHING, m.epoch()))));
    }

    @Override
    public void close() {
        outbox.close();
        channel.close();
    }
}
