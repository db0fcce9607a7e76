// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * An XRC domain in the drain, together with the other processes that have it open, if any. Messages for one queue pair come
 * to several queues, whose completions are looked at one after the other, perhaps by several processes: added up, such counts
 * may be of no moment at all, with a message in them but not the one before it. So all look again and again, and none takes
 * its next look before it has heard of the last one of all others. What did not change from one look of all to the next was
 * so in between: this is a {@link View}, and only from such the senders are told what has been received, and what is left.
 * Completions of one queue pair become visible in the order of its messages, as they do on a device.
 *
 * <p>All have the same view of a look, so that all come to the same conclusions without asking: who posts a landing, and
 * when nobody needs anything any more.
 */
final class DomainDrain {
    /** What is true of the whole domain. */
    static final class View {
        final Pool pool;
        final List<User> users;
        /** Nobody can consume anything any more, and all senders know of all landings. */
        final boolean settled;
        private final Map<Integer, Long> received = new HashMap<Integer, Long>();

        private View(final Pool pool, final List<User> users) {
            this.pool = pool;
            this.users = users;
            settled = pool.settled(users);
            users.forEach(user -> received.putIfAbsent(user.number, user.received));
        }

        /** Messages for a queue pair of that number, wherever they came to. */
        long received(final int number) {
            return received.getOrDefault(number, 0L);
        }
    }

    private record User(int number, long received, DrainRecord heard) implements Pool.User {
    }

    /** What a process says: its last look, and the one before for those who have not come that far. */
    private record Looks(long last, Share now, Share before) {
        byte[] encode() {
            final RecordWriter out = new RecordWriter(512).i8(VERSION).i64(last).i8(before == null ? 0 : 1);
            now.write(out);
            if (before != null) {
                before.write(out);
            }
            return out.toByteArray();
        }

        static Looks decode(final byte[] bytes) {
            final RecordReader in = new RecordReader(bytes).version(VERSION);
            final long last = in.i64();
            final boolean two = in.i8() != 0;
            final Looks looks = new Looks(last, Share.read(in), two ? Share.read(in) : null);
            in.end();
            return looks;
        }

        /** At that look, which is the last one or the one before. */
        Share at(final long look) {
            return look == last ? now : look == last - 1 ? before : null;
        }
    }

    private static final int VERSION = 2;

    /** This process' own queues, as they are now. */
    final List<Pool.Queue> queues = new ArrayList<Pool.Queue>();
    private final String self;
    private final SortedMap<String, Looks> members = new TreeMap<String, Looks>();
    /** As of the look before the last one. */
    private final Map<String, Share> previous = new HashMap<String, Share>();
    private long look;
    private long landingsPosted;
    private View view;
    private boolean still;
    private boolean finished;

    /** @param self the name of this process' part among {@code others} */
    DomainDrain(final String self, final List<String> others) {
        this.self = self;
        members.put(self, null);
        others.forEach(other -> members.put(other, null));
    }

    boolean shared() {
        return members.size() > 1;
    }

    /** To be published under its name; null: it has not looked yet. */
    byte[] said() {
        return look == 0 ? null : members.get(self).encode();
    }

    void hear(final String member, final byte[] said) {
        members.put(member, Looks.decode(said));
    }

    /** The others. */
    List<String> others() {
        final List<String> others = new ArrayList<String>(members.keySet());
        others.remove(self);
        return others;
    }

    /**
     * Concludes from the last look of all, when all have told of it.
     *
     * @return whether this process is to look again
     */
    boolean conclude() {
        still = false;
        for (final Looks looks : members.values()) {
            if (look > 0 && (looks == null || looks.last < look)) {
                return false;
            }
        }
        if (look > 0) {
            compare();
        }
        return true;
    }

    private void compare() {
        boolean same = previous.size() == members.size();
        final Map<String, Share> shares = new HashMap<String, Share>();
        for (final Map.Entry<String, Looks> e : members.entrySet()) {
            final Share share = e.getValue().at(look);
            same = same && share != null && share.sameCounts(previous.get(e.getKey()));
            shares.put(e.getKey(), share);
        }
        previous.clear();
        previous.putAll(shares);
        if (same) {
            still = true;
            view = view(shares);
            finished |= view.settled;
        }
    }

    private View view(final Map<String, Share> shares) {
        final Pool pool = new Pool(true);
        final List<User> users = new ArrayList<User>();
        for (final String name : members.keySet()) {
            final Share share = shares.get(name);
            pool.queues.addAll(share.queues);
            pool.landingsPosted += share.landingsPosted;
            for (final Share.Target target : share.targets) {
                users.add(new User(target.number(), target.received() + foreignQps(target.number(), shares), target.heard()));
            }
        }
        return new View(pool, users);
    }

    /** Messages for a queue pair in the queues of others. No request has named these by a number that was another's. */
    private static long foreignQps(final int number, final Map<String, Share> shares) {
        long received = 0;
        for (final Share share : shares.values()) {
            if (share.ended.contains(number)) {
                return 0;
            }
            final Long here = share.foreignQps.get(number);
            received += here == null ? 0 : here;
        }
        return received;
    }

    /** The last one; null: there was none yet. */
    View view() {
        return view;
    }

    /** A landing that this process is to post now. */
    Pool.Landing landing() {
        final Pool.Landing landing = still && !finished ? view.pool.landing(view.users) : null;
        if (landing != null) {
            for (final Pool.Queue queue : queues) {
                if (queue.number == landing.queue.number) {
                    return new Pool.Landing(queue, landing.length);
                }
            }
        }
        return null;
    }

    void landed(final Pool.Queue queue) {
        queue.landings++;
        landingsPosted++;
        still = false;
    }

    /** @param share the counts for other processes' queue pairs, and the targets; the own queues are added here */
    void look(final Share share) {
        for (final Pool.Queue queue : queues) {
            final Pool.Queue copy = new Pool.Queue(null, queue.number);
            copy.receives = queue.receives;
            copy.landings = queue.landings;
            share.queues.add(copy);
        }
        share.landingsPosted = landingsPosted;
        final Looks before = members.get(self);
        look++;
        members.put(self, new Looks(look, share, before == null ? null : before.now));
    }

    /** Nothing moved at the last look of all, and all senders know of all landings. */
    boolean settled() {
        return still && view.pool.isKnownTo(view.users);
    }

    /** Nobody can consume anything any more, be it posted already or not, and all others will see that, too. */
    boolean finished() {
        return finished;
    }
}
