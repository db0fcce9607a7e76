// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What trees share with each other and with processes outside the job, and what of a tree an image cannot hold.
 *
 * <p>Images of different trees are made and restored separately, so what two trees share would silently be split.
 */
final class Sharing {
    /** Deleted files up to this size are held in the image; what {@code --ghost-limit} is given. */
    static final long GHOST_LIMIT = 64L << 20;

    /** With which the name of a verbs device's file begins, as {@code native/src/base/device_path.h} has it. */
    private static final String VERBS_DEVICE = "uverbs";
    private static final String CLOSE = "close it before the checkpoint";
    private static final String LAUNCH_THE_LAUNCHER = "launch the launcher: shadowverbs launch mpirun ./program";
    /** Commands, at most 15 bytes of each. */
    private static final Set<String> LAUNCHERS =
            Set.of("mpirun", "mpiexec", "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra", "hydra_pmi_proxy", "mpirun.openmpi",
                    "orterun", "orted", "prterun", "prted");
    private static final Set<String> DEVICES = Set.of(
            "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx", "/dev/kmsg");
    /** What the master of a pseudo terminal is opened by. */
    private static final Set<String> MULTIPLEXERS = Set.of("/dev/ptmx", "/dev/pts/ptmx");
    private static final Set<String> ANONYMOUS = Set.of(
            "[eventfd]", "[eventpoll]", "[signalfd]", "[timerfd]", "inotify", "[fanotify]", "[pidfd]");

    private final List<ProcessTree> trees;
    private final FreezeRequest request;
    private final List<Finding> findings = new ArrayList<>();
    private final List<Finding> passing = new ArrayList<>();
    /** Members and the tree of each, by host pid. */
    private final Map<Long, ProcessTree> treeOf = new HashMap<>();
    private final Map<Long, List<ExternalDescriptor>> externals = new LinkedHashMap<>();
    private final Map<ProcessTree, List<TcpConnection>> connections = new HashMap<>();
    private final Map<ProcessTree, List<TcpListener>> listeners = new HashMap<>();
    private final List<TcpEnd> leaving = new ArrayList<>();
    private final List<TcpHold.Socket> connected = new ArrayList<>();
    private final List<TcpHold.Socket> listening = new ArrayList<>();
    private final List<TcpHold.Socket> receiving = new ArrayList<>();
    private final List<TcpConnection> leftOver = new ArrayList<>();
    private final Map<Long, List<Holder>> holders = new LinkedHashMap<>();
    /** The pseudo terminals whose masters a tree holds. */
    private final Map<ProcessTree, Set<Integer>> masters = new HashMap<>();
    /** Null: nothing of the job listens. */
    private Backlog backlog;
    /** Null: to be looked at when it is first needed. */
    private OutsideWorld outside;

    private record Holder(ProcessTree tree, ProcessTree.Member member, Proc.Descriptor descriptor) {
        boolean stdio() {
            return descriptor.fd() <= 2;
        }
    }

    private Sharing(final List<ProcessTree> trees, final FreezeRequest request, final OutsideWorld outside) {
        this.trees = trees;
        this.request = request;
        this.outside = outside;
    }

    static Sharing of(final List<ProcessTree> trees, final FreezeRequest request) throws CheckpointException {
        return of(trees, request, null);
    }

    /** @param outside as it was before; null: it is looked at now, if need be */
    static Sharing of(final List<ProcessTree> trees, final FreezeRequest request, final OutsideWorld outside)
            throws CheckpointException {
        final Sharing sharing = new Sharing(trees, request, outside);
        try {
            if (outside != null) {
                outside.lookAgain();
            }
            sharing.collect();
            sharing.mappings();
            sharing.pipes();
            sharing.sockets();
            return sharing;
        } catch (final IOException e) {
            throw new CheckpointException("reading /proc: " + e.getMessage(), e);
        }
    }

    List<Finding> findings() {
        return findings;
    }

    /** What stands in the way as well, and will not for long. */
    List<Finding> passing() {
        return passing;
    }

    List<ExternalDescriptor> externals(final long hostPid) {
        return externals.getOrDefault(hostPid, List.of());
    }

    List<TcpConnection> connections(final ProcessTree tree) {
        return List.copyOf(connections.getOrDefault(tree, List.of()));
    }

    List<TcpListener> listeners(final ProcessTree tree) {
        return List.copyOf(listeners.getOrDefault(tree, List.of()));
    }

    /** The sockets of those TCP connections whose other ends no process has any more, or that may be so on another host. */
    List<TcpHold.Socket> receiving() {
        return receiving;
    }

    /** Ends on this host that were closed by a process of the job's connections, and still have something to send. */
    List<TcpConnection> leftOver() {
        return leftOver;
    }

    /** Whether connections have come to the job's listeners that nobody has accepted yet. */
    boolean unaccepted() {
        return backlog != null && !(backlog.waiting().isEmpty() && backlog.fromElsewhere().isEmpty());
    }

    /** The sockets of all TCP connections. */
    List<TcpHold.Socket> connected() {
        return connected;
    }

    private void collect() throws IOException {
        for (final ProcessTree tree : trees) {
            if (tree.top().ownPid() == 1) {
                refuse(tree.subject(tree.members().getFirst()), "is the first process of a pid namespace",
                        "start the job from a shell in the container");
            }
            masters.put(tree, masters(tree));
            for (final ProcessTree.Member member : tree.members()) {
                treeOf.put(member.ids().pid(), tree);
                if (!member.ids().ended() && member.ids().ownSession() == 0) {
                    refuse(tree.subject(member), "is in a session that is led from outside of its pid namespace",
                            "start it by setsid");
                }
                for (final Proc.Descriptor descriptor : member.descriptors()) {
                    if (descriptor.inode() != 0) {
                        holders.computeIfAbsent(descriptor.inode(), inode -> new ArrayList<>())
                                .add(new Holder(tree, member, descriptor));
                    } else {
                        unlessEnded(tree, member, descriptor);
                    }
                }
            }
        }
    }

    /** Of a process that has ended meanwhile, as children of shells do all the time, a descriptor is gone or nobody's to look at. */
    private void unlessEnded(final ProcessTree tree, final ProcessTree.Member member, final Proc.Descriptor descriptor)
            throws IOException {
        try {
            descriptor(tree, member, descriptor);
        } catch (final IOException e) {
            if (!Proc.ended(member.ids().pid())) {
                throw e;
            }
        }
    }

    private static Set<Integer> masters(final ProcessTree tree) throws IOException {
        final Set<Integer> indices = new HashSet<>();
        for (final ProcessTree.Member member : tree.members()) {
            for (final Proc.Descriptor descriptor : member.descriptors()) {
                if (MULTIPLEXERS.contains(descriptor.target())) {
                    indices.add(Proc.terminalIndex(member.ids().pid(), descriptor.fd()));
                }
            }
        }
        return indices;
    }

    /** Whether it is a pseudo terminal that a process of the same tree has made, as mpirun does for its ranks. */
    private boolean ownTerminal(
            final ProcessTree tree, final ProcessTree.Member member, final String target, final Path link)
            throws IOException {
        if (!target.matches("/dev/pts/[0-9]{1,9}")
                || !masters.get(tree).contains(Integer.parseInt(target.substring("/dev/pts/".length())))) {
            return false;
        }
        // A restored tree has a /dev/pts of its own, and may have a terminal of the host's besides.
        final Path mounted = Proc.path(member.ids().pid(), "root").resolve("dev/pts");
        return Files.getAttribute(link, "unix:dev").equals(Files.getAttribute(mounted, "unix:dev"));
    }

    private void descriptor(
            final ProcessTree tree, final ProcessTree.Member member, final Proc.Descriptor descriptor)
            throws IOException {
        final String target = descriptor.target();
        final Path link = Proc.path(member.ids().pid(), "fd").resolve(Integer.toString(descriptor.fd()));
        if (target.startsWith("anon_inode:")) {
            final String kind = target.substring("anon_inode:".length());
            if (!ANONYMOUS.contains(kind) && !(hasDevices(member) && kind.startsWith("[infiniband"))) {
                refuse(subject(tree, member, descriptor), kind + " cannot be saved", "close it before the checkpoint");
            }
        } else if (MULTIPLEXERS.contains(target) && descriptor.fd() > 2) {
            return;
        } else if (target.startsWith("/dev/pts/") || target.equals("/dev/tty")) {
            external(member, descriptor, ExternalDescriptor.Kind.TERMINAL,
                    ownTerminal(tree, member, target, link) ? "" : terminalResource(link));
        } else if (DEVICES.contains(target)) {
            stdio(member, descriptor, ExternalDescriptor.Kind.DEVICE);
        } else if (target.startsWith("/memfd:")) {
            return;
        } else if (target.startsWith("/")) {
            file(tree, member, descriptor, link);
        }
    }

    private void file(
            final ProcessTree tree, final ProcessTree.Member member, final Proc.Descriptor descriptor, final Path link)
            throws IOException {
        final Map<String, Object> attributes;
        try {
            attributes = Files.readAttributes(link, "unix:mode,nlink,size,ino");
        } catch (final java.nio.file.NoSuchFileException e) {
            return; // Closed meanwhile; it is looked at again when it stands still.
        }
        final int type = (int) attributes.get("mode") & 0170000;
        if (hasDevices(member) && isVerbsDevice(descriptor.target())) {
            return;
        } else if (type == 0020000 || type == 0060000) {
            refuse(subject(tree, member, descriptor), "the device " + descriptor.target() + " cannot be saved",
                    "close it before the checkpoint");
        } else if (type == 0100000) {
            if (descriptor.target().endsWith(Proc.DELETED)) {
                deleted(subject(tree, member, descriptor), descriptor.target(), (int) attributes.get("nlink"),
                        (long) attributes.get("size"));
            }
            stdio(member, descriptor, ExternalDescriptor.Kind.FILE);
        } else if (type == 0010000 && request.replacedPipes().contains((long) attributes.get("ino"))) {
            // CRIU's images name files without the leading slash.
            external(member, descriptor, ExternalDescriptor.Kind.REPLACED_PIPE, descriptor.target().substring(1),
                    (long) attributes.get("ino"));
        } else {
            stdio(member, descriptor, ExternalDescriptor.Kind.OTHER);
        }
    }

    private void deleted(final String subject, final String target, final int links, final long size) {
        final String name = target.substring(0, target.length() - Proc.DELETED.length());
        if (links > 0) {
            refuse(subject, name + " was deleted but has another name", "keep the name that it was opened by");
        } else if (size > GHOST_LIMIT) {
            refuse(subject, name + " was deleted and is larger than " + (GHOST_LIMIT >> 20) + " MiB",
                    "keep its name, or make it smaller");
        }
    }

    private void mappings() throws IOException {
        final Map<String, Holder> first = new HashMap<>();
        for (final ProcessTree tree : trees) {
            for (final ProcessTree.Member member : tree.members()) {
                final Set<String> seen = new HashSet<>();
                for (final Proc.Mapping mapping : member.mappings()) {
                    if (seen.add(mapping.key())) {
                        mapping(tree, member, mapping, first);
                    }
                }
            }
        }
        if (!first.isEmpty()) {
            mappedOutside(first);
        }
    }

    private void mapping(
            final ProcessTree tree,
            final ProcessTree.Member member,
            final Proc.Mapping mapping,
            final Map<String, Holder> first) {
        final String name = mapping.name();
        if (name.startsWith("/SYSV") && tree.ownIpc()) {
            return; // It is saved with the namespace that it is in.
        } else if (name.startsWith("/SYSV")) {
            refuse(tree.subject(member), "System V shared memory " + name + " cannot be saved",
                    "use POSIX shared memory or a shared mapping");
        } else if (isVerbsDevice(name) && hasDevices(member)) {
            return;
        } else if (name.startsWith("/dev/") && !name.startsWith("/dev/shm/") && !name.startsWith("/dev/zero")) {
            refuse(tree.subject(member), "the mapping of the device " + name + " cannot be saved",
                    "unmap it before the checkpoint");
        } else if (mapping.shared() && (name.endsWith(Proc.DELETED) || name.startsWith("/memfd:"))) {
            final Holder other = first.putIfAbsent(mapping.key(), new Holder(tree, member, null));
            if (other != null && other.tree() != tree) {
                split(other, new Holder(tree, member, null), "memory (" + name + ")");
            }
        }
    }

    /** Memory without a name that a process outside the job has mapped too. */
    private void mappedOutside(final Map<String, Holder> memory) {
        memory.forEach((key, holder) -> outside().mappers(key, this::ofNoTree).stream().findFirst().ifPresent(pid -> refuse(
                holder.tree().subject(holder.member()), "shares memory (" + name(holder, key) + ") with " + process(pid)
                        + " outside the job", "launch what they have in common under ShadowVerbs")));
    }

    private static String name(final Holder holder, final String key) {
        return holder.member().mappings().stream().filter(m -> m.key().equals(key)).map(Proc.Mapping::name).findFirst().orElse(key);
    }

    private void pipes() {
        for (final Map.Entry<Long, List<Holder>> entry : holders.entrySet()) {
            final List<Holder> ends = entry.getValue();
            final Holder first = ends.getFirst();
            if (!first.descriptor().pipe()) {
                continue;
            }
            if (request.replacedPipes().contains(entry.getKey())) {
                ends.forEach(end -> external(
                        end.member(), end.descriptor(), ExternalDescriptor.Kind.REPLACED_PIPE,
                        end.descriptor().target()));
                continue;
            }
            final boolean inside = ends.stream().anyMatch(end -> end.descriptor().readable())
                    && ends.stream().anyMatch(end -> end.descriptor().writable());
            if (inside) {
                ends.stream().filter(end -> end.tree() != first.tree()).findFirst()
                        .ifPresent(end -> split(first, end, "a pipe (" + first.descriptor().target() + ")"));
            } else if (ends.stream().anyMatch(Holder::stdio)) {
                ends.forEach(end -> external(
                        end.member(), end.descriptor(), ExternalDescriptor.Kind.PIPE, end.descriptor().target()));
            } else {
                danglingPipe(entry.getKey(), first);
            }
        }
    }

    /**
     * A pipe that leads out of the job and is not stdio. It does no harm when the program does not know of it: a
     * descriptor that the launching shell had open and that was inherited by mistake, so that somebody outside holds
     * the same end. Otherwise somebody waits at the other end.
     */
    private void danglingPipe(final long inode, final Holder holder) {
        Long peer = null;
        for (final long pid : holdersOutside(inode)) {
            try {
                for (final Proc.Descriptor descriptor : Proc.descriptors(pid)) {
                    if (descriptor.inode() == inode) {
                        if (descriptor.writable() == holder.descriptor().writable()) {
                            return;
                        }
                        peer = pid;
                    }
                }
            } catch (final IOException e) {
                continue; // It has ended meanwhile.
            }
        }
        if (peer != null) {
            refuse(subject(holder), "a pipe to " + process(peer) + " outside the job", mendOf(peer));
        }
    }

    private void sockets() throws IOException {
        Map<Long, Long> peers = null;
        TcpSockets tcp = null;
        for (final Map.Entry<Long, List<Holder>> entry : holders.entrySet()) {
            final Holder first = entry.getValue().getFirst();
            if (!first.descriptor().socket()) {
                continue;
            }
            entry.getValue().stream().filter(end -> end.tree() != first.tree()).findFirst()
                    .ifPresent(end -> split(first, end, "a socket (" + first.descriptor().target() + ")"));
            peers = peers == null ? SockDiag.unixPeers() : peers;
            final boolean ranksOnly = entry.getValue().stream().allMatch(end -> hasLink(end.member()));
            if (peers.containsKey(entry.getKey())) {
                final long peer = peers.get(entry.getKey());
                if (!ranksOnly || !holdersOutside(peer).contains(ProcessHandle.current().pid())) {
                    unix(first, peer);
                }
                continue;
            }
            tcp = tcp == null ? TcpSockets.of(first.member().ids().pid()) : tcp;
            final TcpSockets.Socket socket = tcp.get(entry.getKey());
            if (socket != null && socket.connected() && !(ranksOnly && ofDevice(socket))) {
                tcp(first, socket, tcp);
            } else if (socket != null && socket.listening()) {
                listening(first, socket);
            }
        }
        if (!listening.isEmpty()) {
            backlog = backlog(tcp);
            passing.addAll(passing(backlog));
        }
    }

    private boolean hasLink(final ProcessTree.Member member) {
        return request.open().links().contains(member.ids().pid());
    }

    private boolean hasDevices(final ProcessTree.Member member) {
        return request.open().devices().contains(member.ids().pid());
    }

    /** Whether it is the file of a verbs device. */
    static boolean isVerbsDevice(final String path) {
        return path.startsWith(VERBS_DEVICE, path.lastIndexOf('/') + 1);
    }

    private boolean ofDevice(final TcpSockets.Socket socket) {
        final Set<InetSocketAddress> listeners = request.open().listeners();
        return listeners.contains(socket.local()) || listeners.contains(socket.remote());
    }

    private void unix(final Holder holder, final long peer) {
        if (peer == SockDiag.NO_INODE) {
            return; // The other end is closed. Every JVM that has closed a socket channel holds one like this.
        }
        final List<Holder> others = holders.get(peer);
        if (others == null) {
            final Set<Long> pids = holdersOutside(peer);
            if (pids.contains(ProcessHandle.current().pid())) {
                // For as long as an answer takes: the top of a tree (pmi-agent.c), or a remote shell (rsh.c).
                passing.add(new Finding(subject(holder), "asks its agent", ""));
                return;
            }
            refuse(subject(holder),
                    "a Unix socket to " + (pids.isEmpty() ? "a process" : process(pids.iterator().next()))
                            + " outside the job",
                    pids.isEmpty() ? CLOSE : mendOf(pids.iterator().next()));
        } else if (others.getFirst().tree() != holder.tree()) {
            split(holder, others.getFirst(), "a Unix socket");
        }
    }

    private void listening(final Holder holder, final TcpSockets.Socket socket) {
        listeners.computeIfAbsent(holder.tree(), tree -> new ArrayList<>()).add(socket.listener());
        listening.add(held(holder));
    }

    private static TcpHold.Socket held(final Holder holder) {
        return new TcpHold.Socket(holder.member().ids().pid(), holder.descriptor().fd(), holder.descriptor().inode());
    }

    /** Connections that have come to the job's listeners, as the tables of a process's network have them now. */
    Backlog backlog(final TcpSockets sockets) {
        return Backlog.of(sockets, holders::containsKey, Rights.ordinary() ? Set.of() : request.others());
    }

    /** What keeps connections of a backlog from being made again. */
    List<Finding> passing(final Backlog backlog) {
        return backlog.problems().stream().map(problem -> new Finding(subject(holders.get(problem.listener().inode()).getFirst()),
                "nobody has accepted a TCP connection yet that came to port " + problem.listener().local().getPort() + " "
                        + problem.what(), "")).toList();
    }

    /** The sockets of connections that processes of the job have, as the tables of a process's network have them now. */
    Map<TcpConnection, TcpSockets.Socket> connected(final TcpSockets sockets) {
        final Map<TcpConnection, TcpSockets.Socket> connected = new HashMap<>();
        sockets.held().stream().filter(socket -> socket.connected() && holds(socket))
                .forEach(socket -> connected.put(socket.connection(), socket));
        return connected;
    }

    /** How a process has a socket of the job. */
    TcpHold.Socket held(final long inode) {
        return held(holders.get(inode).getFirst());
    }

    /** Of which tree a process is that has a socket of the job. */
    ProcessTree tree(final long inode) {
        return holders.get(inode).getFirst().tree();
    }

    /** For what comes back on this host and is no process's any more. */
    ProcessTree anyTree() {
        return trees.getFirst();
    }

    /** The sockets that listen. */
    List<TcpHold.Socket> listening() {
        return listening;
    }

    private void tcp(final Holder holder, final TcpSockets.Socket socket, final TcpSockets sockets) {
        final TcpSockets.Socket other = sockets.peer(socket);
        final TcpHold.Socket held = held(holder);
        connected.add(held);
        connections.computeIfAbsent(holder.tree(), tree -> new ArrayList<>()).add(socket.connection());
        final List<Holder> others = other == null ? null : holders.get(other.inode());
        if (Rights.ordinary()) {
            refuse(subject(holder), "a TCP connection to " + socket.remote().getAddress().getHostAddress() + ":"
                    + socket.remote().getPort() + " cannot be saved without root's rights",
                    "close it before the checkpoint, or run the job as root");
            return;
        }
        if (others != null || socket.connecting() && holds(sockets.listener(socket))) {
            return; // Both ends are saved.
        }
        final TcpSockets.Socket unheld = sockets.unheld().get(socket.connection().mirrored());
        if (unheld != null) {
            final TcpSockets.Socket listener = unheld.notAccepted() ? sockets.listener(socket) : null;
            if (listener != null && !holds(listener)) {
                outside(holder, socket, listener);
            } else if (unheld.leftOver()) {
                receiving.add(held);
                leftOver.add(unheld.connection());
            }
            return;
        }
        if (other == null && socket.withinHost()) {
            return; // It is over: its other end has been closed, and has said so.
        }
        if (other == null) {
            receiving.add(held);
            leaving.add(socket.end(subject(holder)));
            return;
        }
        outside(holder, socket, other);
    }

    /** @param other of a process that is not of the job */
    private void outside(final Holder holder, final TcpSockets.Socket socket, final TcpSockets.Socket other) {
        final Set<Long> pids = holdersOutside(other.inode());
        refuse(subject(holder), "a TCP connection to " + socket.remote().getAddress().getHostAddress() + ":"
                + socket.remote().getPort() + (pids.isEmpty() ? "" : ", " + process(pids.iterator().next()) + ",")
                + " outside the job", pids.isEmpty() ? CLOSE : mendOf(pids.iterator().next()));
    }

    private boolean holds(final TcpSockets.Socket socket) {
        return socket != null && holders.containsKey(socket.inode());
    }

    private void split(final Holder one, final Holder other, final String what) {
        refuse(one.tree().subject(one.member()),
                "shares " + what + " with " + other.tree().subject(other.member())
                        + ", and nothing that was launched is above both",
                "launch the program that starts both, as in: shadowverbs launch mpirun ./program");
    }

    private void stdio(
            final ProcessTree.Member member, final Proc.Descriptor descriptor, final ExternalDescriptor.Kind kind) {
        if (descriptor.fd() <= 2) {
            external(member, descriptor, kind, "");
        }
    }

    private void external(
            final ProcessTree.Member member,
            final Proc.Descriptor descriptor,
            final ExternalDescriptor.Kind kind,
            final String resource) {
        external(member, descriptor, kind, resource, descriptor.inode());
    }

    private void external(
            final ProcessTree.Member member,
            final Proc.Descriptor descriptor,
            final ExternalDescriptor.Kind kind,
            final String resource,
            final long inode) {
        externals.computeIfAbsent(member.ids().pid(), pid -> new ArrayList<>()).add(new ExternalDescriptor(
                descriptor.fd(), kind, descriptor.target(), resource, inode, descriptor.writable()));
    }

    /** How CRIU names a terminal: its device number and that of the file system it is in. */
    private static String terminalResource(final Path link) throws IOException {
        final Map<String, Object> attributes = Files.readAttributes(link, "unix:rdev,dev");
        return "tty[%x:%x]".formatted((long) attributes.get("rdev"), (long) attributes.get("dev"));
    }

    /** TCP connections to other hosts as they are now; of those that none of the trees has only those to hosts of the job. */
    TcpEnds ends() throws CheckpointException {
        if (trees.isEmpty() || leaving.isEmpty() && request.others().isEmpty()) {
            return TcpEnds.NONE;
        }
        try {
            final TcpSockets now = TcpSockets.of(trees.getFirst().top().pid());
            final Map<TcpConnection, Integer> states = new HashMap<>();
            now.held().forEach(socket -> states.put(socket.connection(), socket.state()));
            return new TcpEnds(leaving.stream().map(end -> new TcpEnd(end.holder(), end.connection(),
                    states.getOrDefault(end.connection(), end.state()))).toList(), foreign(now),
                    listening.isEmpty() ? List.of() : backlog(now).fromElsewhere().stream().map(
                            one -> one.end().end(subject(holders.get(one.listener().inode()).getFirst()))).toList());
        } catch (final IOException e) {
            throw new CheckpointException("reading /proc: " + e.getMessage(), e);
        }
    }

    private List<TcpEnd> foreign(final TcpSockets sockets) throws IOException {
        final List<TcpEnd> ends = new ArrayList<>();
        final Set<String> addresses = request.others();
        if (addresses.isEmpty()) {
            return ends;
        }
        for (final TcpSockets.Socket socket : sockets.held()) {
            if (socket.connected() && !holders.containsKey(socket.inode())
                    && addresses.contains(socket.connection().remoteAddress())) {
                final Set<Long> pids = holdersOutside(socket.inode());
                ends.add(socket.end(pids.isEmpty() ? "a process" : process(pids.iterator().next())));
            }
        }
        sockets.unheld().forEach((connection, socket) -> {
            if (addresses.contains(connection.remoteAddress())) {
                ends.add(socket.end(""));
            }
        });
        return ends;
    }

    private Set<Long> holdersOutside(final long inode) {
        return outside().holders(inode, this::ofNoTree);
    }

    private boolean ofNoTree(final long pid) {
        return !treeOf.containsKey(pid);
    }

    private OutsideWorld outside() {
        if (outside == null) {
            outside = OutsideWorld.look();
        }
        return outside;
    }

    private static String mendOf(final long peer) {
        try {
            return LAUNCHERS.contains(Proc.ids(peer).command()) ? LAUNCH_THE_LAUNCHER : CLOSE;
        } catch (final IOException e) {
            return CLOSE; // It has ended meanwhile.
        }
    }

    private static String process(final long pid) {
        try {
            return "pid " + pid + " (" + Proc.ids(pid).command() + ")";
        } catch (final IOException e) {
            return "pid " + pid;
        }
    }

    private static String subject(final Holder holder) {
        return subject(holder.tree(), holder.member(), holder.descriptor());
    }

    private static String subject(
            final ProcessTree tree, final ProcessTree.Member member, final Proc.Descriptor descriptor) {
        final String subject = tree.subject(member);
        return subject.substring(0, subject.length() - 1) + ", fd " + descriptor.fd() + ")";
    }

    private void refuse(final String subject, final String problem, final String mend) {
        final Finding finding = new Finding(subject, problem, mend);
        if (!findings.contains(finding)) {
            findings.add(finding);
        }
    }
}
