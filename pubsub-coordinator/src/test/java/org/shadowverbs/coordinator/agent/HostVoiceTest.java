// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.HostMessages.HostContribution;
import org.shadowverbs.coordinator.protocol.HostMessages.HostRanks;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;

/** What ranks have said is said once, in their order, and as soon as all of the host have; whatever comes between. */
class HostVoiceTest {
    private final List<Message> sent = new ArrayList<>();
    private int later;
    private final HostVoice voice = new HostVoice(sent::add, () -> later++);

    private static Contribute contribution(final int rank, final Phase phase, final int round) {
        return new Contribute(1, 0, (byte) phase.ordinal(), round, Map.of("k" + rank, new byte[] {(byte) rank}),
                Set.of("w" + rank % 2), rank % 3 != 0, rank % 4 == 0 ? "waits" : "");
    }

    @Example
    void whatAllRanksBringIsOneMessage() {
        for (int rank = 0; rank < 5; rank++) {
            voice.contributes("r" + rank, contribution(rank, Phase.CLOSE, 0), 5);
        }
        assertEquals(1, sent.size());
        final HostContribution all = (HostContribution) sent.getFirst();
        assertEquals(List.of("r0", "r1", "r2", "r3", "r4"), all.uids());
        assertEquals(Set.of("r0", "r3"), all.against());
        assertEquals(Map.of("r0", "waits", "r4", "waits"), all.notes());
        assertEquals(Set.of("k0", "k1", "k2", "k3", "k4"), all.publish().keySet());
        assertEquals(Set.of("w0", "w1"), all.want());
        assertEquals(1, later);
        voice.flush();
        assertEquals(1, sent.size());
    }

    /** The last one does not wait again. */
    @Example
    void whoIsLateIsSaidAtOnceWhenItIsTheLast() {
        voice.contributes("a", contribution(1, Phase.CLOSE, 0), 2);
        voice.flush();
        voice.contributes("b", contribution(2, Phase.CLOSE, 0), 2);
        assertEquals(2, sent.size());
        assertEquals(List.of("b"), ((HostContribution) sent.get(1)).uids());
    }

    @Example
    void longValuesDoNotMakeOneFrameTooLong() {
        for (int rank = 0; rank < 4; rank++) {
            voice.contributes("r" + rank, new Contribute(1, 0, (byte) 0, 0, Map.of("k" + rank, new byte[10 << 20]),
                    Set.of(), true, ""), 4);
        }
        voice.flush();
        assertEquals(4, sent.size());
    }

    /** @param turns of each: what is said (exchange 0 or 1, detached, gates open, flush), by rank and kind */
    @Property
    void nothingIsLostOrDoubledOrOvertaken(@ForAll @Size(max = 40) final List<@IntRange(max = 24) Integer> turns) {
        sent.clear();
        final List<String> said = new ArrayList<>();
        for (final int turn : turns) {
            final String uid = "r" + turn / 5;
            switch (turn % 5) {
                case 0, 1 -> voice.contributes(uid, contribution(turn / 5, Phase.DRAIN, turn % 5), 3);
                case 2 -> voice.detached(uid, 1, 3);
                case 3 -> voice.done(uid, 1, 0, Integer.MAX_VALUE);
                default -> voice.flush();
            }
            if (turn % 5 != 4) {
                said.add(uid + " " + turn % 5);
            }
        }
        voice.flush();
        final List<String> heard = new ArrayList<>();
        for (final Message message : sent) {
            switch (message) {
                case HostContribution c -> c.uids().forEach(uid -> heard.add(uid + " " + c.round()));
                case HostRanks r -> r.uids().forEach(uid -> heard.add(uid + (r.done() ? " 3" : " 2")));
                default -> throw new AssertionError(message);
            }
        }
        assertEquals(said, heard);
    }

    /**
     * What a rank gets is what it has asked for, whatever else has come for its host, and ranks that want the same
     * share it.
     */
    @Example
    void anAnswerIsCutToWhatEachRankWants() throws Exception {
        final HostAnswer.Wishes one = new HostAnswer.Wishes();
        one.are(new Contribute(1, 0, (byte) Phase.CONNECTED.ordinal(), 0, Map.of(), Set.of("x/{0-2}"), true, ""));
        final HostAnswer.Wishes same = new HostAnswer.Wishes();
        same.are(new Contribute(1, 0, (byte) Phase.CONNECTED.ordinal(), 0, Map.of(),
                new LinkedHashSet<>(Set.of("x/{0-2}")), true, ""));
        final HostAnswer.Wishes other = new HostAnswer.Wishes();
        other.are(new Contribute(1, 0, (byte) Phase.CONNECTED.ordinal(), 0, Map.of(), Set.of("x/7", "x/8"), true, ""));
        final Map<String, byte[]> values = new HashMap<>();
        for (int i = 0; i < 8; i++) {
            values.put("x/" + i, new byte[] {(byte) i});
        }
        final HostAnswer answer = new HostAnswer(new Answer(1, 0,
                (byte) Phase.CONNECTED.ordinal(), 0, values, true, 8, List.of(0, 7), List.of()), key -> null);
        assertEquals(Set.of("x/0", "x/1", "x/2"), found(answer.of(one)));
        assertSame(answer.of(one), answer.of(same));
        assertEquals(Set.of("x/7"), found(answer.of(other)));
    }

    private static Set<String> found(final byte[] frame) throws Exception {
        return ((Answer) Codec.decode(
                Arrays.copyOfRange(frame, 4, frame.length))).found().keySet();
    }
}
