// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.process.Criu;
import org.shadowverbs.coordinator.process.Finding;
import org.shadowverbs.coordinator.process.Readiness;
import org.shadowverbs.coordinator.process.Rights;
import org.shadowverbs.coordinator.server.Sizes;

/** {@code doctor}: what this host can and cannot do, and the mend. */
final class DoctorCommand extends CliCommand {
    private static final long LITTLE_SPACE = 1L << 30;
    private static final long LITTLE_MEMLOCK = 64L << 20;
    private static final int CAP_CHECKPOINT_RESTORE = 40;

    private final Map<String, String> environment;
    private final List<Check> checks = new ArrayList<>();
    private final Supplier<Boolean> json = json();
    private final Supplier<Path> ckptdir = checkpointDirectory();

    /** {@code level}: ok, warning (some programs suffer), or problem (no checkpoint or restart is possible). */
    record Check(String subject, String level, String found, String mend) {
    }

    DoctorCommand(final Map<String, String> environment) {
        super("says what this host can and cannot do, and the mend", "Exit status 1 when checkpoints are not possible.");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        rights();
        processImages();
        jdk();
        verbs();
        security();
        memoryLock();
        scheduler();
        space(CheckpointDirectory.of(ckptdir.get(), environment));
        final boolean able = checks.stream().noneMatch(c -> c.level().equals("problem"));
        if (json.get()) {
            json(able);
        } else {
            for (final Check c : checks) {
                System.out.println(String.format("%-8s %-14s %s%s", c.level(), c.subject(), c.found(),
                        c.mend().isEmpty() ? "" : "; mend: " + c.mend()));
            }
            System.out.println(able ? "this host can checkpoint and restart" : "this host can't checkpoint or restart");
        }
        return able ? 0 : 1;
    }

    private void json(final boolean able) throws CommandException {
        final Map<String, Object> o = new LinkedHashMap<>();
        o.put("schema", 1);
        o.put("command", "doctor");
        o.put("ok", able);
        o.put("checks", checks);
        try {
            System.out.println(new ObjectMapper().writeValueAsString(o));
        } catch (IOException e) {
            throw new CommandException("doctor: " + e.getMessage());
        }
    }

    private void add(final String subject, final boolean fine, final String bad, final String found,
            final String mend) {
        checks.add(new Check(subject, fine ? "ok" : bad, found, fine ? "" : mend));
    }

    private void rights() {
        final String line = status("CapEff:");
        final long capabilities = line.isEmpty() ? 0 : Long.parseUnsignedLong(line, 16);
        final boolean able = (capabilities >>> CAP_CHECKPOINT_RESTORE & 1) == 1 || "0".equals(status("Uid:"));
        checks.add(new Check("rights", "ok", able ? "root, or CAP_CHECKPOINT_RESTORE" : "an ordinary user: jobs run in a user"
                + " namespace; open TCP connections and System V memory can't be saved", ""));
    }

    private static String status(final String field) {
        try {
            for (final String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith(field)) {
                    return line.substring(field.length()).strip().split("\\s+")[0];
                }
            }
        } catch (IOException e) {
            return "";
        }
        return "";
    }

    private void processImages() {
        final Criu criu = new Criu();
        final Readiness readiness = criu.check();
        final List<Finding> findings = new ArrayList<>(readiness.findings());
        if (readiness.ready()) {
            final boolean tried = !Rights.ordinary();
            findings.addAll(tried ? criu.tryOut() : List.of());
            if (findings.isEmpty()) {
                add("criu", true, "", readiness.implementation() + " at " + readiness.path() + (tried
                        ? "; it has saved a process and brought it back" : "; an ordinary user can't try it out here"), "");
            }
            add("freezer", true, "", readiness.freezer(), "");
        }
        for (final Finding finding : findings) {
            checks.add(new Check("criu", "problem", finding.subject() + ": " + finding.problem(), finding.mend()));
        }
        add("kernel", true, "", read("/proc/sys/kernel/osrelease"), "");
        add("cpu", true, "", cpu() + "; a restart needs a CPU with all the flags of this one", "");
    }

    private static String cpu() {
        try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"))) {
            return lines.filter(l -> l.startsWith("model name")).map(l -> l.replaceFirst(".*?:\\s*", "")).findFirst()
                    .orElse("unknown");
        } catch (IOException e) {
            return "unknown";
        }
    }

    private void jdk() {
        final int feature = Runtime.version().feature();
        add("jdk", feature >= 25, "problem", Runtime.version() + " at " + System.getProperty("java.home"),
                "install a JDK 25 and build again");
        for (final String library : List.of("lib/server/libjvm.so", "lib/libjsig.so")) {
            final Path file = Path.of(System.getProperty("java.home"), library);
            add("jdk", Files.exists(file), "problem", file.toString(), "install a complete JDK");
        }
    }

    private void verbs() {
        final Path library = Stream.of("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")
                .map(d -> Path.of(d, "libibverbs.so.1")).filter(Files::exists).findFirst().orElse(null);
        add("libibverbs", library != null, "warning", library == null ? "not installed" : library.toString(),
                "apt-get install libibverbs1");
        final List<String> devices = new ArrayList<>();
        final Path all = Path.of("/sys/class/infiniband");
        if (Files.isDirectory(all)) {
            try (Stream<Path> entries = Files.list(all)) {
                entries.forEach(d -> devices.add(d.getFileName().toString()));
            } catch (IOException e) {
                devices.clear();
            }
        }
        add("devices", !devices.isEmpty(), "warning", devices.isEmpty() ? "no RDMA device"
                : String.join(", ", devices), "load the driver of the HCA; without, launch runs programs over TCP");
    }

    private void security() {
        final String yama = read("/proc/sys/kernel/yama/ptrace_scope");
        if (!yama.isEmpty()) {
            add("yama", !yama.equals("3"), "problem", "ptrace_scope " + yama,
                    "3 forbids ptrace even to root, until the next boot: boot with kernel.yama.ptrace_scope below 3");
        }
        final String apparmor = read("/proc/self/attr/current");
        final boolean confined = apparmor.endsWith("(enforce)");
        add("apparmor", !confined, "warning", apparmor.isEmpty() ? "not in use" : apparmor,
                "processes are confined: run outside the profile, or allow ptrace in it");
    }

    private void memoryLock() {
        try {
            for (final String line : Files.readAllLines(Path.of("/proc/self/limits"))) {
                if (line.startsWith("Max locked memory")) {
                    final String soft = line.substring(17).strip().split("\\s+")[0];
                    final boolean much = soft.equals("unlimited") || Long.parseLong(soft) >= LITTLE_MEMLOCK;
                    add("ulimit -l", much, "warning", soft.equals("unlimited") ? soft
                            : Sizes.bytes(Long.parseLong(soft)), "memory registration is bounded by it: ulimit -l"
                            + " unlimited, or memlock in /etc/security/limits.conf");
                }
            }
        } catch (IOException e) {
            add("ulimit -l", false, "warning", "/proc/self/limits can't be read", "mount /proc");
        }
    }

    /**
     * Where each session is scheduled as a group, Linux 6.18 lets a thread that sleeps for less than a turn, next to one that
     * spins, keep the threads of other sessions (the agent and the coordinator among them) waiting for seconds.
     */
    private void scheduler() {
        final Matcher version = Pattern.compile("(\\d+)\\.(\\d+).*").matcher(read("/proc/sys/kernel/osrelease"));
        final boolean recent = version.matches()
                && Integer.parseInt(version.group(1)) * 1000 + Integer.parseInt(version.group(2)) >= 6018;
        final String groups = read("/proc/sys/kernel/sched_autogroup_enabled");
        add("scheduler", !recent || !groups.equals("1"), "warning",
                groups.equals("1") ? "sessions are groups (autogroup)" : "sessions are not groups",
                "programs that spin and sleep in turns may hold up a checkpoint for seconds:"
                        + " sysctl kernel.sched_autogroup_enabled=0");
    }

    private void space(final Path directory) {
        Path existing = directory;
        while (!Files.exists(existing)) {
            existing = existing.getParent();
        }
        try {
            final long free = Files.getFileStore(existing).getUsableSpace();
            add("space", free >= LITTLE_SPACE, "warning", Sizes.bytes(free) + " for " + directory,
                    "an image is as large as the memory that the job uses: choose another --ckptdir");
            add("ckptdir", Files.isWritable(existing), "problem", existing.toString(), "choose a writable --ckptdir");
        } catch (IOException e) {
            add("space", false, "warning", directory + ": " + e.getMessage(), "choose another --ckptdir");
        }
    }

    private static String read(final String file) {
        try {
            return Files.readString(Path.of(file)).strip();
        } catch (IOException e) {
            return "";
        }
    }
}
