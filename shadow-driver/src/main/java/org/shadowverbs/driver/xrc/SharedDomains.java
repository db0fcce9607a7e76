// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.xrc;

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
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.drain.Pairing;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.DomainMember;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * Finds, at the closed gate, which processes share which XRC domains, and refuses what the drain could not count. All
 * processes that have a domain's file open on one device share the domain. Requests through the queue pair of one may name a
 * shared receive queue of another, which takes the message, and whose regions the requests reach. So sharers drain their domain
 * together ({@link org.shadowverbs.driver.drain.DomainDrain}). A sender is refused when the processes that are left cannot tell
 * what has become of its requests.
 */
public final class SharedDomains {
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
    public interface Lookup {
        Map<String, byte[]> find(Set<String> keys) throws IOException;
    }

    /** A queue that a connection has named, and that its peer's process does not have. */
    private record Suspect(Connection connection, DomainMember peer, String domain, int number) {
        /** Where its owners are found: who has it, and who had one of its number. */
        List<String> keys() {
            return List.of(ofQueue(domain, number), ofEndedQueue(domain, number));
        }
    }

    /**
     * @param self what this process is known by in the register of {@link SharedReceivers}
     * @param targets the numbers that an XRC queue pair has named since RESET; null: too many to be known
     */
    public SharedDomains(final Model model, final int rank, final long self, final Function<Context, String> device,
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
    public static String ofDevice(final String name) throws IOException {
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

    /** Beside that of a queue that lives: the device may have given its number to another process. */
    private static String ofEndedQueue(final String domain, final int number) {
        return "x/t/" + domain + '/' + Integer.toHexString(number);
    }

    private static String ofEnded(final String domain, final int number) {
        return "x/e/" + domain + '/' + Integer.toHexString(number);
    }

    private static String ofQueuePair(final int rank, final int sequence) {
        return "x/q/" + rank + '/' + sequence;
    }

    public boolean any() {
        return !keys.isEmpty();
    }

    /**
     * The domains that this process has; of each its shared receive queues, those of before included, and the queue pairs
     * that receive, with the numbers of those that do so no more.
     */
    public void publish(final Map<String, byte[]> values) {
        publishNamed(values);
        if (keys.isEmpty()) {
            return;
        }
        final RecordWriter own = new RecordWriter(128).i64(self).i32(keys.size());
        keys.forEach((domain, key) -> write(own.i32(domain).text(key), ownReceivers(domain)));
        values.put(ofRank(rank), own.toByteArray());
        keys.forEach((domain, key) -> {
            final byte[] member = new DomainMember(rank, domain).encode();
            livingQueues(domain).forEach(number -> values.put(ofQueue(key, number), member));
            model.endedQueues(domain).forEach(number -> values.put(ofEndedQueue(key, number), member));
            model.endedReceivers(domain).forEach(number -> values.put(ofEnded(key, number), member));
        });
        for (final Qp qp : model.qps.inOrder()) {
            final String key = qp.xrcd == null || !qp.home ? null : keys.get(qp.xrcd.domain);
            if (key != null) {
                // Messages of a foreign one are counted by its number, not by a queue pair of this process.
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
        final Set<Integer> numbers = livingQueues(domain);
        numbers.addAll(model.endedQueues(domain));
        return numbers;
    }

    private Set<Integer> livingQueues(final int domain) {
        final Set<Integer> numbers = new TreeSet<Integer>();
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
    public Map<Integer, List<DomainMember>> sharers(final List<Integer> ranks, final Lookup lookup) throws IOException {
        final Set<String> wanted = new HashSet<String>();
        ranks.forEach(r -> wanted.addAll(List.of(ofRank(r), ofSenders(r))));
        final Map<String, byte[]> found = find(lookup, keys.isEmpty() ? Set.of() : wanted);
        final Map<Integer, List<DomainMember>> sharers = new HashMap<Integer, List<DomainMember>>();
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
                final DomainMember member = new DomainMember(r, in.i32());
                final String key = in.text();
                final Set<Integer> numbers = new HashSet<Integer>();
                read(in, numbers);
                keys.forEach((domain, own) -> {
                    if (own.equals(key)) {
                        receivers.get(domain).addAll(numbers);
                    }
                    if (own.equals(key) && (r != rank || member.domain() != domain)) {
                        sharers.computeIfAbsent(domain, d -> new ArrayList<DomainMember>()).add(member);
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

    /** The numbers of the domains with a file. */
    Set<Integer> numbers() {
        return keys.keySet();
    }

    /** The receive queue pairs that somebody has in a domain; once {@link #sharers} is found. */
    Set<Integer> receivers(final int domain) {
        return receivers.get(domain);
    }

    /** Those of some queues that a sender may have named; once {@link #sharers} is found. */
    Set<Integer> named(final Set<Integer> queues) {
        final Set<Integer> found = new HashSet<Integer>(queues);
        if (named != null) {
            found.retainAll(named);
        }
        return found;
    }

    /** Those who have domains, by what the register knows them by; once {@link #sharers} is found. */
    public Map<Long, Integer> ranksById() {
        return ranksById;
    }

    /**
     * Finds whose queues the senders have named, and refuses what nobody could tell any more. To be called when all have
     * published.
     *
     * @param targets the numbers that an XRC queue pair has named since RESET; null: too many to be known
     * @param ranksHaveLeft some process of the job has ended
     */
    public static void check(final List<Connection> connections, final Function<Qp, int[]> targets, final boolean ranksHaveLeft,
            final Lookup lookup) throws Refusal, IOException {
        final Map<String, Connection> senders = new LinkedHashMap<String, Connection>();
        for (final Connection c : connections) {
            c.crossing = null;
            if (c.qp.type == verbs_h.IBV_QPT_XRC_SEND() && c.pairing == Pairing.CONNECTED) {
                senders.put(ofQueuePair(c.peer.rank, c.peer.sequence), c);
            }
        }
        final List<Suspect> suspects = new ArrayList<Suspect>();
        final Map<Connection, String> ended = new LinkedHashMap<Connection, String>();
        for (final Map.Entry<String, byte[]> e : find(lookup, senders.keySet()).entrySet()) {
            final Connection c = senders.get(e.getKey());
            ended.put(c, suspect(c, new RecordReader(e.getValue()), targets, suspects));
        }
        final Set<String> wanted = new HashSet<String>(ended.values());
        for (final Suspect s : suspects) {
            wanted.addAll(s.keys());
        }
        final Map<String, byte[]> found = find(lookup, wanted);
        for (final Suspect s : suspects) {
            final List<DomainMember> owners = new ArrayList<DomainMember>();
            for (final String key : s.keys()) {
                if (found.containsKey(key)) {
                    owners.add(DomainMember.read(new RecordReader(found.get(key))));
                }
            }
            crosses(s, owners, ranksHaveLeft);
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
            final List<Suspect> suspects) throws Refusal {
        final DomainMember peer = DomainMember.read(in);
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
                suspects.add(new Suspect(c, peer, key, number));
            }
        }
        return ofEnded(key, c.peer.qpNum);
    }

    /** @param owners who has, and who had, a queue of that number; none: no process of the job */
    private static void crosses(final Suspect named, final List<DomainMember> owners, final boolean ranksHaveLeft)
            throws Refusal {
        final Connection c = named.connection;
        if (!owners.isEmpty()) {
            c.crossing = c.crossing == null ? new Connection.Crossing(named.peer) : c.crossing;
            c.crossing.others.addAll(owners);
        } else if (ranksHaveLeft) {
            throw new Refusal(c.name() + ": its requests have named XRC's shared receive queue 0x"
                    + Integer.toHexString(named.number) + " of the peer's domain, which nobody has any more; if it was of a process"
                    + " that has ended, what had come to it is not known: that cannot be checkpointed");
        }
    }

    /** Over a backend whose domains are of one process each. */
    public static void refuseCrossing(final List<Connection> connections) throws Refusal {
        for (final Connection c : connections) {
            if (c.crossing != null) {
                throw new Refusal(c.name() + ": its requests have named XRC's shared receive queues of other processes than the"
                        + " peer's, which ib2tcp does not have: restart on the backend that it was on");
            }
        }
    }

    /** Processes that shared a domain may find themselves on different hosts, or devices. Who has died is missed by its own. */
    public static void checkStillShared(final List<Connection> connections, final List<OwnerRecord> owners) throws Refusal {
        final Map<DomainMember, String> now = new HashMap<DomainMember, String>();
        final Set<Integer> ranks = new HashSet<Integer>();
        for (final OwnerRecord owner : owners) {
            ranks.add(owner.rank);
            for (int i = 0; i < owner.contextCount(); i++) {
                owner.contextAt(i).domains.forEach((domain, key) -> now.put(new DomainMember(owner.rank, domain), key));
            }
        }
        for (final Connection c : connections) {
            for (final DomainMember other : c.crossing == null ? Set.<DomainMember>of() : c.crossing.others) {
                final String key = now.get(c.crossing.peer);
                if (ranks.contains(c.crossing.peer.rank()) && ranks.contains(other.rank())
                        && (key == null || !key.equals(now.get(other)))) {
                    throw new Refusal(c.name() + ": its requests have named XRC's shared receive queues of rank " + other.rank()
                            + ", whose domain is not the peer's any more: both must be restarted on one host and device");
                }
            }
        }
    }
}
