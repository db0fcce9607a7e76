// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.Lids;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * Which GID is behind a lid, on a backend whose ports have no other lids than those that the job gives them: each is published,
 * under {@code lid/LID}, before its program sees it. Those that were carried over are in the address book.
 */
final class LidRegister {
    private static final Duration LOOKUP_DEADLINE = Duration.ofSeconds(30);

    private LidRegister() {
    }

    /** Who has published a lid; -1: nobody. */
    interface Owners {
        int of(int lid) throws IOException;
    }

    private static String key(final int lid) {
        return "lid/" + lid;
    }

    private static RecordReader read(final RankLink link, final int lid) throws IOException {
        final byte[] found = link.lookup(Set.of(key(lid)), LOOKUP_DEADLINE).get(key(lid));
        return found == null ? null : new RecordReader(found);
    }

    private static int owner(final RankLink link, final int lid) throws IOException {
        final RecordReader known = read(link, lid);
        return known == null ? -1 : known.i32();
    }

    /** A lid that a process may have and nobody else has had. */
    static int choose(final int rank, final AddressBook book, final Owners owners) throws IOException {
        for (int choice = 0; choice < Lids.CHOICES; choice++) {
            final int lid = Lids.of(rank, choice);
            final int owner = book.hasLid(lid) ? rank + 1 : owners.of(lid);
            if (owner < 0 || owner == rank) {
                return lid;
            }
        }
        throw new VerbsException(VerbsErrno.EIO, "no lid is left for rank " + rank);
    }

    static int choose(final RankLink link, final AddressBook book) throws IOException {
        return choose(link.rank(), book, lid -> owner(link, lid));
    }

    /** Returns when all can find it. */
    static void publish(final RankLink link, final int lid, final Gid gid) throws IOException {
        final Map<String, byte[]> values = new HashMap<String, byte[]>();
        values.put(key(lid), new RecordWriter(20).i32(link.rank()).gid(gid).toByteArray());
        link.publish(values);
        link.awaitCoordinator(LOOKUP_DEADLINE); // which takes messages in their order
    }

    /** @return null: no process has published it */
    static Gid find(final RankLink link, final int lid) throws IOException {
        final RecordReader known = read(link, lid);
        if (known == null) {
            return null;
        }
        known.i32();
        return known.gid();
    }
}
