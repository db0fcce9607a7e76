// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import java.io.FileInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.shadowverbs.ib2tcp.engine.Device;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.MulticastWay;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Requester;
import org.shadowverbs.ib2tcp.engine.Responder;
import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Settings;
import org.shadowverbs.ib2tcp.system.Waiters;
import org.shadowverbs.ib2tcp.wire.Handshake;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/**
 * The engine over sockets: it takes what was posted, moves bytes, and sleeps in epoll when there is nothing to do. Its own
 * thread does that, or who polls: {@link Turns}. It lives from the first open of the device to the last close; nothing of it
 * is left in a process image.
 */
public final class TcpDevice extends Device implements Runnable, Turns.Driven {
    private static final int LISTENER = 1;
    private static final int WAKE = 2;
    private static final int MULTICAST = 3;
    private static final int FIRST_LINK = 16;
    private static final int EVENTS = 64;
    private static final long HANDSHAKE_NANOS = 10_000_000_000L;
    private static final int DEAD_MILLIS = 30_000;
    private static final int TICK_MILLIS = 500;
    /** So many looks in a turn that finds nothing. */
    private static final int LOOKS = 4;
    /** Each so manieth look is at all connections. */
    private static final int ALL_LINKS = 8;
    private static final long REST_NANOS = 50_000;
    private static final long STACK = 512 << 10;

    public final long prefix = Address.PREFIX;
    public final long id;
    final Handshake handshake;
    public final Waiters waiters;
    private final Host host;
    private final int listener;
    private final int epoll;
    private final int wake;
    private final long events;
    private final long counter;
    private final long bell;
    private final long spinNanos;
    private final Turns turns;
    private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<Runnable>();
    private final ArrayList<TcpLink> dirty = new ArrayList<TcpLink>();
    private final ArrayList<TcpLink> slots = new ArrayList<TcpLink>();
    private MulticastSocket multicastSocket;
    private int generation;
    private int unsettled;
    private Thread thread;
    private boolean stopped;
    private Throwable failure;
    private final RecentLink recent;
    private int looks;
    /** There is something to do that is not done in turns. */
    private boolean needed;

    public TcpDevice(final Posix posix, final Host host, final Settings settings) {
        super(posix, settings.secret());
        this.host = host;
        this.spinNanos = settings.spinNanos();
        this.handshake = new Handshake(settings.secret());
        final int ipv4 = Address.choose(posix, settings, host);
        listener = posix.listen(ipv4);
        final byte[] cookie = nonce();
        id = Address.id(ipv4, posix.localPort(listener), cookie[0] << 8 | cookie[1] & 0xff);
        numbersFrom(cookie[2] & 0x7f); // so that those of two processes are seldom equal
        epoll = posix.epollCreate();
        wake = posix.eventfd();
        events = posix.allocate((long) EVENTS * Posix.EPOLL_EVENT_SIZE);
        counter = posix.allocate(8);
        bell = host.doorbell();
        waiters = new Waiters(posix, bell);
        posix.epollAdd(epoll, listener, Posix.EPOLLIN, LISTENER);
        posix.epollAdd(epoll, wake, Posix.EPOLLIN, WAKE);
        Memory.volatileSet(bell + Host.BELL_WAKE_FD, wake);
        turns = new Turns(bell, this);
        recent = new RecentLink(this);
    }

    public void start() {
        thread = new Thread(null, this, "shadowverbs-tcp", STACK);
        thread.setDaemon(true);
        thread.start();
    }

    /** Runs it on the engine's thread. */
    public void submit(final Runnable task) {
        tasks.add(task);
        host.callEngine();
    }

    /** To be called on the engine's thread: it ends after this task. */
    public void stop() {
        stopped = true;
    }

    /** Waits for the thread's end and gives everything back. */
    public void join() throws InterruptedException {
        thread.join();
    }

    @Override
    public long now() {
        return System.nanoTime();
    }

    @Override
    public Requester requester(final QueuePair qp) {
        return Transports.requester(qp);
    }

    @Override
    public Responder responder(final QueuePair qp) {
        return Transports.responder(qp);
    }

    @Override
    public long gidPrefix() {
        return prefix;
    }

    @Override
    public long gidInterface() {
        return id;
    }

    @Override
    public MulticastWay multicastWay() {
        multicastSocket = new MulticastSocket(posix, Address.ipv4(id));
        posix.epollAdd(epoll, multicastSocket.fd, Posix.EPOLLIN, MULTICAST);
        return multicastSocket;
    }

    @Override
    public void say(final String line) {
        host.say(line);
    }

    byte[] nonce() {
        try (FileInputStream random = new FileInputStream("/dev/urandom")) {
            return random.readNBytes(24);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void run() {
        try {
            turns.take();
            long busyUntil = 0;
            boolean lookedAround = false;
            while (!stopped) {
                turns.heard();
                boolean worked = runTasks() | takeBells();
                if (!timers.isEmpty()) {
                    timers.run(now());
                }
                waiters.wake();
                flush();
                // Not before it has seen what it may have been called for: its end, for one.
                if (lookedAround && !stopped && dirty.isEmpty() && unsettled == 0 && tasks.isEmpty() && turns.standBy(now())) {
                    recent.watch();
                    lookedAround = false;
                    busyUntil = now() + spinNanos;
                    continue;
                }
                int timeout = 0;
                final boolean sleeps = !worked && dirty.isEmpty() && now() - busyUntil >= 0;
                if (sleeps) {
                    // The flag before the last look: who posts after that look sees it.
                    Memory.volatileSet(bell + Host.BELL_SLEEPING, 1);
                    if (!tasks.isEmpty() || takeBells()) {
                        Memory.volatileSet(bell + Host.BELL_SLEEPING, 0);
                        continue;
                    }
                    timeout = sleepMillis();
                }
                final int n = posix.epollWait(epoll, events, EVENTS, timeout);
                if (sleeps) {
                    Memory.volatileSet(bell + Host.BELL_SLEEPING, 0);
                }
                for (int i = 0; i < n; i++) {
                    worked |= handle(events + (long) i * Posix.EPOLL_EVENT_SIZE);
                }
                waiters.wake();
                if (unsettled > 0) {
                    expire();
                }
                if (worked) {
                    busyUntil = now() + spinNanos;
                }
                turns.looked(worked, busyUntil);
                lookedAround = true;
            }
            flush();
        } catch (Throwable t) {
            failure = t;
            host.say("the TCP device has failed: " + t);
            failAll();
        } finally {
            release();
        }
    }

    /** A turn of a thread of the application. @return whether the engine's own thread is needed */
    @Override
    public boolean turn(final int how) {
        needed = false;
        boolean worked = takeBells();
        if (!timers.isEmpty()) {
            timers.run(now());
        }
        flush();
        if (how != Turns.POST) {
            // To enter and leave a turn costs as much as several looks.
            int left = LOOKS;
            do {
                worked |= look();
            } while (!worked && --left > 0 && Memory.volatileGet(bell + Host.BELL_PENDING) == 0);
            if (!worked && how == Turns.REST && dirty.isEmpty() && tasks.isEmpty()) {
                recent.watch();
                rest();
                lookEverywhere();
            }
        }
        waiters.wake();
        return needed || unsettled > 0 || !tasks.isEmpty();
    }

    /** Reads what has come. What was received is acknowledged in the next turn: an answer may go out with it. */
    private boolean look() {
        if (recent.link() == null || ++looks % ALL_LINKS == 0) {
            return lookEverywhere();
        }
        if (!ready(recent.link(), true, false)) {
            recent.missed();
            return false;
        }
        recent.brought();
        return true;
    }

    private boolean lookEverywhere() {
        final int n = posix.epollWait(epoll, events, EVENTS, 0);
        boolean any = false;
        for (int i = 0; i < n; i++) {
            final long event = events + (long) i * Posix.EPOLL_EVENT_SIZE;
            final long data = Memory.i64(event + Posix.EPOLL_DATA);
            final TcpLink link = data < FIRST_LINK ? null : link(data);
            if (data == LISTENER || link != null && !link.established()) {
                needed = true; // for what is not done in turns
                continue;
            }
            any |= handle(event);
            if (link != null && !link.lost) {
                recent.is(link);
            }
        }
        return any;
    }

    /** Sleeps for a moment, until something comes. */
    private void rest() {
        Memory.volatileSet(bell + Host.BELL_SLEEPING, 1);
        if (Memory.volatileGet(bell + Host.BELL_PENDING) == 0 && tasks.isEmpty()) {
            posix.awaitReadable(epoll, REST_NANOS);
        }
        Memory.volatileSet(bell + Host.BELL_SLEEPING, 0);
    }

    private int sleepMillis() {
        if (timers.isEmpty()) {
            return unsettled > 0 ? TICK_MILLIS : -1;
        }
        final long millis = (timers.delay(now()) + 999_999) / 1_000_000;
        return (int) Math.min(millis, TICK_MILLIS);
    }

    private boolean runTasks() {
        boolean any = false;
        for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
            task.run();
            any = true;
        }
        return any;
    }

    private boolean takeBells() {
        if (Memory.volatileGet(bell + Host.BELL_PENDING) == 0) {
            return false;
        }
        Memory.volatileSet(bell + Host.BELL_PENDING, 0);
        boolean any = false;
        final int words = (bells() + 63) / 64;
        for (int word = 0; word < words; word++) {
            final long at = bell + Host.BELL_DUE + word * 8L;
            if (Memory.opaque64(at) == 0) {
                continue;
            }
            long bits = Memory.takeBits(at);
            any = true;
            while (bits != 0) {
                onDoorbell(word * 64 + Long.numberOfTrailingZeros(bits));
                bits &= bits - 1;
            }
        }
        return any;
    }

    /** @return whether it was more than a wake-up */
    private boolean handle(final long event) {
        final int what = Memory.i32(event);
        final long data = Memory.i64(event + Posix.EPOLL_DATA);
        if (data == WAKE) {
            posix.read(wake, counter, 8);
            return false;
        }
        if (data == LISTENER) {
            accept();
            return true;
        }
        if (data == MULTICAST) {
            multicastSocket.ready(multicast);
            return true;
        }
        final TcpLink link = link(data);
        if (link == null) {
            return false; // closed by an event before this one
        }
        // An error or a hang-up is found by reading.
        ready(link, (what & ~Posix.EPOLLOUT) != 0, (what & Posix.EPOLLOUT) != 0);
        return true;
    }

    private TcpLink link(final long key) {
        final TcpLink link = slots.get((int) key - FIRST_LINK);
        return link == null || link.key != key ? null : link;
    }

    private boolean ready(final TcpLink link, final boolean readable, final boolean writable) {
        try {
            return link.ready(readable, writable);
        } catch (ProtocolException e) {
            end(link, e.getMessage());
            return true;
        }
    }

    private void accept() {
        final int fd = posix.accept(listener);
        if (fd >= 0) {
            posix.tune(fd, DEAD_MILLIS);
            add(new TcpLink(this, fd, true, now() + HANDSHAKE_NANOS), Posix.EPOLLIN);
        }
    }

    private void add(final TcpLink link, final int watched) {
        int slot = slots.indexOf(null);
        if (slot < 0) {
            slot = slots.size();
            slots.add(link);
        } else {
            slots.set(slot, link);
        }
        link.key = (long) ++generation << 32 | slot + FIRST_LINK;
        unsettled++;
        posix.epollAdd(epoll, link.fd, watched, link.key);
    }

    @Override
    public Link connect(final long peerPrefix, final long peerId) {
        final int fd = peerPrefix == prefix ? posix.connect(Address.ipv4(peerId), Address.port(peerId)) : -1;
        if (fd < 0) {
            return null;
        }
        posix.tune(fd, DEAD_MILLIS);
        final TcpLink link = new TcpLink(this, fd, false, now() + HANDSHAKE_NANOS);
        link.peerPrefix = peerPrefix;
        link.peerId = peerId;
        links.add(link);
        add(link, Posix.EPOLLOUT);
        return link;
    }

    void watch(final TcpLink link, final boolean writable) {
        final int events = Posix.EPOLLIN | (writable ? Posix.EPOLLOUT : 0);
        if (recent.watched(link)) {
            posix.epollModify(epoll, link.fd, events, link.key);
        } else {
            posix.epollAdd(epoll, link.fd, events, link.key);
        }
    }

    /** Epoll does not know of it until it is watched again: not to tell of anything costs the peer's send nearly as much. */
    void unwatch(final TcpLink link) {
        posix.epollDelete(epoll, link.fd);
    }

    void established(final TcpLink link) {
        unsettled--;
        if (!links.contains(link)) {
            links.add(link);
        }
    }

    void dirty(final TcpLink link) {
        link.dirty = true;
        dirty.add(link);
    }

    /** Writes what is to be said, as far as the connections take it. */
    public void flush() {
        for (int n = dirty.size(); n > 0; n--) {
            final TcpLink link = dirty.removeFirst();
            link.dirty = false;
            if (link.lost) {
                continue;
            }
            try {
                link.write();
            } catch (ProtocolException e) {
                end(link, e.getMessage());
            }
        }
    }

    private void expire() {
        final long now = now();
        for (int i = 0; i < slots.size(); i++) {
            final TcpLink link = slots.get(i);
            if (link != null && !link.established() && link.deadline - now < 0) {
                end(link, "no handshake within " + HANDSHAKE_NANOS / 1_000_000_000 + " s");
            }
        }
    }

    /** @param reason null when the peer has closed it in good order */
    private void end(final TcpLink link, final String reason) {
        if (reason != null && !link.connecting()) {
            host.say("a TCP connection " + (link.peerId == 0 ? "to this process" : "with "
                    + Address.text(Address.ipv4(link.peerId)) + ":" + Address.port(link.peerId)) + " ends: " + reason);
        }
        if (!link.established()) {
            unsettled--;
        }
        slots.set((int) link.key - FIRST_LINK, null);
        if (link.dirty) {
            dirty.remove(link);
            link.dirty = false;
        }
        recent.ends(link);
        posix.epollDelete(epoll, link.fd);
        lost(link);
        link.close();
    }

    /** The engine cannot go on: whoever waits for a completion gets an error. */
    private void failAll() {
        for (int i = 0; i < bells(); i++) {
            if (queuePairAt(i) != null && queuePairAt(i).state != QueuePair.RESET) {
                queuePairAt(i).enter(QueuePair.ERR);
            }
        }
    }

    private void release() {
        Memory.volatileSet(bell + Host.BELL_SLEEPING, 0);
        turns.close();
        for (int i = 0; i < slots.size(); i++) {
            if (slots.get(i) != null) {
                slots.get(i).close();
            }
        }
        if (multicastSocket != null) {
            multicastSocket.close();
        }
        multicast.free();
        posix.close(listener);
        posix.close(epoll);
        posix.close(wake);
        posix.free(events);
        posix.free(counter);
    }

    Throwable failure() {
        return failure;
    }
}
