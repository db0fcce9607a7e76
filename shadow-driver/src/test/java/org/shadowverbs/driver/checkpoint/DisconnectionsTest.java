// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingDeque;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.ids.IdMasks;

/** Two ranks, or one without an answer, that tell each other of the end of connections which a restart has lost. */
class DisconnectionsTest {
    private static final long TOKEN = 7;

    /** One rank: a connection with the token {@link #TOKEN}, what its program is told, and what it tells others. */
    private static final class End implements Disconnections.Others {
        final BlockingDeque<String> told = new LinkedBlockingDeque<>();
        final Fake library = new Fake(0x10_0000);
        final Model model = new Model(IdMasks.IDENTITY);
        final List<String> ended = new ArrayList<>();
        final BlockingDeque<String> said = new LinkedBlockingDeque<>();
        final AtomicLong seconds = new AtomicLong();
        final Disconnections disconnections = new Disconnections(library.as(Native.class), model, this,
                () -> TimeUnit.SECONDS.toNanos(seconds.get()));
        final Qp qp;
        volatile boolean noAgent;
        volatile boolean noCoordinator;

        End(final int own, final int peerRank, final int peers) {
            final Context context = new Context(1, 101, 5, "shadow0", 0, 0, 0, IdMasks.IDENTITY);
            final Cq cq = new Cq(6, context, null, 5, 10, 0, 0);
            qp = new Qp(TOKEN, 107, 0, context, new Pd(2, 102, context), null, cq, cq, null, verbs_h.IBV_QPT_RC(), own, false,
                    0, 10, 10, 1, 1, 0);
            final MemorySegment attr = ibv_qp_attr.allocate(Arena.ofAuto());
            ibv_qp_attr.dest_qp_num(attr, peers);
            qp.attributes.record(attr, verbs_h.IBV_QP_DEST_QPN());
            qp.peerRank = peerRank;
            model.qps.add(qp);
            library.answer("cmLost", args -> new long[] {TOKEN});
            library.answer("cmEnded", args -> ended.add(args[0] + " " + args[1]) ? null : null);
            library.answer("say", args -> said.add((String) args[0]) ? null : null);
            disconnections.takeOver();
        }

        @Override
        public void tell(final int rank, final byte[] what) throws IOException {
            if (noAgent) {
                throw new IOException("none");
            }
            told.add(rank + " " + Arrays.toString(what));
        }

        @Override
        public void awaitCoordinator() throws IOException {
            if (noAgent || noCoordinator) {
                throw new IOException("no sign of life");
            }
        }

        /** What is said when the peer has not answered in time. */
        String lateLine() throws InterruptedException {
            seconds.set(21);
            return said.poll(30, TimeUnit.SECONDS);
        }

        @Override
        public void leaveExitMessages(final List<Integer> ranks, final List<byte[]> what) {
            for (int i = 0; i < ranks.size(); i++) {
                told.add("will " + ranks.get(i) + " " + Arrays.toString(what.get(i)));
            }
        }
    }

    private static byte[] disconnect(final int own, final int peers) {
        return Disconnections.encode(Disconnections.DISCONNECT, own, peers);
    }

    private static byte[] disconnected(final int own, final int peers) {
        return Disconnections.encode(Disconnections.DISCONNECTED, own, peers);
    }

    @Test
    void whatThePeerSaysEndsTheConnectionOnce() {
        final End end = new End(11, 1, 22);
        final String answer = "1 " + Arrays.toString(disconnected(11, 22));
        end.disconnections.hear(1, disconnect(22, 11));
        assertEquals(List.of("7 0"), end.ended);
        assertEquals(answer, end.told.removeFirst());
        // It may not have got the answer.
        end.disconnections.hear(1, disconnect(22, 11));
        assertEquals(List.of("7 0"), end.ended);
        assertEquals(answer, end.told.removeFirst());
    }

    @Test
    void onlyThePeerOfTheConnectionEndsIt() {
        final End end = new End(11, 1, 22);
        end.disconnections.hear(2, disconnect(22, 11));
        end.disconnections.hear(1, disconnect(23, 11));
        end.disconnections.hear(1, disconnect(22, 12));
        end.disconnections.hear(1, disconnect(11, 22));
        assertEquals(List.of(), end.ended);
    }

    @Test
    void whoDisconnectsHasItsEventWhenThePeerHasAnswered() {
        final End end = new End(11, 1, 22);
        end.disconnections.disconnect(TOKEN);
        assertEquals(List.of(), end.ended);
        assertEquals("1 " + Arrays.toString(disconnect(11, 22)), end.told.removeFirst());
        end.disconnections.hear(1, disconnected(22, 11));
        assertEquals(List.of("7 0"), end.ended);
    }

    /** For an agent that comes back. */
    @Test
    void whoIsNotAnsweredAsksAgain() throws InterruptedException {
        final End end = new End(11, 1, 22);
        end.noAgent = true;
        end.disconnections.disconnect(TOKEN);
        assertEquals(0, end.told.size());
        end.noAgent = false;
        assertEquals("1 " + Arrays.toString(disconnect(11, 22)), end.told.poll(30, TimeUnit.SECONDS));
        assertEquals(List.of(), end.ended);
        end.disconnections.hear(1, disconnected(22, 11));
        assertEquals(List.of("7 0"), end.ended);
    }

    @Test
    void aPeerThatDoesNotAnswerInTimeIsNamed() throws InterruptedException {
        final End end = new End(11, 1, 22);
        end.disconnections.disconnect(TOKEN);
        assertEquals("queue pair 0xb (peer: queue pair 0x16 of rank 1) has waited 20 s for its peer to answer that it disconnects; "
                + "the program's event has status -ETIMEDOUT", end.lateLine());
        assertEquals(List.of("7 -110"), end.ended);
        // What comes now is too late, and answered all the same.
        end.told.clear();
        end.disconnections.hear(1, disconnect(22, 11));
        assertEquals(List.of("7 -110"), end.ended);
        assertEquals("1 " + Arrays.toString(disconnected(11, 22)), end.told.removeFirst());
        assertEquals(List.of(), List.copyOf(end.said));
    }

    @Test
    void aPeerThatNobodyCouldTellIsNotSaidToBeSilent() throws InterruptedException {
        final String toTell = "queue pair 0xb (peer: queue pair 0x16 of rank 1) has waited 20 s to tell its peer that it disconnects: ";
        final End alone = new End(11, 1, 22);
        alone.noAgent = true;
        alone.disconnections.disconnect(TOKEN);
        assertEquals(toTell + "none; the program's event has status -ETIMEDOUT", alone.lateLine());
        assertEquals(List.of("7 -110"), alone.ended);

        final End cutOff = new End(11, 1, 22);
        cutOff.noCoordinator = true;
        cutOff.disconnections.disconnect(TOKEN);
        assertEquals(toTell + "no sign of life; the program's event has status -ETIMEDOUT", cutOff.lateLine());
        assertEquals(List.of("7 -110"), cutOff.ended);
    }

    /** An agent that came back has been asked in time. */
    @Test
    void anAgentThatWasAwayForAWhileIsNoExcuse() throws InterruptedException {
        final End end = new End(11, 1, 22);
        end.noAgent = true;
        end.disconnections.disconnect(TOKEN);
        end.noAgent = false;
        assertEquals("1 " + Arrays.toString(disconnect(11, 22)), end.told.poll(30, TimeUnit.SECONDS));
        assertTrue(end.lateLine().contains("for its peer to answer"));
    }

    @Test
    void thePeerMayHaveDisconnectedAtTheSameTime() {
        final End end = new End(11, 1, 22);
        end.disconnections.disconnect(TOKEN);
        end.disconnections.hear(1, disconnect(22, 11));
        end.disconnections.hear(1, disconnected(22, 11));
        assertEquals(List.of("7 0"), end.ended);
    }

    @Test
    void ofOneThatNobodyKnowsItIsSaidAtOnce() {
        final End end = new End(11, -1, 22);
        end.disconnections.disconnect(TOKEN);
        assertEquals(List.of("7 -110"), end.ended);
    }

    @Test
    void aPeerThatWasLostHasDisconnected() {
        final End end = new End(11, 1, 22);
        end.disconnections.reattached();
        assertEquals(List.of(), end.ended);
        end.qp.peerGone = true;
        end.disconnections.reattached();
        assertEquals(List.of("7 0"), end.ended);
    }

    @Test
    void theWillSaysWhatTheProcessWouldHaveSaid() throws IOException {
        final End end = new End(11, 1, 22);
        final String will = "will 1 " + Arrays.toString(disconnect(11, 22));
        end.disconnections.leaveExitMessages();
        assertEquals(will, end.told.removeFirst());
        end.model.qps.remove(end.qp);
        end.disconnections.takeOver();
        end.disconnections.leaveExitMessages();
        assertEquals(will, end.told.removeFirst(), "its id may be there when the queue pair is not");
        end.disconnections.hear(1, disconnect(22, 11));
        assertTrue(end.ended.contains("7 0"));
    }
}
