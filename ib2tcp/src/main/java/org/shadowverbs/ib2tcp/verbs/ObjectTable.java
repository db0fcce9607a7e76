// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;

/** The real objects of one kind, by the addresses of the structs that the program has. Used by the engine's thread only. */
public final class ObjectTable<T> {
    private final String kind;
    private final Map<Long, T> objects = new HashMap<Long, T>();

    /** @param kind for messages, with an article */
    public ObjectTable(final String kind) {
        this.kind = kind;
    }

    /** @throws DeviceException EINVAL: there is none at that address */
    T known(final long address) {
        final T object = objects.get(address);
        if (object == null) {
            throw new DeviceException(Posix.EINVAL, "find " + kind + " at 0x" + Long.toHexString(address));
        }
        return object;
    }

    /** The object, or null. */
    T find(final long address) {
        return objects.get(address);
    }

    public void add(final long address, final T object) {
        objects.put(address, object);
    }

    void remove(final long address) {
        objects.remove(address);
    }

    int size() {
        return objects.size();
    }

    /** One that the program knows by several addresses is there as often. */
    Collection<T> all() {
        return objects.values();
    }

    /** The addresses of those that belong to a context, which is the first field of every verbs struct. */
    List<Long> of(final long context) {
        final List<Long> of = new ArrayList<Long>();
        for (final Long object : objects.keySet()) {
            if (Memory.i64(object) == context) {
                of.add(object);
            }
        }
        return of;
    }
}
