// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * XRC domains that have a file are those of all processes that have it open on one device. Requests through the queue pair
 * of one may name a shared receive queue of another, which takes the message and whose regions they reach. Here, at the
 * closed gate and before anything is touched, each process finds out with whom it shares, so that they drain their domain
 * together ({@link DomainDrain}), and each sender, whether what it has sent can be told by those who are there.
 */
final class SharedDomains {
    private static final Path BOOT = Path.of("/proc/sys/kernel/random/boot_id");

    private final Model model;
    private final int rank;
    private final long self;
    private final Map<Long, Integer> ranksById = new HashMap<Long, Integer>();
    /** What each domain with a file is known by in the job, by its number here. */
    private final Map<Integer, String> keys;
    private final Function<Qp, int[]> targets;
    /** By the number of each domain with a file: receive queue pairs that somebody has in it. */
    private final Map<Integer, Set<Integer>> receivers = new HashMap<Integer, Set<Integer>>();
    /** Shared receive queues that some queue pair of the job has named since its RESET; null: not all are known. */
    private Set<Integer> named = Set.of();

    /** Asks for what has been published: the keys that are not found are not in the answer. */
    interface Lookup {
        Map<String, byte[]> find(Set<String> keys) throws IOException;
    }

    /** A domain as one process has it. */
    record Member(int rank, int domain) {
        /** Among all of a domain, for keys. */
        String name() {
            return rank + "/" + domain;
        }

        private byte[] encode() {
            return new RecordWriter(8).i32(rank).i32(domain).toByteArray();
        }

        private static Member read(final RecordReader in) {
            return new Member(in.i32(), in.i32());
        }
    }

    /** A queue that a connection has named, and that its peer's process does not have. */
    private record Named(Connection connection, Member peer, int number) {
    }

    /**
     * @param self what this process is known by in the register of {@link SharedReceivers}
     * @param targets the numbers that an XRC queue pair has named since RESET; null: too many to be known
     */
    SharedDomains(final Model model, final int rank, final long self, final Function<Context, String> device,
            final Function<Qp, int[]> targets) throws Refusal {
        this.model = model;
        this.rank = rank;
        this.self = self;
        this.targets = targets;
        keys = keys(model.domains(), device);
    }

    /**
     * What each domain with a file is known by, to all who share it, by its number here.
     *
     * @param device what the device that a context has open is known by on this host; null: it shares nothing with other
     *        processes
     */
    static Map<Integer, String> keys(final List<Xrcd> xrcds, final Function<Context, String> device) throws Refusal {
        final Map<Integer, String> keys = new HashMap<Integer, String>();
        for (final Xrcd xrcd : xrcds) {
            final String name = xrcd.fd < 0 ? null : device.apply(xrcd.context);
            if (name != null) {
                try {
                    final Map<String, Object> found = Files.readAttributes(
                            Path.of("/proc/self/fd", Integer.toString(xrcd.fd)), "unix:dev,ino");
                    keys.put(xrcd.domain, ofDevice(name) + found.get("dev") + ':' + found.get("ino"));
                } catch (IOException e) {
                    throw new Refusal("the file of an XRC domain cannot be read: " + e.getMessage());
                }
            }
        }
        return keys;
    }

    /** What the keys of all domains of a device begin with. */
    static String ofDevice(final String name) throws IOException {
        return Files.readString(BOOT).strip() + '/' + name + '/';
    }

    private static String ofRank(final int rank) {
        return "x/m/" + rank;
    }

    private static String ofSenders(final int rank) {
        return "x/u/" + rank;
    }

    private static String ofQueue(final String domain, final int number) {
        return "x/s/" + domain + '/' + Integer.toHexString(number);
    }

    private static String ofEnded(final String domain, final int number) {
        return "x/e/" + domain + '/' + Integer.toHexString(number);
    }

    private static String ofQueuePair(final int rank, final int sequence) {
        return "x/q/" + rank + '/' + sequence;
    }

    boolean any() {
        return !keys.isEmpty();
    }

    /**
     * The domains that this process has; of each its shared receive queues, those of before included, and the queue pairs
     * that receive, with the numbers of those that do so no more.
     */
    void publish(final Map<String, byte[]> values) {
        publishNamed(values);
        if (keys.isEmpty()) {
            return;
        }
        final RecordWriter own = new RecordWriter(128).i64(self).i32(keys.size());
        keys.forEach((domain, key) -> write(own.i32(domain).text(key), ownReceivers(domain)));
        values.put(ofRank(rank), own.toByteArray());
        keys.forEach((domain, key) -> {
            final byte[] member = new Member(rank, domain).encode();
            queues(domain).forEach(number -> values.put(ofQueue(key, number), member));
            model.endedReceivers(domain).forEach(number -> values.put(ofEnded(key, number), member));
        });
        for (final Qp qp : model.qps.inOrder()) {
            final String key = qp.xrcd == null || !qp.home ? null : keys.get(qp.xrcd.domain);
            if (key != null) {
                // What a foreign one has brought this process has counted as that of a stranger.
                final Set<Integer> queues = qp.foreign ? Set.of() : queues(qp.xrcd.domain);
                final RecordWriter record = new RecordWriter(128).i32(rank).i32(qp.xrcd.domain).text(key);
                write(record, queues);
                values.put(ofQueuePair(rank, qp.sequence), record.toByteArray());
            }
        }
    }

    /** What the senders of this process have named. */
    private void publishNamed(final Map<String, byte[]> values) {
        final Set<Integer> all = new TreeSet<Integer>();
        boolean any = false;
        boolean known = true;
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.type == verbs_h.IBV_QPT_XRC_SEND()) {
                any = true;
                final int[] numbers = targets.apply(qp);
                known &= numbers != null;
                for (int i = 0; known && i < numbers.length; i++) {
                    all.add(numbers[i]);
                }
            }
        }
        if (any) {
            final RecordWriter record = new RecordWriter(128).i8(known ? 1 : 0);
            write(record, all);
            values.put(ofSenders(rank), record.toByteArray());
        }
    }

    private static void write(final RecordWriter out, final Set<Integer> numbers) {
        out.i32(numbers.size());
        numbers.forEach(out::i32);
    }

    private static void read(final RecordReader in, final Set<Integer> numbers) {
        for (int left = in.count(4); left > 0; left--) {
            numbers.add(in.i32());
        }
    }

    private Set<Integer> ownReceivers(final int domain) {
        final Set<Integer> numbers = new TreeSet<Integer>();
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.xrcd != null && qp.xrcd.domain == domain) {
                numbers.add(qp.virtualQpNum);
            }
        }
        return numbers;
    }

    private Set<Integer> queues(final int domain) {
        final Set<Integer> numbers = new TreeSet<Integer>(model.endedQueues(domain));
        for (final Srq srq : model.srqs.inOrder()) {
            if (srq.xrcd != null && srq.xrcd.domain == domain) {
                numbers.add(srq.virtualNumber);
            }
        }
        return numbers;
    }

    /**
     * The others who have a domain of this process open, by its number here; those that nobody else has are not in it. To be
     * called when all have published.
     *
     * @param ranks all that take part
     */
    Map<Integer, List<Member>> sharers(final List<Integer> ranks, final Lookup lookup) throws IOException {
        final Set<String> wanted = new HashSet<String>();
        ranks.forEach(r -> wanted.addAll(List.of(ofRank(r), ofSenders(r))));
        final Map<String, byte[]> found = find(lookup, keys.isEmpty() ? Set.of() : wanted);
        final Map<Integer, List<Member>> sharers = new HashMap<Integer, List<Member>>();
        named = new HashSet<Integer>();
        keys.keySet().forEach(domain -> receivers.put(domain, new HashSet<Integer>()));
        for (final int r : ranks) {
            readNamed(found.get(ofSenders(r)));
            final byte[] record = found.get(ofRank(r));
            final RecordReader in = record == null ? null : new RecordReader(record);
            if (in != null) {
                ranksById.put(in.i64(), r);
            }
            for (int left = in == null ? 0 : in.count(12); left > 0; left--) {
                final Member member = new Member(r, in.i32());
                final String key = in.text();
                final Set<Integer> numbers = new HashSet<Integer>();
                read(in, numbers);
                keys.forEach((domain, own) -> {
                    if (own.equals(key)) {
                        receivers.get(domain).addAll(numbers);
                    }
                    if (own.equals(key) && (r != rank || member.domain != domain)) {
                        sharers.computeIfAbsent(domain, d -> new ArrayList<Member>()).add(member);
                    }
                });
            }
        }
        return sharers;
    }

    private void readNamed(final byte[] record) {
        final RecordReader in = record == null ? null : new RecordReader(record);
        if (in != null && in.i8() == 0) {
            named = null;
        }
        if (in != null && named != null) {
            read(in, named);
        }
    }

    /** Of the domains with a file. */
    Set<Integer> numbers() {
        return keys.keySet();
    }

    /** The receive queue pairs that somebody has in a domain; once {@link #sharers} is found. */
    Set<Integer> receivers(final int domain) {
        return receivers.get(domain);
    }

    /** Of some queues, those that a sender may have named; likewise. */
    Set<Integer> named(final Set<Integer> queues) {
        final Set<Integer> found = new HashSet<Integer>(queues);
        if (named != null) {
            found.retainAll(named);
        }
        return found;
    }

    /** Those who have domains, by what the register knows them by; once {@link #sharers} is found. */
    Map<Long, Integer> ranksById() {
        return ranksById;
    }

    /**
     * Finds whose queues the senders have named, and refuses what nobody could tell any more. To be called when all have
     * published.
     *
     * @param targets the numbers that an XRC queue pair has named since RESET; null: too many to be known
     * @param ranksHaveLeft some process of the job has ended
     */
    static void check(final List<Connection> connections, final Function<Qp, int[]> targets, final boolean ranksHaveLeft,
            final Lookup lookup) throws Refusal, IOException {
        final Map<String, Connection> senders = new LinkedHashMap<String, Connection>();
        for (final Connection c : connections) {
            c.crossing = null;
            if (c.qp.type == verbs_h.IBV_QPT_XRC_SEND() && c.pairing == Pairing.CONNECTED) {
                senders.put(ofQueuePair(c.peer.rank, c.peer.sequence), c);
            }
        }
        final Map<String, List<Named>> suspects = new LinkedHashMap<String, List<Named>>();
        final Map<Connection, String> ended = new LinkedHashMap<Connection, String>();
        for (final Map.Entry<String, byte[]> e : find(lookup, senders.keySet()).entrySet()) {
            final Connection c = senders.get(e.getKey());
            ended.put(c, suspect(c, new RecordReader(e.getValue()), targets, suspects));
        }
        final Set<String> wanted = new HashSet<String>(suspects.keySet());
        wanted.addAll(ended.values());
        final Map<String, byte[]> found = find(lookup, wanted);
        for (final Map.Entry<String, List<Named>> e : suspects.entrySet()) {
            final byte[] owner = found.get(e.getKey());
            for (final Named named : e.getValue()) {
                crosses(named, owner == null ? null : Member.read(new RecordReader(owner)), ranksHaveLeft);
            }
        }
        for (final Map.Entry<Connection, String> e : ended.entrySet()) {
            final Connection c = e.getKey();
            if (c.crossing != null && found.containsKey(e.getValue())) {
                throw new Refusal(c.name() + ": it has named XRC's shared receive queues of another process than the peer's, and"
                        + " before the peer there was another of its number, or it was reset: what came to these queues for"
                        + " either cannot be told apart, so that cannot be checkpointed");
            }
        }
    }

    private static Map<String, byte[]> find(final Lookup lookup, final Set<String> keys) throws IOException {
        return keys.isEmpty() ? Map.of() : lookup.find(keys);
    }

    /** @return the key that would be there, were the peer's number that of another before */
    private static String suspect(final Connection c, final RecordReader in, final Function<Qp, int[]> targets,
            final Map<String, List<Named>> suspects) throws Refusal {
        final Member peer = Member.read(in);
        final String key = in.text();
        final Set<Integer> known = new HashSet<Integer>();
        read(in, known);
        final int[] named = targets.apply(c.qp);
        if (named == null) {
            throw new Refusal(c.name() + ": its requests have named too many of XRC's shared receive queues to know whose they are,"
                    + " and its domain has a file: that cannot be checkpointed");
        }
        for (final int number : named) {
            if (!known.contains(number)) {
                suspects.computeIfAbsent(ofQueue(key, number), k -> new ArrayList<Named>()).add(new Named(c, peer, number));
            }
        }
        return ofEnded(key, c.peer.qpNum);
    }

    /** @param owner whose the queue is, or was; null: nobody's who is there */
    private static void crosses(final Named named, final Member owner, final boolean ranksHaveLeft) throws Refusal {
        final Connection c = named.connection;
        if (owner != null) {
            c.crossing = c.crossing == null ? new Connection.Crossing(named.peer) : c.crossing;
            c.crossing.others.add(owner);
        } else if (ranksHaveLeft) {
            throw new Refusal(c.name() + ": its requests have named XRC's shared receive queue 0x"
                    + Integer.toHexString(named.number) + " of the peer's domain, which nobody has any more; if it was of a process"
                    + " that has ended, what had come to it is not known: that cannot be checkpointed");
        }
    }

    /** Over a backend whose domains are of one process each. */
    static void refuseCrossing(final List<Connection> connections) throws Refusal {
        for (final Connection c : connections) {
            if (c.crossing != null) {
                throw new Refusal(c.name() + ": its requests have named XRC's shared receive queues of other processes than the"
                        + " peer's, which ib2tcp does not have: restart on the backend that it was on");
            }
        }
    }

    /** Processes that shared a domain may find themselves on different hosts, or devices. Who has died is missed by its own. */
    static void checkStillShared(final List<Connection> connections, final List<OwnerRecord> owners) throws Refusal {
        final Map<Member, String> now = new HashMap<Member, String>();
        final Set<Integer> ranks = new HashSet<Integer>();
        for (final OwnerRecord owner : owners) {
            ranks.add(owner.rank);
            for (int i = 0; i < owner.contextCount(); i++) {
                owner.contextAt(i).domains.forEach((domain, key) -> now.put(new Member(owner.rank, domain), key));
            }
        }
        for (final Connection c : connections) {
            for (final Member other : c.crossing == null ? Set.<Member>of() : c.crossing.others) {
                final String key = now.get(c.crossing.peer);
                if (ranks.contains(c.crossing.peer.rank) && ranks.contains(other.rank)
                        && (key == null || !key.equals(now.get(other)))) {
                    throw new Refusal(c.name() + ": its requests have named XRC's shared receive queues of rank " + other.rank
                            + ", whose domain is not the peer's any more: both must be restarted on one host and device");
                }
            }
        }
    }
}
