// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/**
 * The resources of one family by the address of their virtual struct, in order of creation. Thread-safe; the resources have
 * monitors of their own.
 */
public final class Table<R extends Resource> {
    private final LinkedHashMap<Long, R> byVirtual = new LinkedHashMap<Long, R>();
    private final String family;

    Table(final String family) {
        this.family = family;
    }

    public synchronized void add(final R resource) {
        byVirtual.put(resource.virtual, resource);
    }

    /** @throws VerbsException EINVAL: there is none at that address */
    public synchronized R get(final long virtual) {
        final R resource = byVirtual.get(virtual);
        if (resource == null) {
            throw new VerbsException(VerbsErrno.EINVAL, "a verb was given a " + family + " (0x"
                    + Long.toHexString(virtual) + ") that does not exist");
        }
        return resource;
    }

    /** @return null: there is none at that address */
    public synchronized R find(final long virtual) {
        return byVirtual.get(virtual);
    }

    public synchronized void remove(final R resource) {
        byVirtual.remove(resource.virtual);
    }

    public synchronized int size() {
        return byVirtual.size();
    }

    public synchronized List<R> inOrder() {
        return new ArrayList<R>(byVirtual.values());
    }
}
