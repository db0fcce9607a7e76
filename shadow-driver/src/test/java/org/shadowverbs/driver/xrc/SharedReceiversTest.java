// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.xrc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import net.jqwik.api.lifecycle.AfterTry;
import net.jqwik.api.lifecycle.BeforeTry;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_port_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_qp_open_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.checkpoint.PeerTable;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Job;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.TestJob;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.verbs.QueuePairVerbs;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.QpRecord;

/** Several processes of a host have one XRC receive queue pair open. The device, of which each has a view, only takes notes. */
class SharedReceiversTest {
    private static final int NUMBER = 77;
    private static final int PROCESSES = 4;
    private static final int PEER = 9;
    private static final int LID = 0x40;

    private final Arena arena = Arena.ofShared();
    private Path folder;
    private final List<Process> processes = new ArrayList<>();
    /** What the device knows of the queue pair: how many real handles there are. */
    private int realHandles;
    private int realNumber = NUMBER;

    /** One of them, whose rank is its place. */
    private final class Process {
        final int rank;
        final Fake library = new Fake(0x10_0000);
        final Fake device = new Fake(0x20_0000);
        final Model model = new Model(IdMasks.IDENTITY);
        final Context context = new Context(1, 101, 5, "shadow0", 1, 7, 7, IdMasks.IDENTITY);
        final Xrcd xrcd = new Xrcd(3, 103, context, 0, 1);
        final QueuePairVerbs verbs;
        final XrcVerbs xrc;
        final List<Long> handles = new ArrayList<>();
        final Job job = new TestJob(new ArrayList<>(), folder);

        Process(final int rank) {
            this.rank = rank;
            device.answer("name", args -> "hca").answer("deviceName", args -> "shadow0").answer("qpNum", args -> realNumber)
                    .answer("queryPort", args -> {
                        ibv_port_attr.lid((MemorySegment) args[2], (short) (LID + rank));
                        return 0;
                    })
                    .answer("createQpEx", args -> made())
                    .answer("openQp", args -> ibv_qp_open_attr.qp_num((MemorySegment) args[1]) == realNumber && realHandles > 0
                            ? made() : fail())
                    .answer("destroyQp", args -> {
                        realHandles--;
                        return 0;
                    });
            final Native fake = library.as(Native.class);
            final ChosenBackend backend = new ChosenBackend(device.as(Backend.class));
            model.contexts.add(context);
            model.xrcds.add(xrcd);
            verbs = new QueuePairVerbs(fake, backend, model, new KeyMaps(fake), job);
            xrc = new XrcVerbs(fake, backend, model, verbs.receivers());
        }

        private Object made() {
            return 0x7000L + 16 * realHandles++;
        }

        private Object fail() {
            throw new VerbsException(VerbsErrno.EINVAL);
        }

        void create() {
            final MemorySegment init = ibv_qp_init_attr_ex.allocate(arena);
            ibv_qp_init_attr.qp_type(init, verbs_h.IBV_QPT_XRC_RECV());
            ibv_qp_init_attr_ex.comp_mask(init, verbs_h.IBV_QP_INIT_ATTR_XRCD());
            ibv_qp_init_attr_ex.xrcd(init, MemorySegment.ofAddress(xrcd.virtual));
            handles.add(verbs.createEx(init));
        }

        void open() {
            final MemorySegment attr = ibv_qp_open_attr.allocate(arena);
            ibv_qp_open_attr.comp_mask(attr, verbs_h.IBV_QP_OPEN_ATTR_NUM() | verbs_h.IBV_QP_OPEN_ATTR_XRCD()
                    | verbs_h.IBV_QP_OPEN_ATTR_TYPE());
            ibv_qp_open_attr.qp_num(attr, NUMBER);
            ibv_qp_open_attr.qp_type(attr, verbs_h.IBV_QPT_XRC_RECV());
            ibv_qp_open_attr.xrcd(attr, MemorySegment.ofAddress(xrcd.virtual));
            handles.add(xrc.openQp(context.virtual, attr));
        }

        void destroy() {
            assertEquals(0, verbs.destroy(handles.remove(0)));
        }

        void modify(final int state, final int timer, final int mask) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(attr, state);
            ibv_qp_attr.port_num(attr, (byte) 1);
            ibv_qp_attr.min_rnr_timer(attr, (byte) timer);
            ibv_qp_attr.dest_qp_num(attr, PEER);
            ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(attr), (short) 5);
            ibv_ah_attr.port_num(ibv_qp_attr.ah_attr(attr), (byte) 1);
            assertEquals(0, verbs.modify(handles.get(handles.size() - 1), attr, verbs_h.IBV_QP_STATE() | mask));
        }

        void connect() {
            modify(verbs_h.IBV_QPS_INIT(), 0, verbs_h.IBV_QP_PORT());
            modify(verbs_h.IBV_QPS_RTR(), 1, verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_DEST_QPN() | verbs_h.IBV_QP_MIN_RNR_TIMER());
        }

        int timer() {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            assertEquals(0, verbs.query(handles.get(0), attr, 0, ibv_qp_init_attr.allocate(arena)));
            return ibv_qp_attr.min_rnr_timer(attr);
        }

        Qp qp() {
            return model.qps.inOrder().get(0);
        }
    }

    @BeforeEach
    @BeforeTry
    void begin() throws IOException {
        folder = Files.createTempDirectory("receivers");
        processes.clear();
        realHandles = 0;
        realNumber = NUMBER;
        for (int i = 0; i < PROCESSES; i++) {
            processes.add(new Process(i));
        }
    }

    @AfterEach
    @AfterTry
    void end() throws IOException {
        if (Files.exists(folder.resolve("xrc"))) {
            for (final Path file : Files.list(folder.resolve("xrc")).toList()) {
                Files.delete(file);
            }
            Files.delete(folder.resolve("xrc"));
        }
        Files.delete(folder);
    }

    private Set<Integer> findHomes(final Set<Integer> alive) throws Refusal {
        final Map<Long, Integer> ranks = new HashMap<>();
        alive.forEach(r -> ranks.put(processes.get(r).verbs.receivers().self(), r));
        final Set<Integer> homes = new LinkedHashSet<>();
        for (final int r : alive) {
            processes.get(r).verbs.receivers().findHomes(ranks);
            for (final Qp qp : processes.get(r).model.qps.inOrder()) {
                if (qp.home) {
                    homes.add(r);
                }
            }
        }
        return homes;
    }

    /**
     * Whatever they do, in whichever order: there is one home as long as anybody has it open, all know what any has set, and the
     * queue pair has ended, for its peer, when the last handle of all is gone, and not before.
     */
    @Property(tries = 200)
    void oneSpeaksForAll(@ForAll @Size(max = 40) final List<@IntRange(max = 11) Integer> steps) throws Exception {
        processes.get(0).create();
        processes.get(0).connect();
        int timer = 1;
        for (final int step : steps) {
            final Process p = processes.get(step % PROCESSES);
            switch (step / PROCESSES) {
                case 0:
                    if (realHandles > 0) {
                        p.open();
                    } else {
                        assertEquals(VerbsErrno.EINVAL, assertThrows(VerbsException.class, p::open).errno());
                    }
                    break;
                case 1:
                    if (!p.handles.isEmpty()) {
                        p.destroy();
                    }
                    break;
                default:
                    if (!p.handles.isEmpty()) {
                        p.modify(verbs_h.IBV_QPS_RTR(), ++timer, verbs_h.IBV_QP_MIN_RNR_TIMER());
                    }
            }
            final Set<Integer> holders = new HashSet<>();
            int ended = 0;
            for (final Process q : processes) {
                if (!q.handles.isEmpty()) {
                    holders.add(q.rank);
                    assertEquals(timer, q.timer());
                }
                ended += q.model.tombstones().size();
            }
            assertEquals(holders.isEmpty() ? 0 : 1, findHomes(Set.of(0, 1, 2, 3)).size());
            assertEquals(holders.isEmpty() ? 1 : 0, ended);
            assertEquals(holders.isEmpty(), realHandles == 0);
        }
    }

    /** Who has died without a word is no home, and does not count. */
    @Test
    void theDeadDoNotSpeak() throws Exception {
        processes.get(2).create();
        processes.get(1).open();
        processes.get(0).open();
        assertEquals(Set.of(2), findHomes(Set.of(0, 1, 2)));
        assertEquals(Set.of(1), findHomes(Set.of(0, 1)));
        processes.get(0).verbs.receivers().findHomesAmong(Set.of(0));
        assertTrue(processes.get(0).qp().home);
        processes.get(1).verbs.receivers().findHomesAmong(Set.of(0, 1));
        assertTrue(processes.get(1).qp().home);
    }

    /** The home publishes it under the addresses of the process that has made it, and nobody else does. */
    @Test
    void itsPeerFindsItWhereItWasMade() throws Exception {
        processes.get(1).create();
        processes.get(2).open();
        processes.get(2).connect();
        final String key = QpRecord.keyByLid(QpRecord.Kind.CLOSED, LID + 1, NUMBER);
        for (final boolean there : new boolean[] {true, false}) {
            findHomes(Set.of(1, 2));
            final Map<String, byte[]> found = new HashMap<>();
            for (final int r : new int[] {1, 2}) {
                Ports.ensure(processes.get(r).device.as(Backend.class), processes.get(r).context, IdMasks.IDENTITY);
                final PeerTable table = new PeerTable(processes.get(r).model, r);
                table.refresh();
                table.published(QpRecord.Kind.CLOSED).forEach((k, v) -> assertEquals(null, found.put(k, v)));
            }
            assertEquals(Set.of(key), found.keySet());
            final QpRecord record = QpRecord.decode(found.get(key));
            assertEquals(there ? 1 : 2, record.rank);
            assertEquals(PEER, record.destQpNum);
            assertEquals(verbs_h.IBV_QPS_RTR(), record.state);
            if (there) {
                processes.get(1).destroy();
                assertEquals(1, processes.get(1).library.count("qpLeave"));
            }
        }
        assertFalse(processes.get(2).library.calls.stream().anyMatch(c -> c.startsWith("qpLeave")));
    }

    /** Made anew by the one, it is opened by the others, whatever its number is now. */
    @Test
    void onlyTheHomeMakesItAnew() throws Exception {
        processes.get(0).create();
        processes.get(3).open();
        processes.get(3).connect();
        processes.get(0).destroy();
        processes.get(2).open();
        assertEquals(Set.of(3), findHomes(Set.of(0, 2, 3)));
        realHandles = 0;
        realNumber = NUMBER + 1;
        processes.get(3).verbs.recreate(processes.get(3).qp());
        processes.get(3).verbs.receivers().register(processes.get(3).qp());
        processes.get(2).xrc.openAnew(processes.get(2).qp());
        assertEquals(2, realHandles);
        processes.get(1).open();
        assertEquals(3, realHandles);
        assertEquals(1, processes.get(1).timer());
    }

    /** Two runs of counts that nobody can tell apart. */
    @Test
    void whatWasResetWhileSharedIsRefused() throws Exception {
        processes.get(0).create();
        processes.get(0).connect();
        processes.get(1).open();
        findHomes(Set.of(0, 1));
        processes.get(1).modify(verbs_h.IBV_QPS_RESET(), 0, 0);
        assertTrue(assertThrows(Refusal.class, () -> findHomes(Set.of(0, 1))).getMessage().contains("was reset while several"));
    }

    /** The file is gone, by whatever hand: nobody could make the queue pair anew. */
    @Test
    void whatIsNotRegisteredAnyMoreIsRefused() throws Exception {
        processes.get(0).create();
        processes.get(1).open();
        Files.delete(processes.get(1).qp().shared);
        assertTrue(assertThrows(Refusal.class, () -> findHomes(Set.of(1))).getMessage().contains("not in the register"));
    }

    /** Another process, which has the lock until its input ends. */
    static final class LockHolder {
        public static void main(final String[] args) throws IOException {
            try (FileChannel channel = FileChannel.open(Path.of(args[0]), StandardOpenOption.WRITE)) {
                channel.lock();
                System.out.println("locked");
                while (System.in.read() >= 0) {
                    continue;
                }
            }
        }
    }

    /** Who waits says for what, again and again, and does not give up. */
    @Test
    @Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD) // else a wait of which nothing is said never ends
    void aLockThatAnotherProcessHoldsIsWaitedForAndNamed() throws Exception {
        final Process p = processes.get(0);
        p.create();
        final Path file = p.qp().shared;
        final Path lock = file.resolveSibling("lock");
        final BlockingQueue<Object> said = new LinkedBlockingQueue<>();
        p.library.answer("say", args -> said.add(args[0]));
        final SharedReceivers receivers = new SharedReceivers(p.library.as(Native.class),
                new ChosenBackend(p.device.as(Backend.class)), p.model,
                p.job, Duration.ofMillis(1));
        final FutureTask<Integer> number = new FutureTask<>(() -> receivers.locked(file, () -> receivers.read(file).realQpNum()));
        final java.lang.Process holder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp", System.getProperty("java.class.path"), LockHolder.class.getName(), lock.toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            assertEquals("locked", holder.inputReader().readLine());
            Thread.ofPlatform().daemon().start(number);
            for (int reports = 0; reports < 3; reports++) {
                assertEquals("still waits for " + lock + ", the lock of XRC's shared queue pairs, which another process of the job"
                        + " holds", said.take());
            }
            assertFalse(number.isDone());
        } finally {
            holder.outputWriter().close();
            holder.waitFor();
        }
        assertEquals(NUMBER, number.get());
    }

    /** A number that the device knows, but no process of the job. */
    @Test
    void whatNobodyOfTheJobHasMadeIsRefusedByName() {
        realHandles = 1;
        final VerbsException e = assertThrows(VerbsException.class, processes.get(0)::open);
        assertEquals(VerbsErrno.EOPNOTSUPP, e.errno());
        assertTrue(e.getMessage().contains("no process of this job on this host has made"));
        assertEquals(1, realHandles);
    }
}
