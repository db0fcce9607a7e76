// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.xrc;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.ReceiverRegister;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Holder;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.PortIds;
import org.shadowverbs.ids.SharedReceiver;

/**
 * The register of the XRC receive queue pairs that processes of this host may open together (ibv_open_qp(3)): one small file
 * for each, beside the agent's socket. The device has but one such queue pair, which lives until the last process has
 * destroyed its last handle; here stands who has it open and what any of them has set, so that each knows all of it. Whoever
 * changes the one changes the other under one lock, which a process that dies gives back.
 *
 * <p>In a checkpoint one holder is its <em>home</em>: that which has made it, else the one that has it open longest. The home
 * alone takes part in the drain for it, and makes it anew; then the others open it.
 */
public final class SharedReceivers {
    private static final long POLL_NANOS = 200_000;
    private static final Duration REPORT_INTERVAL = Duration.ofSeconds(30);

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final Job job;
    private final Duration reportInterval;
    private final long self = random();

    public SharedReceivers(final Native library, final ChosenBackend backend, final Model model, final Job job) {
        this(library, backend, model, job, REPORT_INTERVAL);
    }

    /** @param reportInterval after each such time, who waits for the register's lock says so */
    SharedReceivers(final Native library, final ChosenBackend backend, final Model model, final Job job,
            final Duration reportInterval) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.job = job;
        this.reportInterval = reportInterval;
    }

    private static long random() {
        try (FileInputStream random = new FileInputStream("/dev/urandom")) {
            return ByteBuffer.wrap(random.readNBytes(Long.BYTES)).getLong();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What this process is known by in the register, across restarts. */
    public long self() {
        return self;
    }

    /** @return the file that a queue pair of that domain is registered in; null: no other process can open it */
    Path file(final Xrcd xrcd, final int number) {
        final Path folder = job.hostFolder();
        if (folder == null || xrcd.fd < 0) {
            return null;
        }
        try {
            final String key = SharedDomains.keys(List.of(xrcd), c -> XrcVerbs.device(library, backend.now(), c))
                    .get(xrcd.domain);
            return key == null ? null : ReceiverRegister.folder(folder).resolve(key.replace('/', '-') + '-' + Integer.toHexString(number));
        } catch (Refusal e) {
            throw new VerbsException(VerbsErrno.EIO, e.getMessage());
        }
    }

    /**
     * While nobody else, of this process or another, reads or changes the register. Waits for its lock as long as another
     * holds it: a control verb does not time out towards the application, a deadline here only reports.
     *
     * @throws VerbsException EIO: the register cannot be used
     */
    @SuppressWarnings("try") public // of the lock nothing is needed but that it ends
    synchronized <R> R locked(final Path file, final Supplier<R> action) {
        try {
            final Path lockFile = ReceiverRegister.lock(file.getParent());
            try (FileChannel channel = ReceiverRegister.openLock(file.getParent());
                    FileLock lock = lock(channel, lockFile)) {
                return action.get();
            }
        } catch (IOException e) {
            throw new VerbsException(VerbsErrno.EIO, "the register of XRC's shared queue pairs, " + file.getParent()
                    + ", cannot be used: " + e);
        }
    }

    private FileLock lock(final FileChannel channel, final Path file) throws IOException {
        final long start = System.nanoTime();
        Duration report = reportInterval;
        for (;;) {
            final FileLock lock = channel.tryLock();
            if (lock != null) {
                return lock;
            }
            final Duration waited = Duration.ofNanos(System.nanoTime() - start);
            if (waited.compareTo(report) >= 0) {
                library.say("still waits for " + file + ", the lock of XRC's shared queue pairs, which another process of the job"
                        + " holds");
                report = waited.plus(reportInterval);
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /** @return null: there is none. To be called {@link #locked}, like those that follow. */
    SharedReceiver read(final Path file) {
        try {
            return Files.exists(file) ? SharedReceiver.decode(Files.readAllBytes(file)) : null;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    void write(final Path file, final SharedReceiver receiver) {
        try {
            ReceiverRegister.put(file, receiver.encode());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What others have set of it. */
    public void load(final Qp qp) {
        final SharedReceiver receiver = read(qp.shared);
        if (receiver != null) {
            qp.attributes.decode(receiver.attributes());
        }
    }

    /** @param reset it was connected, and is not any more */
    public void store(final Qp qp, final boolean reset) {
        final SharedReceiver receiver = read(qp.shared);
        if (receiver != null) {
            write(qp.shared, receiver.withAttributes(qp.attributes.encode(),
                    receiver.mixed() || reset && receiver.holders().size() > 1));
        }
    }

    /** This process has destroyed its last handle of it. @return whether others have it open */
    public boolean leave(final Qp qp) {
        final SharedReceiver receiver = read(qp.shared);
        if (receiver == null) {
            return false;
        }
        final List<Long> left = new ArrayList<Long>(receiver.holders());
        left.remove(self);
        if (!left.isEmpty()) {
            write(qp.shared, receiver.withHolders(left));
            return true;
        }
        try {
            Files.deleteIfExists(qp.shared);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return false;
    }

    /** A queue pair that this process has made, or makes anew; its real object is there. */
    public void register(final Qp qp) {
        qp.shared = qp.xrcd == null ? null : file(qp.makersDomain(), qp.virtualQpNum);
        if (qp.shared == null) {
            return;
        }
        Ports.ensure(backend.now(), qp.context(), model.masks);
        final List<Long> holders = new ArrayList<Long>();
        qp.holders.forEach(holder -> holders.add(holder.id()));
        final SharedReceiver receiver = new SharedReceiver(backend.now().qpNum(qp.real), false,
                holders.isEmpty() ? List.of(self) : holders,
                qp.ports != null ? qp.ports : List.of(qp.context().ports), qp.attributes.encode());
        locked(qp.shared, () -> {
            write(qp.shared, receiver);
            return null;
        });
    }

    /** The process, or the context that all were made in (null: any), ends. @return the queue pairs that others go on with */
    public Set<Qp> leaveAll(final Context context) {
        final Set<Qp> others = new HashSet<Qp>();
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.shared != null && (context == null || qp.context() == context) && locked(qp.shared, () -> leave(qp))) {
                others.add(qp);
            }
        }
        return others;
    }

    /**
     * When all gates are closed: whose each of them is in this checkpoint.
     *
     * @param ranks of those who take part, by what the register knows them by
     */
    public void findHomes(final Map<Long, Integer> ranks) throws Refusal {
        for (final Qp qp : model.qps.inOrder()) {
            final SharedReceiver receiver = qp.shared == null ? null : locked(qp.shared, () -> read(qp.shared));
            if (receiver == null && qp.foreign) {
                throw new Refusal(qp.name() + " is another process', and is not in the register of XRC's shared queue pairs any"
                        + " more: that cannot be checkpointed");
            }
            if (receiver == null) {
                continue;
            }
            qp.attributes.decode(receiver.attributes());
            qp.holders.clear();
            for (final long id : receiver.holders()) {
                if (ranks.containsKey(id)) {
                    qp.holders.add(new Holder(id, ranks.get(id)));
                }
            }
            qp.home = !qp.holders.isEmpty() && qp.holders.get(0).id() == self;
            if (qp.home && receiver.mixed()) {
                throw new Refusal(qp.name() + " was reset while several processes had it open: what came before and after"
                        + " cannot be told apart, so that cannot be checkpointed");
            }
        }
    }

    /** Some have died since: the first of the others is the home. */
    public void findHomesAmong(final Set<Integer> ranks) {
        for (final Qp qp : model.qps.inOrder()) {
            qp.holders.removeIf(holder -> holder.id() != self && !ranks.contains(holder.rank()));
            if (!qp.holders.isEmpty()) {
                qp.home = qp.holders.get(0).id() == self;
            }
        }
    }

    /** The addresses by which peers know a queue pair that another process has made, over the ports that it is now at. */
    public static PortIds[] portsNow(final Qp qp) {
        final List<PortIds> ports = new ArrayList<PortIds>();
        for (final PortIds port : qp.ports) {
            if (port.number <= qp.context().portCount) {
                ports.add(port.carriedOverTo(qp.context().port(port.number)));
            }
        }
        return ports.toArray(new PortIds[0]);
    }
}
