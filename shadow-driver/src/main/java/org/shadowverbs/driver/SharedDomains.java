// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.shadowverbs.bindings.verbs.verbs_h;

/**
 * XRC domains that have a file are those of all processes that have it open on one device. While each uses its own queue
 * pairs and shared receive queues, that concerns nobody. But requests through the queue pair of one process may name a
 * shared receive queue of another, which takes the message and whose regions they reach: of such a connection neither
 * process could say what has arrived. Only the sender knows which queues it has named, only their owners whose they are;
 * so all publish the latter, and who has named one that is not its peer's asks for it. Used at the closed gate, before
 * anything is touched.
 */
final class SharedDomains {
    private static final Path BOOT = Path.of("/proc/sys/kernel/random/boot_id");

    private final Model model;
    private final int rank;
    /** What each domain with a file is known by in the job. */
    private final Map<Xrcd, String> domains = new HashMap<Xrcd, String>();

    /** Asks for what has been published: the keys that are not found are not in the answer. */
    interface Lookup {
        Map<String, byte[]> find(Set<String> keys) throws IOException;
    }

    /** A queue that a connection has named, and that its peer does not know. */
    private record Named(Connection connection, int number) {
    }

    /** @param device what the device that a context has open is known by on this host, by all who share domains through it */
    SharedDomains(final Model model, final int rank, final Function<Context, String> device) throws Refusal {
        this.model = model;
        this.rank = rank;
        for (final Xrcd xrcd : model.xrcds.inOrder()) {
            if (xrcd.fd >= 0) {
                try {
                    final Map<String, Object> found = Files.readAttributes(
                            Path.of("/proc/self/fd", Integer.toString(xrcd.fd)), "unix:dev,ino");
                    domains.put(xrcd, Files.readString(BOOT).strip() + '/' + device.apply(xrcd.context) + '/'
                            + found.get("dev") + ':' + found.get("ino"));
                } catch (IOException e) {
                    throw new Refusal("the file of an XRC domain cannot be read: " + e.getMessage());
                }
            }
        }
    }

    private static String ofQueue(final String domain, final int number) {
        return "x/s/" + domain + '/' + Integer.toHexString(number);
    }

    private static String ofQueuePair(final int rank, final int sequence) {
        return "x/q/" + rank + '/' + sequence;
    }

    /** Whose each shared receive queue is, and of each queue pair that receives its domain, and the queues that it has here. */
    void publish(final Map<String, byte[]> values) {
        final byte[] own = ByteBuffer.allocate(Integer.BYTES).putInt(rank).array();
        for (final Srq srq : model.srqs.inOrder()) {
            final String domain = domains.get(srq.xrcd);
            if (domain != null) {
                values.put(ofQueue(domain, srq.virtualNumber), own);
            }
        }
        for (final Qp qp : model.qps.inOrder()) {
            final String domain = domains.get(qp.xrcd);
            if (domain != null) {
                final StringBuilder record = new StringBuilder(domain);
                for (final Srq srq : model.srqs.inOrder()) {
                    if (qp.receivesFrom(srq)) {
                        record.append(' ').append(srq.virtualNumber);
                    }
                }
                values.put(ofQueuePair(rank, qp.sequence), record.toString().getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    /**
     * To be called when all have published.
     *
     * @param targets the numbers that an XRC queue pair has named; null: too many to be known
     */
    static void check(final List<Connection> connections, final Function<Qp, int[]> targets, final Lookup lookup)
            throws Refusal, IOException {
        final Map<String, Connection> senders = new LinkedHashMap<String, Connection>();
        for (final Connection c : connections) {
            if (c.qp.type == verbs_h.IBV_QPT_XRC_SEND() && c.pairing == Pairing.CONNECTED) {
                senders.put(ofQueuePair(c.peer.rank, c.peer.sequence), c);
            }
        }
        final Map<String, Named> suspects = new LinkedHashMap<String, Named>();
        for (final Map.Entry<String, byte[]> e : find(lookup, senders.keySet()).entrySet()) {
            suspect(senders.get(e.getKey()), new String(e.getValue(), StandardCharsets.UTF_8).split(" "), targets,
                    suspects);
        }
        for (final Map.Entry<String, byte[]> e : find(lookup, suspects.keySet()).entrySet()) {
            final Named named = suspects.get(e.getKey());
            throw new Refusal(named.connection.name() + ": its requests have named XRC's shared receive queue 0x"
                    + Integer.toHexString(named.number) + ", which is of rank " + ByteBuffer.wrap(e.getValue()).getInt()
                    + " in another device context of the peer's domain: that cannot be checkpointed");
        }
    }

    private static Map<String, byte[]> find(final Lookup lookup, final Set<String> keys) throws IOException {
        return keys.isEmpty() ? Map.of() : lookup.find(keys);
    }

    private static void suspect(final Connection c, final String[] peer, final Function<Qp, int[]> targets,
            final Map<String, Named> suspects) throws Refusal {
        final int[] named = targets.apply(c.qp);
        if (named == null) {
            throw new Refusal(c.name() + ": its requests have named too many of XRC's shared receive queues to know that all are of"
                    + " the peer's process, and its domain has a file: that cannot be checkpointed");
        }
        final Set<String> known = new HashSet<String>(List.of(peer));
        for (final int number : named) {
            if (!known.contains(Integer.toString(number))) {
                suspects.put(ofQueue(peer[0], number), new Named(c, number));
            }
        }
    }
}
