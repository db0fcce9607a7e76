// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.QpRecord;

/** Rank 0 says records to the ranks that its queue pairs are connected to. */
final class SaidRecordsTest {
    private static final int RANKS = 4;
    private static final int BLOCK = 64;

    private final List<Connection> own = new ArrayList<>();
    /** The other ends, in the same order, and by their ranks. */
    private final List<Connection> others = new ArrayList<>();
    private final Map<Integer, List<Connection>> byRank = new LinkedHashMap<>();

    private static Connection connection(final int sequence, final int peerRank, final int peerSequence) {
        final Connection c = new Connection(new Qp(0, 0, sequence, null, null, null, null, null, null, 2, 1, false, 0, 1, 1, 1, 1, 0));
        c.pairing = Pairing.CONNECTED;
        c.peer = new QpRecord(peerRank, peerSequence, 1, 3, 1, 0, Gid.ZERO, 7);
        return c;
    }

    private void connect(final int sequence, final int peerRank, final int peerSequence) {
        own.add(connection(sequence, peerRank, peerSequence));
        others.add(connection(peerSequence, 0, sequence));
        byRank.computeIfAbsent(peerRank, r -> new ArrayList<>()).add(others.getLast());
    }

    private static DrainRecord record(final long received) {
        return new DrainRecord(received, 0, 0, false, false, false, false, false, true, false, 0, 0, PoolRecord.NONE);
    }

    private static Map<String, byte[]> wanted(final Map<String, byte[]> said, final SaidRecords by) {
        final Map<String, byte[]> found = new HashMap<>(said);
        found.keySet().retainAll(by.wanted());
        return found;
    }

    @Property(tries = 200)
    void eachHearsWhatIsSaidLastOfItsPeer(@ForAll final long seed, @ForAll @IntRange(min = 1, max = 300) final int connections) {
        own.clear();
        others.clear();
        byRank.clear();
        final Random random = new Random(seed);
        final int[] next = new int[RANKS];
        final Set<Integer> blocks = new HashSet<>();
        for (int i = 0; i < connections; i++) {
            next[0] += 1 + (random.nextInt(4) == 0 ? random.nextInt(100) : 0);
            final int peer = 1 + random.nextInt(RANKS - 1);
            next[peer] += 1 + (random.nextInt(4) == 0 ? random.nextInt(100) : 0);
            connect(next[0], peer, next[peer]);
            blocks.add(next[0] / BLOCK * RANKS + peer);
        }
        final SaidRecords says = new SaidRecords("b/", 0, own);
        final Map<Integer, SaidRecords> hear = new HashMap<>();
        byRank.forEach((rank, theirs) -> hear.put(rank, new SaidRecords("b/", rank, theirs)));
        final Map<Connection, Long> now = new HashMap<>();
        own.forEach(c -> now.put(c, random.nextLong()));
        final Map<Connection, Long> heard = new HashMap<>();
        for (int round = 0; round < 4; round++) {
            final Set<Connection> unknown = new HashSet<>();
            own.stream().filter(c -> random.nextInt(3) == 0).forEach(unknown::add);
            own.stream().filter(c -> random.nextInt(20) == 0).forEach(c -> now.put(c, random.nextLong()));
            final Map<String, byte[]> said = new HashMap<>();
            says.say(said, c -> unknown.contains(c) ? null : record(now.get(c)));
            assertTrue(said.size() <= blocks.size(), said.keySet() + " for " + blocks.size() + " blocks");
            hear.values().forEach(by -> by.hear(wanted(said, by)));
            for (int i = 0; i < own.size(); i++) {
                if (!unknown.contains(own.get(i))) {
                    heard.put(own.get(i), now.get(own.get(i)));
                }
                final DrainRecord got = others.get(i).heard;
                assertEquals(heard.get(own.get(i)), got == null ? null : (Long) got.received);
            }
            final Map<String, byte[]> again = new HashMap<>();
            says.say(again, c -> unknown.contains(c) ? null : record(now.get(c)));
            assertEquals(Map.of(), again, "what has not changed is not said again");
        }
    }

    @Test
    void onlyConnectedOnesTakePart() {
        connect(0, 1, 0);
        own.getFirst().pairing = Pairing.GONE;
        final SaidRecords says = new SaidRecords("b/", 0, own);
        final Map<String, byte[]> said = new HashMap<>();
        says.say(said, c -> record(1));
        assertTrue(said.isEmpty() && says.wanted().isEmpty());
    }

    @Test
    void anotherVersionIsNotRead() {
        connect(0, 1, 0);
        final SaidRecords hears = new SaidRecords("b/", 1, others);
        final Map<String, byte[]> said = new HashMap<>();
        new SaidRecords("b/", 0, own).say(said, c -> record(1));
        said.values().forEach(bytes -> bytes[0]++);
        assertThrows(IllegalArgumentException.class, () -> hears.hear(said));
        assertNull(others.getFirst().heard);
    }
}
