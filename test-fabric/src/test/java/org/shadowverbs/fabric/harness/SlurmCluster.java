// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Debian's Slurm on two nodes, with four processors each. The controller is on the first. */
public final class SlurmCluster extends TwoNodes {
    private SlurmCluster(final Map<String, String> more) throws IOException {
        super(more);
        environment("SLURM_CONF", work().resolve("slurm.conf").toString());
    }

    /** Skips the test where network namespaces cannot be made. {@code more} is added to the environment of all. */
    public static SlurmCluster start(final Map<String, String> more) throws IOException, InterruptedException {
        final SlurmCluster cluster = new SlurmCluster(more);
        try {
            cluster.startSlurm();
            return cluster;
        } catch (IOException | InterruptedException | RuntimeException e) {
            cluster.close();
            throw e;
        }
    }

    private void startSlurm() throws IOException, InterruptedException {
        boot();
        configure();
        final byte[] key = new byte[1024];
        new SecureRandom().nextBytes(key);
        Files.write(Files.createFile(work().resolve("munge.key"), PosixFilePermissions.asFileAttribute(
                PosixFilePermissions.fromString("rw-------"))), key);
        final Running munge = start("munged", List.of("munged", "--foreground", "--force", "--key-file=" + work().resolve("munge.key"),
                "--socket=" + work().resolve("munge.socket"), "--pid-file=" + work().resolve("munge.pid"),
                "--log-file=" + work().resolve("munge.log"), "--seed-file=" + work().resolve("munge.seed")));
        await("munge's socket", () -> Files.exists(work().resolve("munge.socket")), munge);
        final List<Running> daemons = new ArrayList<>(List.of(run(0, "slurmctld", "-D")));
        for (int node = 0; node < 2; node++) {
            daemons.add(run(node, "slurmd", "-D", "-N", name(node)));
        }
        await("two idle nodes", () -> states().equals("idle idle"), daemons.toArray(Running[]::new));
    }

    private void configure() throws IOException {
        Files.createDirectory(work().resolve("state"));
        final StringBuilder text = new StringBuilder();
        for (int node = 0; node < 2; node++) {
            Files.createDirectory(work().resolve("spool-" + name(node)));
            text.append("NodeName=%s NodeAddr=%s CPUs=4\n".formatted(name(node), address(node)));
        }
        Files.writeString(work().resolve("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n");
        Files.writeString(work().resolve("slurm.conf"), """
                ClusterName=test
                SlurmctldHost=%2$s
                SlurmUser=root
                SlurmdUser=root
                AuthInfo=socket=%1$s/munge.socket,cred_expire=5
                StateSaveLocation=%1$s/state
                SlurmctldPidFile=%1$s/slurmctld.pid
                SlurmdPidFile=%1$s/slurmd-%%n.pid
                SlurmdSpoolDir=%1$s/spool-%%n
                SlurmdParameters=config_overrides
                ProctrackType=proctrack/linuxproc
                TaskPlugin=task/none
                JobAcctGatherType=jobacct_gather/none
                SelectType=select/cons_tres
                SelectTypeParameters=CR_CPU
                ReturnToService=2
                KillWait=5
                MpiDefault=pmi2
                PartitionName=all Nodes=ALL Default=YES State=UP
                """.formatted(work(), name(0)) + text);
    }

    /** The states of its nodes, as sinfo has them. */
    private String states() {
        try {
            return succeed(0, "sinfo", "-h", "-N", "-o", "%T").strip().replace('\n', ' ');
        } catch (IOException e) {
            return ""; // the controller does not answer yet
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "";
        }
    }
}
