// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.util.HashMap;
import java.util.IdentityHashMap;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.ExceptionSet;

/** The native tables of key exceptions: one for each set, however many objects use it. */
public final class KeyMaps {
    private final Native library;
    private final IdentityHashMap<ExceptionSet, Long> bySet = new IdentityHashMap<ExceptionSet, Long>();
    private final HashMap<Long, Use> byMap = new HashMap<Long, Use>();

    private static final class Use {
        final ExceptionSet set;
        int count;

        Use(final ExceptionSet set) {
            this.set = set;
        }
    }

    public KeyMaps(final Native library) {
        this.library = library;
    }

    /** @return 0: there are no exceptions */
    public synchronized long acquire(final ExceptionSet set) {
        if (set.size() == 0) {
            return 0;
        }
        Long map = bySet.get(set);
        if (map == null) {
            map = library.keymapNew(set.virtuals(), set.reals());
            if (map == 0) {
                throw new VerbsException(VerbsErrno.ENOMEM, "no memory for " + set.size() + " key translations");
            }
            bySet.put(set, map);
            byMap.put(map, new Use(set));
        }
        byMap.get(map).count++;
        return map;
    }

    public synchronized void release(final long map) {
        final Use use = map == 0 ? null : byMap.get(map);
        if (use != null && --use.count == 0) {
            byMap.remove(map);
            bySet.remove(use.set);
            library.keymapFree(map);
        }
    }
}
