// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * What the ends of connections tell each other in the rounds of a drain. A rank says the records of its connections to another
 * rank in blocks, each under one key: all who pass on a value do so by its key, and a rank may have thousands of queue pairs to
 * few others. A block is said anew when one of its records has changed.
 */
final class SaidRecords {
    private static final int VERSION = 5;
    /** By so many bits of its number in order of creation a queue pair is in a block with others. */
    private static final int BLOCK_BITS = 6;
    private static final int RECORD_BYTES = 96;

    /** Own connections to one rank. */
    private static final class Block {
        final List<Connection> connections = new ArrayList<Connection>();
        byte[] said;
    }

    private final Map<String, Block> own = new LinkedHashMap<String, Block>();
    /** By the keys of the peers' blocks: own connections by the peers' numbers in order of creation. */
    private final Map<String, Map<Integer, Connection>> peers = new LinkedHashMap<String, Map<Integer, Connection>>();

    /**
     * @param scope the beginning of the keys
     * @param rank this one
     * @param connections those that are connected take part
     */
    SaidRecords(final String scope, final int rank, final Collection<Connection> connections) {
        for (final Connection c : connections) {
            c.said = null;
            if (c.pairing == Pairing.CONNECTED) {
                own.computeIfAbsent(key(scope, rank, c.peer.rank, c.qp.sequence), k -> new Block()).connections.add(c);
                peers.computeIfAbsent(key(scope, c.peer.rank, rank, c.peer.sequence), k -> new HashMap<Integer, Connection>())
                        .put(c.peer.sequence, c);
            }
        }
    }

    private static String key(final String scope, final int from, final int to, final int sequence) {
        return scope + Integer.toString(from) + '/' + Integer.toString(to) + '/' + Integer.toString(sequence >> BLOCK_BITS);
    }

    /** Adds what has changed since it was said last. @param now a connection's record; null: what was said of it stands */
    void say(final Map<String, byte[]> values, final Function<Connection, DrainRecord> now) {
        for (final Map.Entry<String, Block> e : own.entrySet()) {
            final Block block = e.getValue();
            final RecordWriter out = new RecordWriter(5 + block.connections.size() * RECORD_BYTES).i8(VERSION);
            for (final Connection c : block.connections) {
                final DrainRecord record = now.apply(c);
                c.said = record == null ? c.said : record;
                if (c.said != null) {
                    out.i8(1).i32(c.qp.sequence);
                    c.said.write(out);
                }
            }
            final byte[] bytes = out.i8(0).toByteArray();
            if (!Arrays.equals(bytes, block.said)) {
                block.said = bytes;
                values.put(e.getKey(), bytes);
            }
        }
    }

    /** The keys of all that peers say. */
    Collection<String> wanted() {
        return peers.keySet();
    }

    /** Takes what peers have said since this was called last. */
    void hear(final Map<String, byte[]> found) {
        for (final Map.Entry<String, Map<Integer, Connection>> e : peers.entrySet()) {
            final byte[] bytes = found.get(e.getKey());
            if (bytes != null) {
                final RecordReader in = new RecordReader(bytes).version(VERSION);
                while (in.i8() != 0) {
                    final Connection c = e.getValue().get(in.i32());
                    final DrainRecord record = DrainRecord.read(in);
                    if (c != null) {
                        c.heard = record;
                    }
                }
                in.end();
            }
        }
    }
}
