// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.Command;
import org.shadowverbs.coordinator.protocol.HostMessages.Line;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;

/** A user's command: lines while it runs, then a result as text and as JSON. */
final class CommandSession {
    /** Version of the JSON objects that commands print. */
    static final int JSON_SCHEMA = 1;

    private static final int SIGTERM = 15;
    private static final int SIGKILL = 9;
    private static final double HOUR = 3600;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Coordinator coordinator;
    private final Job job;
    private final FrameChannel channel;

    CommandSession(final Coordinator coordinator, final FrameChannel channel) {
        this.coordinator = coordinator;
        this.job = coordinator.job();
        this.channel = channel;
    }

    void serve(final Command command) throws IOException {
        try {
            switch (command.name()) {
                case "checkpoint" -> {
                    if (Boolean.parseBoolean(command.arguments().get("check"))) {
                        check();
                    } else {
                        checkpoint(Boolean.parseBoolean(command.arguments().get("kill")),
                                Boolean.parseBoolean(command.arguments().get("detached")),
                                Boolean.parseBoolean(command.arguments().get("pre-copy")));
                    }
                }
                case "status" -> status();
                case "kill" -> kill(Boolean.parseBoolean(command.arguments().get("now")));
                case "quit" -> quit();
                case "ping" -> ping();
                default -> channel.write(new Result(2, "no such command: " + command.name(), "{}"));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException e) {
            job.log().add(command.name() + " failed: " + e.getCause());
            channel.write(new Result(1, command.name() + " failed: " + e.getCause(), object(command.name(), false)));
        } catch (java.util.concurrent.RejectedExecutionException e) {
            channel.write(new Result(1, "the coordinator is ending", object(command.name(), false)));
        }
    }

    private void ping() throws IOException {
        final Map<String, Object> json = job.locked(() -> ordered("schema", JSON_SCHEMA, "command", "ping", "ok", true, "recover",
                coordinator.recovery().options().times(), "programs", job.agents().stream().mapToInt(a -> a.trees.size()).sum()));
        channel.write(new Result(0, job.name(), JSON.writeValueAsString(json)));
    }

    private void checkpoint(final boolean kill, final boolean detached, final boolean preCopy)
            throws IOException, InterruptedException, ExecutionException {
        final CheckpointRun.Outcome o = coordinator.conductor().submit(
                () -> coordinator.checkpoint(kill, detached, preCopy, this::line)).get();
        final boolean ok = o.folder() != null && o.problem().isEmpty();
        final Map<String, Object> json = new LinkedHashMap<>();
        json.put("schema", JSON_SCHEMA);
        json.put("command", "checkpoint");
        json.put("ok", ok);
        json.put("job", job.name());
        json.put("epoch", o.epoch());
        json.put("folder", o.folder() == null ? null : o.folder().toString());
        json.put("ranks", o.ranks());
        json.put("image_bytes", o.bytes());
        json.put("drain_rounds", o.rounds());
        json.put("attached", o.attached());
        json.put("queue_pairs_reset", o.resets());
        json.put("checkpoint_ms", o.totalNanos() / 1e6);
        json.put("stopped_ms", o.stoppedNanos() == 0 ? null : o.stoppedNanos() / 1e6);
        json.put("drain_ms", o.phaseNanos().getOrDefault("DRAIN", 0L) / 1e6);
        final Map<String, Object> phases = new LinkedHashMap<>();
        o.phaseNanos().forEach((phase, nanos) -> phases.put(phase.toLowerCase(Locale.ROOT), nanos / 1e6));
        json.put("phase_ms", phases);
        json.put("problem", o.problem().isEmpty() ? null : o.problem());
        json.put("late", o.late());
        if (o.folder() != null && o.ranks() == 0) {
            line("the checkpoint has 0 ranks: no process of the job uses verbs, or none has used them yet");
        }
        final String text;
        if (o.folder() == null) {
            text = "checkpoint failed: " + o.problem();
        } else if (ok) {
            text = o.folder().toString();
        } else {
            line("the checkpoint is safe, but: " + o.problem());
            text = o.folder().toString();
        }
        channel.write(new Result(ok ? 0 : 1, text, JSON.writeValueAsString(json)));
    }

    private void check() throws IOException, InterruptedException, ExecutionException {
        final Inspection.Answer answer = coordinator.inspections().ask();
        final Map<String, Object> json = ordered("schema", JSON_SCHEMA, "command", "checkpoint", "ok", answer.possible(), "job",
                job.name(), "check", check(answer));
        channel.write(new Result(answer.possible() ? 0 : 1, answer.possible() ? "a checkpoint can be made now"
                : String.join("\n", answer.all()), JSON.writeValueAsString(json)));
    }

    private static Map<String, Object> check(final Inspection.Answer answer) {
        return ordered("possible", answer.possible(), "at", answer.at().toString(), "reasons", answer.all());
    }

    private void line(final String text) {
        try {
            channel.write(new Line(text));
        } catch (IOException e) {
            channel.close(); // the user has gone away; the checkpoint goes on
        }
    }

    private void status() throws IOException {
        final List<String> lines = new ArrayList<>();
        final PeriodicCheckpoints.Plan plan = coordinator.periodic().plan();
        final String store = job.keeper().store();
        final Map<String, Object> json = job.locked(() -> {
            final Map<String, Object> o = new LinkedHashMap<>();
            o.put("schema", JSON_SCHEMA);
            o.put("command", "status");
            o.put("ok", true);
            o.put("job", job.name());
            o.put("epoch", job.epoch().number());
            o.put("port", coordinator.port());
            o.put("pid", ProcessHandle.current().pid());
            o.put("stage", job.epoch().stage().toString());
            o.put("ckptdir", job.setting("ckptdir", coordinator.options().checkpointDirectory().toString()));
            o.put("restart_problem", job.restartProblem().isEmpty() ? null : job.restartProblem());
            lines.add("job " + job.name() + "  epoch " + job.epoch().number() + "  port " + coordinator.port() + "  pid "
                    + ProcessHandle.current().pid() + "  "
                    + job.epoch().stage() + "  checkpoints in " + o.get("ckptdir"));
            o.put("store", store.isEmpty() ? null : store);
            if (!store.isEmpty()) {
                lines.add("store " + store);
            }
            final List<Object> agents = new ArrayList<>();
            for (final AgentSession agent : job.agents()) {
                final List<Object> trees = new ArrayList<>();
                agent.trees.values().forEach(t -> trees.add(ordered("pid", t.hostPid(), "argv", t.argv(), "cwd",
                        t.cwd())));
                agents.add(ordered("host", agent.host(), "pid", agent.pid(), "spare", agent.spare(), "programs", trees));
                lines.add("agent on host " + agent.host() + "  pid " + agent.pid() + "  " + agent.trees.size()
                        + (agent.trees.size() == 1 ? " program" : " programs") + (agent.spare() ? "  spare" : ""));
                agent.trees.values().forEach(t -> lines.add("  pid " + t.hostPid() + "  " + String.join(" ",
                        t.argv())));
            }
            final List<Object> ranks = new ArrayList<>();
            for (final Rank rank : job.ranks()) {
                ranks.add(ordered("rank", rank.number, "host", rank.agent.host(), "pid", rank.hostPid, "program",
                        rank.program, "state", rank.state.name().toLowerCase(Locale.ROOT), "waiting_for",
                        rank.waitingFor));
                lines.add("rank " + rank.number + "  host " + rank.agent.host() + "  pid " + rank.hostPid + "  "
                        + rank.state.name().toLowerCase(Locale.ROOT) + "  " + rank.program
                        + (rank.waitingFor.isEmpty() ? "" : "  waiting for " + rank.waitingFor));
            }
            final Inspection.Answer last = coordinator.inspections().last();
            o.put("check", last == null ? null : check(last));
            if (last != null && last.possible()) {
                lines.add("a checkpoint could be made at " + last.at());
            } else if (last != null) {
                last.all().forEach(reason -> lines.add("no checkpoint could be made at " + last.at() + ": " + reason));
            }
            o.put("interval", interval(plan));
            if (plan.period() != null) {
                lines.add(text(plan));
            }
            o.put("copies", job.copies().underWay());
            lines.addAll(job.copies().underWay());
            o.put("recover", recover());
            o.put("recovering", coordinator.recovery().isUnderWay());
            if (coordinator.recovery().options().asked()) {
                lines.add(coordinator.recovery().toString());
            }
            if (!job.restartProblem().isEmpty()) {
                lines.add("the restart: " + job.restartProblem());
            }
            o.put("agents", agents);
            o.put("ranks", ranks);
            return o;
        });
        channel.write(new Result(0, String.join("\n", lines), JSON.writeValueAsString(json)));
    }

    /** Null when none are made. */
    private Map<String, Object> interval(final PeriodicCheckpoints.Plan plan) {
        return plan.period() == null ? null : ordered("automatic", plan.interval().automatic(), "seconds", plan.period().toNanos() / 1e9,
                "cost_seconds", plan.cost() == null ? null : plan.cost().toNanos() / 1e9,
                "mtbf_hours", plan.mtbf().toSeconds() / HOUR, "mtbf_given", plan.interval().mtbf().isPositive(),
                "failures", job.history().failures(), "ran_hours", job.history().ran().toSeconds() / HOUR);
    }

    private String text(final PeriodicCheckpoints.Plan plan) {
        final String every = String.format(Locale.ROOT, "a checkpoint every %.0f s", plan.period().toNanos() / 1e9);
        if (!plan.interval().automatic()) {
            return every;
        }
        if (plan.cost() == null) {
            return String.format(Locale.ROOT, "the first checkpoint after %.0f s, to learn what it costs", plan.period().toNanos() / 1e9);
        }
        final int failures = job.history().failures();
        return every + ": it stops the programs for " + Sizes.seconds(plan.cost().toNanos())
                + String.format(Locale.ROOT, ", and a failure is expected every %.1f h (", plan.mtbf().toSeconds() / HOUR)
                + (plan.interval().mtbf().isPositive() ? "given)" : String.format(Locale.ROOT, "%d seen in %.1f h)", failures,
                        job.history().ran().toSeconds() / HOUR));
    }

    /** Null when the job does not heal itself. */
    private Map<String, Object> recover() {
        final RecoveryOptions options = coordinator.recovery().options();
        return options.asked() ? ordered("times", options.times(), "hang_after_seconds",
                options.hangAfterSeconds() == 0 ? null : options.hangAfterSeconds(), "lost_after_seconds", options.lostAfterMillis() / 1e3)
                : null;
    }

    /** Keys and values in turn. */
    private static Map<String, Object> ordered(final Object... keysAndValues) {
        final Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            map.put((String) keysAndValues[i], keysAndValues[i + 1]);
        }
        return map;
    }

    private void kill(final boolean now) throws IOException {
        coordinator.terminate(now ? SIGKILL : SIGTERM);
        try {
            job.epoch().await(() -> job.ranks().isEmpty() && job.agents().stream().allMatch(a -> a.trees.isEmpty()),
                    java.time.Duration.ofSeconds(now ? 15 : 20), () -> "some process of the job still runs");
            channel.write(new Result(0, "the job's processes have ended", object("kill", true)));
        } catch (Stopped e) {
            channel.write(new Result(1, e.getMessage(), object("kill", false)));
        }
    }

    private void quit() throws IOException {
        coordinator.awaitCopies();
        coordinator.awaitStore(); // what is left then takes no time
        channel.write(new Result(0, "coordinator and agents end", object("quit", true)));
        coordinator.quit("quit was asked for");
    }

    private static String object(final String command, final boolean ok) {
        return "{\"schema\":" + JSON_SCHEMA + ",\"command\":\"" + command + "\",\"ok\":" + ok + "}";
    }
}
