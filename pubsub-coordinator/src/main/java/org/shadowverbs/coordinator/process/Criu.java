// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.shadowverbs.coordinator.images.Cores;

/**
 * Process images made by CRIU.
 *
 * <p>It is taken from where SHADOWVERBS_CRIU says, else from the project's tools, else from PATH. For root it needs a control
 * group freezer. For an ordinary user it needs the job's processes in a user namespace of his.
 */
public final class Criu implements ProcessCheckpointer {
    /** The ways that are left to an ordinary user where the kernel or the site forbids user namespaces. */
    public static final String NO_NAMESPACES = "ask for user namespaces on this host (sysctl user.max_user_namespaces,"
            + " kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), or run the job as root";

    private static final Duration CHECK_TIMEOUT = Duration.ofSeconds(20);
    private static final Duration TRIAL_TIMEOUT = Duration.ofSeconds(30);
    private static final String BRING_ANOTHER = "run tools/setup.sh, or name one that runs on this kernel in SHADOWVERBS_CRIU";
    /** Descriptors of the first process of the namespace that programs are given start here. */
    private static final int FIRST_FD = 100;
    /** So many pids are left to what runs beside the restored processes: CRIU itself and its children. */
    private static final long OTHER_PIDS = 4096;

    private final Path mountInfo;
    private final Path named;
    private final CriuTools tools = new CriuTools();

    /** Makes one; nothing is looked up before it is used. */
    public Criu() {
        this(Path.of("/proc/self/mountinfo"));
    }

    /** Makes one that sees the freezers among these mounts only. */
    Criu(final Path mountInfo) {
        this(mountInfo, null);
    }

    /** Makes one that has images made by this CRIU; null: by the one that is found. */
    Criu(final Path mountInfo, final Path named) {
        this.mountInfo = mountInfo;
        this.named = named;
    }

    private Path criu() {
        return named != null ? named : CriuCommand.find();
    }

    @Override
    public Readiness check() {
        final List<Finding> findings = new ArrayList<>();
        final Path criu = criu();
        String version = "CRIU";
        if (criu == null) {
            findings.add(new Finding("CRIU", "is not there", BRING_ANOTHER));
        } else {
            version = version(criu);
            final String problem = trouble(criu);
            if (!problem.isEmpty()) {
                findings.add(new Finding(criu.toString(), problem, Rights.ordinary() ? NO_NAMESPACES : BRING_ANOTHER));
            }
        }
        if (CriuCommand.findRestoreInit() == null) {
            findings.add(new Finding("shadowverbs-restore-init", "is not there", "build the project again"));
        }
        String freezer = "none";
        try {
            final Freezer found = Freezer.find(mountInfo);
            if (Rights.ordinary()) {
                freezer = "CRIU itself";
            } else if (found == null) {
                findings.add(new Finding("freezer", "no control group freezer that may be used is mounted",
                        "mount -t cgroup2 none /sys/fs/cgroup, writable"));
            } else {
                freezer = found.description();
            }
        } catch (final IOException e) {
            findings.add(new Finding("freezer", e.getMessage(), ""));
        }
        return new Readiness(version, criu == null ? "" : criu.toString(), freezer, List.copyOf(findings));
    }

    /**
     * Has CRIU save a process that sleeps, and bring it back, which takes a second, and a minute where it hangs. For root, and after
     * {@link #check()} has found nothing.
     *
     * @return what is wrong; empty when nothing is
     */
    public List<Finding> tryOut() {
        final Path criu = criu();
        final String problem = CriuTrial.of(criu, TRIAL_TIMEOUT);
        return problem.isEmpty() ? List.of() : List.of(new Finding(criu.toString(), problem, BRING_ANOTHER));
    }

    private static String version(final Path criu) {
        try {
            return CriuCommand.run(List.of(criu.toString(), "--version"), CHECK_TIMEOUT).output().lines()
                    .filter(line -> line.startsWith("Version: "))
                    .map(line -> "CRIU " + line.substring("Version: ".length()).strip())
                    .findFirst()
                    .orElse("CRIU");
        } catch (final IOException e) {
            return "CRIU";
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            return "CRIU";
        }
    }

    private static String trouble(final Path criu) {
        try {
            // Its own check asks for more than an ordinary user's jobs need: to repair TCP connections, for one.
            final List<String> command = new ArrayList<>(Rights.ordinary() ? JobRoot.attempt() : List.of());
            command.addAll(List.of(criu.toString(), Rights.ordinary() ? "--version" : "check"));
            final CriuCommand.Result result = CriuCommand.run(command, CHECK_TIMEOUT);
            return result.status() == 0
                    ? ""
                    : "does not run here: " + CriuCommand.reason(Path.of("/nonexistent"), result.output());
        } catch (final IOException | CheckpointException e) {
            return "cannot be run: " + e.getMessage();
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            return "the check was interrupted";
        }
    }

    @Override
    public List<Finding> inspect(final FreezeRequest request, final Path directory) throws CheckpointException {
        final Path criu = criu();
        if (criu != null) {
            tools.askKernel(criu); // now, when nobody waits for it
        }
        final List<ProcessTree> trees = ProcessTree.of(request.roots());
        final String takingOver = JobRoot.takingOver(trees);
        if (!takingOver.isEmpty()) {
            throw new PassingStateException(takingOver);
        }
        final List<Finding> findings = new ArrayList<>(Sharing.of(trees, request).findings());
        try {
            final String space = directory == null ? "" : CriuFrozenTrees.lackOfSpace(trees, directory, 1);
            if (!space.isEmpty()) {
                findings.add(new Finding("this host", space, "choose another --ckptdir"));
            }
        } catch (final IOException e) {
            findings.add(new Finding(directory.toString(), "cannot be looked at: " + e.getMessage(), ""));
        }
        return findings;
    }

    @Override
    public TcpEnds connections(final FreezeRequest request) throws CheckpointException {
        return Sharing.of(ProcessTree.of(request.roots()), request).ends();
    }

    @Override
    public long preCopy(final FreezeRequest request, final Path imageDirectory, final ImagePlan plan) throws CheckpointException {
        final Path criu = criu();
        if (criu == null) {
            throw new CheckpointException(check().findings());
        }
        tools.askKernel(criu);
        try {
            return new PreCopy(tools, request, imageDirectory.toAbsolutePath(), plan).run();
        } catch (final IOException e) {
            throw new CheckpointException("copying to " + imageDirectory + ": " + e.getMessage(), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("copying to " + imageDirectory + ": interrupted", e);
        }
    }

    @Override
    public Preparation prepare(final FreezeRequest request, final Path imageDirectory, final ImagePlan plan) {
        final Path criu = criu();
        if (criu == null) {
            return Preparation.NOTHING; // The freezing says so.
        }
        try {
            return new CriuPreparation(criu, version(criu), Rights.ordinary() ? null : Freezer.find(mountInfo), request, tools,
                    imageDirectory, plan);
        } catch (final IOException | CheckpointException e) {
            return Preparation.NOTHING; // Whatever it is, the freezing comes upon it again, and says so.
        }
    }

    @Override
    public FrozenTrees freeze(final FreezeRequest request) throws CheckpointException {
        return freeze(request, Preparation.NOTHING);
    }

    @Override
    public FrozenTrees freeze(final FreezeRequest request, final Preparation preparation) throws CheckpointException {
        try (preparation) {
            return freeze(request, preparation instanceof CriuPreparation prepared ? prepared : null);
        }
    }

    private FrozenTrees freeze(final FreezeRequest request, final CriuPreparation prepared) throws CheckpointException {
        final Path criu = criu();
        if (criu == null) {
            throw new CheckpointException(check().findings());
        }
        try {
            // CRIU takes hold of the processes of an ordinary user by itself: few of those have a control group to freeze.
            final Freezer freezer = Rights.ordinary() ? null : prepared != null ? prepared.freezer() : Freezer.find(mountInfo);
            if (freezer == null && !Rights.ordinary()) {
                throw new CheckpointException(check().findings());
            }
            return CriuFrozenTrees.freeze(criu, prepared != null ? prepared.version() : version(criu), freezer, request, tools, prepared);
        } catch (final IOException e) {
            throw new CheckpointException("freezing: " + e.getMessage(), e);
        }
    }

    @Override
    public List<Finding> verify(final Path imageDirectory, final HostImages images) {
        return verify(imageDirectory, images, false, Progress.UNTOLD);
    }

    private static List<Finding> verify(final Path imageDirectory, final HostImages images, final boolean read, final Progress progress) {
        final List<Finding> findings = new ArrayList<>();
        try {
            final Set<String> missing = new TreeSet<>(images.cpuFlags());
            missing.removeAll(Host.cpuFlags());
            if (!missing.isEmpty()) {
                findings.add(new Finding("this host",
                        "its CPU lacks what the one of " + images.host() + " has: " + String.join(" ", missing),
                        "restart on a host with the same CPU"));
            }
        } catch (final IOException e) {
            findings.add(new Finding("this host", e.getMessage(), ""));
        }
        try (Cores cores = new Cores()) {
            for (final TreeImage tree : images.trees()) {
                if (!read) {
                    findings.addAll(tree.verify(imageDirectory, cores, progress));
                }
                findings.addAll(UserFiles.verify(tree));
            }
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            findings.add(new Finding("this host", "was interrupted while it checked the images", ""));
        }
        return findings;
    }

    @Override
    public RestoredTrees restore(final RestoreRequest request) throws CheckpointException {
        final long begun = System.nanoTime();
        final List<Finding> findings = verify(request.imageDirectory(), request.images(), request.verified(),
                request.progress());
        request.progress().read(System.nanoTime() - begun);
        final Path criu = criu();
        final Path helper = CriuCommand.findRestoreInit();
        if (criu == null || helper == null) {
            findings.addAll(check().findings());
        }
        if (!findings.isEmpty()) {
            throw new CheckpointException(findings);
        }
        Path errors = null;
        RestoreInit init = null;
        try {
            errors = Files.createTempFile("shadowverbs-restore-", ".err");
            init = new RestoreInit(helper, errors, Rights.ordinary());
            final CriuRestoredTrees restored = restore(criu, init, request);
            init = null;
            return restored;
        } catch (final IOException e) {
            throw new CheckpointException("restore: " + e.getMessage(), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("restore: interrupted", e);
        } finally {
            if (init != null) {
                init.close();
            }
            delete(errors);
        }
    }

    private static void delete(final Path file) {
        try {
            if (file != null) {
                Files.deleteIfExists(file);
            }
        } catch (final IOException e) {
            System.getLogger(Criu.class.getName()).log(System.Logger.Level.DEBUG, "{0}", e.getMessage());
        }
    }

    private static CriuRestoredTrees restore(
            final Path criu, final RestoreInit init, final RestoreRequest request)
            throws IOException, CheckpointException, InterruptedException {
        final Map<String, Integer> descriptors = new LinkedHashMap<>();
        for (final TreeImage tree : request.images().trees()) {
            for (final ProcessImage process : tree.processes()) {
                for (final ExternalDescriptor external : process.externals()) {
                    if (!external.resource().isEmpty() && !descriptors.containsKey(external.resource())) {
                        final int fd = FIRST_FD + descriptors.size();
                        descriptors.put(external.resource(), fd);
                        replace(init, request, tree, process, external, fd);
                    }
                }
            }
        }
        if (request.images().trees().stream().anyMatch(TreeImage::ownTerminals)) {
            init.send("devpts");
        }
        if (request.ownMemory()) {
            init.send("shm");
        }
        final long initPid = init.start(freePids(request.images()),
                new Stall(request.deadline(), () -> 0, request.progress()));
        for (final TreeImage tree : request.images().trees()) {
            UserFiles.putBack(tree, request.imageDirectory().resolve(tree.directory()), request.checkpointName(), initPid);
        }
        final String namespace = Proc.namespace(initPid, "pid");
        final List<Long> nanos = new CriuRestore(criu, init, request, descriptors,
                () -> new Stall(request.deadline(), () -> Proc.read(namespace), request.progress())).run();
        return new CriuRestoredTrees(init, initPid, request.images(), nanos);
    }

    private static void replace(
            final RestoreInit init,
            final RestoreRequest request,
            final TreeImage tree,
            final ProcessImage process,
            final ExternalDescriptor external,
            final int fd) throws IOException, CheckpointException {
        final String number = Integer.toString(fd);
        if (external.kind() == ExternalDescriptor.Kind.REPLACED_PIPE) {
            final Path path = request.pipes().get(external.inode());
            if (path == null) {
                throw new CheckpointException(
                        tree.name() + ": nothing was given in place of " + external.target() + ", descriptor "
                                + external.fd() + " of pid " + process.pid());
            }
            init.send("open", number, external.writable() ? "w" : "r", path.toString());
        } else if (external.kind() == ExternalDescriptor.Kind.TERMINAL) {
            init.send("terminal", number, request.streams().of(0, external.target()).toString(),
                    request.streams().of(1, external.target()).toString(), tree.shellJob() ? "1" : "0");
        } else if (!external.writable()) {
            init.send("open", number, "r", request.streams().of(0, external.target()).toString());
        } else {
            init.send("open", number, "w", request.streams().of(external.fd() == 2 ? 2 : 1, external.target()).toString());
        }
    }

    /** The largest pid below a run of pids that no thread of the images has. */
    private static long freePids(final HostImages images) throws IOException {
        final TreeSet<Long> used = new TreeSet<>(Set.of(1L));
        for (final TreeImage tree : images.trees()) {
            for (final ImageFile file : tree.files()) {
                if (file.name().startsWith("core-")) {
                    used.add(Long.parseLong(file.name().substring("core-".length(), file.name().indexOf('.'))));
                }
            }
        }
        // By one read of the whole: of a number below /proc/sys a second read has nothing, and readString begins with one byte.
        final long max = Long.parseLong(Files.readAllLines(Path.of("/proc/sys/kernel/pid_max")).getFirst().strip());
        if (used.last() + OTHER_PIDS < max) {
            return used.last();
        }
        for (final long pid : used) {
            final Long next = used.higher(pid);
            if (next != null && next - pid > OTHER_PIDS) {
                return pid;
            }
        }
        return max / 2;
    }
}
