// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.Command;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;
import org.shadowverbs.coordinator.protocol.Message;

/** A job of {@link SimulatedHost}s under a real coordinator, and how long each step of it takes. */
final class SimulatedJob implements AutoCloseable {
    private static final int CONNECT_MILLIS = 30_000;
    private static final long DEADLINE_SECONDS = 600;
    private static final double NANOS_PER_MILLI = 1e6;
    private static final String JOIN = "join";
    private static final String CHECKPOINT = "checkpoint";
    private static final String CLOSED = ", devices closed";

    private final int ranks;
    private final int ranksPerHost;
    private final int peers;
    private final boolean allToAll;
    private final int port;
    private final long coordinator;
    private final Path directory;
    private final String secret;
    private final List<Integer> everybody;
    private final List<SimulatedHost> hosts = new ArrayList<>();
    private final AtomicInteger joined = new AtomicInteger();
    private final AtomicInteger opened = new AtomicInteger();
    private final AtomicReference<String> problem = new AtomicReference<>();
    private final Map<String, Step> exchanges = new ConcurrentHashMap<>();
    private final Map<String, Figures> results = new LinkedHashMap<>();
    private volatile boolean detached;

    /**
     * What a step took.
     *
     * @param millis until the last rank had its answer
     * @param processorMillis processor time of the coordinator and of the simulated hosts
     * @param coordinatorMillis the coordinator's alone
     * @param read bytes that the coordinator read
     * @param written bytes that it wrote
     */
    record Figures(double millis, double processorMillis, double coordinatorMillis, long read, long written) {
    }

    /** An exchange that goes on. */
    private final class Step {
        final Meter meter = new Meter();
        final AtomicInteger answered = new AtomicInteger();
        volatile Figures figures;
        /** What hosts do then; null: all ranks have their answers. */
        private List<Runnable> next = new ArrayList<>();

        synchronized boolean waits(final Runnable then) {
            return next != null && next.add(then);
        }

        void over() {
            figures = meter.read();
            final List<Runnable> ready;
            synchronized (this) {
                ready = next;
                next = null;
            }
            ready.forEach(Thread.ofVirtual()::start);
        }
    }

    /** Measures what is used from its making on. */
    private final class Meter {
        private final long begun = System.nanoTime();
        private final double hosts = ProcessFigures.processorMillis(ProcessHandle.current().pid());
        private final double coordinators = ProcessFigures.processorMillis(coordinator);
        private final long[] bytes = ProcessFigures.bytes(coordinator);

        Figures read() {
            final double millis = (System.nanoTime() - begun) / NANOS_PER_MILLI;
            final double coordinatorMillis = ProcessFigures.processorMillis(coordinator) - coordinators;
            final double hostMillis = ProcessFigures.processorMillis(ProcessHandle.current().pid()) - hosts;
            final long[] now = ProcessFigures.bytes(coordinator);
            return new Figures(millis, coordinatorMillis + hostMillis, coordinatorMillis, now[0] - bytes[0],
                    now[1] - bytes[1]);
        }
    }

    /** @param coordinator its pid */
    SimulatedJob(final int ranks, final int ranksPerHost, final int peers, final boolean allToAll, final int port,
            final long coordinator,
            final Path directory, final String secret) {
        this.ranks = ranks;
        this.ranksPerHost = ranksPerHost;
        this.peers = peers;
        this.allToAll = allToAll;
        this.port = port;
        this.coordinator = coordinator;
        this.directory = directory;
        this.secret = secret;
        everybody = IntStream.range(0, ranks).boxed().toList();
    }

    /** Where its checkpoints go. */
    Path directory() {
        return directory;
    }

    /** The job's. */
    String secret() {
        return secret;
    }

    /** Whether each rank wants the ids of each other one. */
    boolean allToAll() {
        return allToAll;
    }

    List<Integer> everybody() {
        return everybody;
    }

    /** Whether the ranks close their devices for the checkpoint that goes on. */
    boolean isDetached() {
        return detached;
    }

    /** The ranks that a rank is connected to: its neighbours. */
    int[] peers(final int rank) {
        final int many = Math.min(peers, ranks - 1);
        return IntStream.rangeClosed(1, many).map(i -> Math.floorMod(rank + (i % 2 == 0 ? -i / 2 : (i + 1) / 2),
                ranks)).toArray();
    }

    // ---- what the hosts tell ----

    void lost(final String why) {
        problem.compareAndSet(null, why);
    }

    void joined() {
        joined.incrementAndGet();
    }

    void opened() {
        opened.incrementAndGet();
    }

    void contributes(final Phase phase, final int round) {
        exchanges.computeIfAbsent(name(phase, round), name -> new Step());
    }

    void delivered(final Phase phase, final int round) {
        final Step step = exchanges.get(name(phase, round));
        if (step.answered.incrementAndGet() == ranks) {
            step.over();
        }
    }

    /** Runs it when all ranks have the answer of that exchange: what one takes is not to have the end of another in it. */
    void afterAll(final Phase phase, final int round, final Runnable next) {
        if (!exchanges.get(name(phase, round)).waits(next)) {
            next.run();
        }
    }

    private static String name(final Phase phase, final int round) {
        return phase + (phase == Phase.DRAIN || phase == Phase.DETACH ? " " + round : "");
    }

    // ---- what is measured ----

    /** All hosts join, with all their ranks. */
    void join() throws BenchException, InterruptedException {
        measure(JOIN, () -> {
            final List<Thread> connecting = new ArrayList<>();
            for (int host = 0; host * ranksPerHost < ranks; host++) {
                final int index = host;
                connecting.add(Thread.ofVirtual().start(() -> connect(index)));
            }
            for (final Thread thread : connecting) {
                thread.join();
            }
            await("all ranks to join", () -> joined.get() == ranks);
        });
    }

    private void connect(final int index) {
        try {
            final SimulatedHost host = new SimulatedHost(this, index, index * ranksPerHost,
                    Math.min(ranksPerHost, ranks - index * ranksPerHost), port);
            synchronized (hosts) {
                hosts.add(host);
            }
        } catch (IOException e) {
            lost("node" + index + ": " + e);
        }
    }

    /**
     * A checkpoint.
     *
     * @param closing the devices: the way back is that of a restart
     */
    void checkpoint(final boolean closing) throws BenchException, InterruptedException {
        detached = closing;
        opened.set(0);
        exchanges.clear();
        measure(CHECKPOINT + (closing ? CLOSED : ""), () -> {
            command("checkpoint", closing ? Map.of("detached", "true") : Map.of());
            await("all gates to open", () -> opened.get() == ranks);
        });
        for (final Phase phase : Phase.values()) {
            for (int round = 0; round < 2; round++) {
                final Step step = exchanges.get(name(phase, round));
                final String name = name(phase, round) + (closing && !phase.reattaches() ? CLOSED : "");
                if (step != null && step.figures != null) {
                    results.putIfAbsent(name, step.figures);
                }
            }
        }
    }

    private void command(final String name, final Map<String, String> arguments) throws BenchException {
        try (FrameChannel channel = FrameChannel.connect(new InetSocketAddress("127.0.0.1", port), CONNECT_MILLIS)) {
            channel.write(new Command(FrameType.VERSION, secret, name, arguments));
            for (;;) {
                final Message message = channel.read();
                if (message instanceof Result result) {
                    if (result.status() != 0) {
                        throw new BenchException(name + ": " + result.text());
                    }
                    return;
                }
            }
        } catch (IOException e) {
            throw new BenchException(name + ": " + e + (problem.get() == null ? "" : "; " + problem.get()));
        }
    }

    private interface Work {
        void run() throws BenchException, InterruptedException;
    }

    private void measure(final String name, final Work work) throws BenchException, InterruptedException {
        final Meter meter = new Meter();
        work.run();
        results.put(name, meter.read());
    }

    private interface Condition {
        boolean holds();
    }

    private void await(final String what, final Condition condition) throws BenchException, InterruptedException {
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        while (!condition.holds()) {
            if (problem.get() != null || System.nanoTime() > end) {
                throw new BenchException("waited for " + what + (problem.get() == null ? "" : ": " + problem.get()));
            }
            Thread.sleep(1);
        }
    }

    /** Whether a step is none of another one's exchanges. */
    static boolean isWhole(final String step) {
        return step.equals(JOIN) || step.startsWith(CHECKPOINT);
    }

    /** By the name of the step. */
    Map<String, Figures> results() {
        return results;
    }

    @Override
    public void close() {
        synchronized (hosts) {
            hosts.forEach(SimulatedHost::close);
        }
    }
}
