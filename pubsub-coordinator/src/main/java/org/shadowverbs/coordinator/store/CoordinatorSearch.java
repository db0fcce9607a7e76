// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.util.LinkedHashMap;
import java.util.Map;

/** Looks in a store that several hosts reach where coordinators are. For one thread; connects when it is first asked. */
public final class CoordinatorSearch implements AutoCloseable {
    private final StorePlace place;
    private RedisLink link;

    public CoordinatorSearch(final StorePlace place) {
        this.place = place;
    }

    private RedisLink link() throws StoreException {
        if (link == null) {
            link = new RedisLink(place);
        }
        return link;
    }

    /** Where the coordinator of that job is; null: the store does not know the job, or it is over. */
    @SuppressWarnings("resource") // the link stays open
    public Whereabouts look(final String key) throws StoreException {
        return new RedisJob(link(), key).look();
    }

    /** Where all coordinators are, by the keys of their jobs. */
    public Map<String, Whereabouts> all() throws StoreException {
        final Map<String, Whereabouts> all = new LinkedHashMap<>();
        for (final String key : RedisJob.all(link())) {
            final Whereabouts where = look(key);
            if (where != null && where.seat() != null) {
                all.put(key, where);
            }
        }
        return all;
    }

    @Override
    public void close() {
        if (link != null) {
            link.close();
            link = null;
        }
    }
}
