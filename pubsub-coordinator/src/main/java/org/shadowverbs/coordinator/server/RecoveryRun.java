// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.levels.Resolution;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.manifest.Portions;
import org.shadowverbs.coordinator.protocol.HostMessages.Release;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.LevelMessages.Holder;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.EndProcesses;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Recover;
import org.shadowverbs.coordinator.protocol.RestartMessages.Share;

/**
 * The steps by which a job is brought back, from the end of what is left of it to all gates open: read {@link #restore} from top to
 * bottom. {@link Recovery} decides whether they are taken. On the conductor's thread.
 */
final class RecoveryRun implements Recovery.Steps {
    /** More than the agent of a host that has come to life again may take to be there. */
    private static final Duration AGENTS_COME = Duration.ofSeconds(40);

    private final Job job;
    private final Epoch epoch;
    private final Report user;
    private final Consumer<Manifest> restarted;
    private final Runnable over;

    /**
     * @param user is told each step in a line
     * @param restarted is told of the checkpoint that the job has come from when its ranks run
     * @param over runs when nothing of the job is left
     */
    RecoveryRun(final Job job, final Report user, final Consumer<Manifest> restarted, final Runnable over) {
        this.job = job;
        epoch = job.epoch();
        this.user = user;
        this.restarted = restarted;
        this.over = over;
    }

    @Override
    public void say(final String line) {
        user.line(line);
    }

    @Override
    public void over() {
        epoch.end();
        over.run();
    }

    /** A host whose agent is lost, and may come back, is waited for: its processes may live. What can't be ended is said, and left. */
    @Override
    public void endWhatIsLeft() {
        do {
            epoch.beginEnding();
            epoch.tellAgents(Stage.END, new EndProcesses(epoch.number()));
            try {
                final Map<AgentSession, Message> answers = epoch.awaitAgents();
                answers.forEach((agent, answer) -> {
                    if (answer instanceof StepFailed failed) {
                        say("on host " + agent.host() + " not all processes have ended: " + failed.reason());
                    }
                });
                job.forgetProcesses(answers.keySet());
                epoch.await(job::hasAgentsBack, AGENTS_COME, () -> "no agent is left");
            } catch (Stopped e) {
                job.log().add("the end of what is left of the job: " + e.getMessage());
                job.forgetProcesses(job.locked(() -> List.copyOf(job.agents())));
            }
        } while (job.hasProcesses());
    }

    @Override
    public void restore(final Path folder, final long since, final String why) throws Recovery.Damaged, Stopped {
        final Manifest manifest = read(folder);
        requireImages(folder, manifest);
        job.keeper().awaitStore(this::say); // another coordinator could bring it back at the same time
        job.keeper().save(); // that it is being brought back
        epoch.beginRecovery(manifest.epoch());
        final Set<AgentSession> placed = place(folder, manifest);
        requireAll(placed, epoch.awaitAgents());
        epoch.takePart();
        epoch.tellAgents(Stage.RESTORE, new Thaw(epoch.number(), epoch.attempt(), "restored", "", false));
        final Map<AgentSession, Message> restored = epoch.awaitAgents();
        requireAll(placed, restored);
        epoch.tellAgents(Stage.RELEASE, new Release(epoch.number()));
        requireAll(placed, epoch.awaitAgents());
        final Reattachment back = new Reattachment(epoch, this::say);
        back.exchanges();
        back.open();
        restarted.accept(manifest);
        say("recovered in " + Sizes.seconds(System.nanoTime() - since) + ", of which " + Sizes.seconds(readNanos(restored))
                + " reading images: " + why);
    }

    /** Nothing else waits for an agent that was lost before it had processes: half a job is none. */
    private static void requireAll(final Set<AgentSession> placed, final Map<AgentSession, Message> answers) throws Stopped {
        CheckpointRun.requireAll(answers);
        for (final AgentSession agent : placed) {
            if (!answers.containsKey(agent)) {
                throw new Stopped("the agent of host " + agent.host() + " was lost while the job came back", false);
            }
        }
    }

    private static Manifest read(final Path folder) throws Recovery.Damaged {
        try {
            return ManifestFile.read(folder);
        } catch (ManifestException e) {
            throw new Recovery.Damaged(e.getMessage());
        }
    }

    /** What was on lost hosts alone is lost with them. */
    private void requireImages(final Path folder, final Manifest manifest) throws Recovery.Damaged {
        final Levels levels = Resolution.read(folder, manifest, this::say);
        final Set<String> hosts = job.locked(() -> job.agents().stream().map(AgentSession::host).collect(Collectors.toSet()));
        final Manifest.HostPart lost = levels.lost(manifest, hosts);
        if (lost != null) {
            throw new Recovery.Damaged(folder.getFileName() + " has lost the images of host " + lost.host() + ", which were at level "
                    + levels.of(lost.directory()).stream().map(Levels.Copy::text).collect(Collectors.joining(", ")));
        }
    }

    /** @return who has been given a share */
    private Set<AgentSession> place(final Path folder, final Manifest manifest) throws Stopped {
        final List<AgentSession> agents = job.locked(() -> List.copyOf(job.agents()));
        if (agents.isEmpty()) {
            throw new Stopped("no host is left", false);
        }
        final List<Manifest.HostPart> portions = Portions.of(manifest);
        final List<List<Integer>> shares = Placement.of(portions.stream()
                .map(p -> new Placement.Portion(p.host(), Math.max(1, p.ranks().size()))).toList(),
                agents.stream().map(AgentSession::host).toList());
        final List<Share> all = new ArrayList<>();
        final Map<AgentSession, Integer> places = new LinkedHashMap<>();
        for (int i = 0; i < agents.size(); i++) {
            if (!shares.get(i).isEmpty()) {
                places.put(agents.get(i), all.size());
                all.add(new Share(agents.get(i).host(), shares.get(i), agents.get(i).addresses()));
            }
        }
        sayMoves(portions, all);
        final List<Holder> holders = job.locked(() -> job.agents().stream().map(AgentSession::holder).filter(Objects::nonNull).toList());
        epoch.tellAgents(Stage.RECOVER, agent -> places.containsKey(agent)
                ? new Recover(epoch.number(), folder.toString(), manifest.checksum(), places.get(agent), all,
                        job.copies().choice().local(), holders) : null);
        return places.keySet();
    }

    private void sayMoves(final List<Manifest.HostPart> portions, final List<Share> shares) {
        final Map<String, String> moves = new LinkedHashMap<>();
        for (final Share share : shares) {
            for (final int portion : share.portions()) {
                if (!portions.get(portion).host().equals(share.host())) {
                    moves.merge(portions.get(portion).host(), share.host(),
                            (a, b) -> List.of(a.split(", ")).contains(b) ? a : a + ", " + b);
                }
            }
        }
        moves.forEach((from, to) -> say("what ran on host " + from + " goes on on " + to));
    }

    /** Hosts read at the same time. */
    private static long readNanos(final Map<AgentSession, Message> restored) {
        return restored.values().stream().mapToLong(m -> m instanceof Thawed t ? t.readNanos() : 0).max().orElse(0);
    }
}
