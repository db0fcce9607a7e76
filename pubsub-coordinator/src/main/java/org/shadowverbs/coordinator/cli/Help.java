// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.LinkedHashMap;
import java.util.Map;

/** What {@code help} prints. */
final class Help {
    private static final String COORDINATOR_FLAGS = """
              -h HOST   the coordinator's host (SHADOWVERBS_COORD_HOST; localhost)
              -p PORT   the coordinator's port (SHADOWVERBS_COORD_PORT; 7790)
            """;
    private static final Map<String, String> SUMMARIES = Map.ofEntries(
            Map.entry("launch", "runs a program so that its job can be checkpointed"),
            Map.entry("checkpoint", "saves the job; it runs on, or ends with --kill"),
            Map.entry("restart", "brings a job back from a checkpoint"),
            Map.entry("status", "which job runs, where, and what each rank does"),
            Map.entry("list", "the checkpoints of a directory, good or damaged"),
            Map.entry("kill", "ends the job's processes"),
            Map.entry("quit", "ends coordinator and agents"),
            Map.entry("coordinator", "runs the coordinator of a job"),
            Map.entry("agent", "runs the agent of this host"),
            Map.entry("doctor", "what this host can and cannot do, and the mend"),
            Map.entry("demo", "checkpoint, kill and restart, shown on the software HCA"),
            Map.entry("bench", "what the preload adds to each operation"));
    private static final Map<String, String> TEXTS = new LinkedHashMap<>();

    static {
        TEXTS.put("launch", """
                usage: shadowverbs launch [options] [--] PROGRAM ARG...
                Runs a program so that its job can be checkpointed; this process becomes the program. A coordinator and
                an agent are started when no coordinator is named and none runs at this host's default port.
                """ + COORDINATOR_FLAGS + """
                  -i SECONDS       checkpoint the job every so often
                  --ckptdir DIR    where checkpoints go (SHADOWVERBS_CKPTDIR; the current directory)
                  --keep N         how many checkpoints of the job are kept (2)
                  --backend NAME   hca, or ib2tcp: over TCP (hca; ib2tcp on a host without an RDMA device)
                  --test-fabric    put the software HCA's libibverbs.so.1 in front
                exit status: the program's; 126 it can't be executed, 127 not found
                """);
        TEXTS.put("checkpoint", """
                usage: shadowverbs checkpoint [-h HOST] [-p PORT] [--kill] [--json]
                Saves the job and blocks until the checkpoint is safe; prints its folder last. The job runs on.
                """ + COORDINATOR_FLAGS + """
                  --kill    end the job once the checkpoint is safe
                  --json    one object on standard output, the phases on standard error
                """);
        TEXTS.put("restart", """
                usage: shadowverbs restart [options] CKPTDIR
                Brings a job back from a checkpoint's folder, from a directory of checkpoints or from its "latest", and
                stays in the foreground until the job ends. INT, TERM and HUP are passed on to the job.
                """ + COORDINATOR_FLAGS + """
                  -i SECONDS       checkpoint the job every so often
                  --backend NAME   hca, or ib2tcp: over TCP, without an RDMA device (the one that the job had)
                  --hosts N        this is one of N hosts that share the job; restart is run on each, with the same
                                   -h and -p, and waits for the others
                  --from HOST,...  take over what ran on these hosts (what ran on this one, or is left)
                exit status: that of the job, or of this host's part of it
                """);
        TEXTS.put("status", """
                usage: shadowverbs status [-h HOST] [-p PORT] [--json]
                Says which job runs, on which hosts, and what each rank does.
                """ + COORDINATOR_FLAGS);
        TEXTS.put("list", """
                usage: shadowverbs list [-h HOST] [-p PORT] [--json] [DIR]
                Lists the checkpoints in DIR, or where the running job puts them: age, ranks, size, good or damaged.
                """ + COORDINATOR_FLAGS);
        TEXTS.put("kill", """
                usage: shadowverbs kill [-h HOST] [-p PORT] [--now] [--json]
                Ends the job's processes by SIGTERM, and after 10 seconds by SIGKILL; with --now at once.
                """ + COORDINATOR_FLAGS);
        TEXTS.put("quit", """
                usage: shadowverbs quit [-h HOST] [-p PORT] [--json]
                Ends the coordinator and its agents. The job's programs run on and can't be checkpointed any more.
                """ + COORDINATOR_FLAGS);
        TEXTS.put("coordinator", """
                usage: shadowverbs coordinator [options]
                Runs the coordinator of one job.
                  --port P          port to listen at, 0 for any free one (7790)
                  --port-file FILE  write the port there once it listens
                  --address ADDR    address to listen at (localhost); 0.0.0.0 for a job of several hosts
                  --daemon          in the background; returns when it is ready
                  --exit-on-last    end with the last program of the job
                  --ckptdir DIR     where checkpoints go (SHADOWVERBS_CKPTDIR; the current directory)
                  -i SECONDS        checkpoint the job every so often
                  --keep N          how many checkpoints of the job are kept (2)
                  --deadline S      how long a phase of a checkpoint may take (60)
                  --recover         go on with the job of a coordinator that was lost at this port
                SHADOWVERBS_SECRET must be the same for all of a job. A coordinator of one host makes one when it is not
                set, and the other commands of its user find it there.
                """);
        TEXTS.put("agent", """
                usage: shadowverbs agent [-h HOST] [-p PORT] [--daemon] [-- COMMAND...]
                Runs the agent of this host; launch does it by itself. COMMAND starts the coordinator when it is lost.
                """ + COORDINATOR_FLAGS);
        TEXTS.put("doctor", """
                usage: shadowverbs doctor [--json] [--ckptdir DIR]
                Says what this host can and cannot do, and the mend. Exit status 1 when checkpoints are not possible.
                """);
        TEXTS.put("demo", """
                usage: shadowverbs demo [--json]
                Shows checkpoint, kill and restart of verbs programs on the software HCA, and from there over TCP.
                """);
        TEXTS.put("bench", """
                usage: shadowverbs bench [--ib2tcp] [--json]
                Measures what the preload adds to each operation; with --ib2tcp verbs over TCP beside plain sockets
                (iperf3 for throughput) and UCX over TCP.
                """);
    }

    private Help() {
    }

    static String of(final String command) throws UsageException {
        final String text = TEXTS.get(command);
        if (text == null) {
            throw new UsageException("help: no such command: " + command);
        }
        return text;
    }

    static boolean knows(final String command) {
        return TEXTS.containsKey(command);
    }

    static String overview() {
        final StringBuilder b = new StringBuilder("""
                usage: shadowverbs COMMAND [options]
                Transparent checkpointing of InfiniBand verbs programs.
                """);
        TEXTS.keySet().forEach(command -> b.append(String.format("  %-12s %s%n", command, SUMMARIES.get(command))));
        return b.append("shadowverbs help COMMAND says more. Exit status: 0 done, 1 failed, 2 wrong usage.\n")
                .toString();
    }
}
