// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import java.util.Arrays;
import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * Registered memory by key. A key is the place in the table and a tag. The tag of a region changes each time the place is
 * used again, so that a stale key is found out; lkey and rkey of a region are the same. A memory window is in the table,
 * too: all keys with its place are its own, and each bind says which of them is good.
 */
public final class MemoryRegions {
    public static final int LOCAL_WRITE = 1;
    public static final int REMOTE_WRITE = 2;
    public static final int REMOTE_READ = 4;
    public static final int REMOTE_ATOMIC = 8;
    static final int MW_BIND = 16;
    static final int ZERO_BASED = 32;
    private static final int TAG_BITS = 8;

    /** A place of the table, with all that a look at it needs in one or two cache lines. */
    private static final class Entry {
        private final int place;
        private int key;
        private Kind kind;
        private int access;
        /** Negative for a region that has been given back, and for a window that is not bound. */
        private long length;
        private long domain;
        private long start;
        private long address;
        private Entry nextFree;
        /** The region of a bound window; {@code windows}: how many windows are bound to a region. */
        private Entry region;
        private int windows;
        /** The queue pair that a window of type 2 is good for. */
        private QueuePair owner;

        private Entry(final int place) {
            this.place = place;
        }

        private boolean isWindow() {
            return kind == Kind.WINDOW_1 || kind == Kind.WINDOW_2;
        }

        private void enter(final Kind what, final long pd, final long at, final long bytes, final long from, final int flags) {
            kind = what;
            domain = pd;
            address = at;
            length = bytes;
            start = from;
            access = flags;
        }

        private void bound(final Entry behind, final QueuePair qp) {
            region = behind;
            behind.windows++;
            owner = qp;
        }

        /** @return the address of that memory, or 0 when the key does not allow it */
        private long find(final long pd, final long from, final long bytes, final int needed) {
            if (domain != pd || (access & needed) != needed) {
                return 0;
            }
            final long offset = from - start;
            return offset < 0 || bytes > length - offset ? 0 : address + offset;
        }

    }

    private enum Kind {
        MEMORY,
        /** A null region: what is written to it is gone, and zeros are read. */
        NOTHING, WINDOW_1, WINDOW_2
    }

    private final Device device;
    private final Posix posix;
    /** Place 0 is never used: key 0 is nobody's. */
    private Entry[] table = new Entry[64];
    private int used = 1;
    private Entry firstFree;
    private int windowCount;
    /** For null regions, while there are any: zeros, and behind them room for what is written. */
    private long nothing;
    private int nothings;

    MemoryRegions(final Device device) {
        this.device = device;
        this.posix = device.posix;
    }

    /**
     * @param from what the region begins with in requests (iova)
     * @return the key
     */
    public int add(final long pd, final long at, final long bytes, final long from, final int flags) {
        final Entry entry = newEntry();
        entry.enter(Kind.MEMORY, pd, at, bytes, from, flags);
        return entry.key;
    }

    /** A null region. */
    public int addNothing(final long pd) {
        if (nothings++ == 0) {
            nothing = posix.allocate(2L * Frame.MAX_PAYLOAD);
        }
        final Entry entry = newEntry();
        entry.enter(Kind.NOTHING, pd, 0, Long.MAX_VALUE, 0, LOCAL_WRITE);
        return entry.key;
    }

    /** A window that is not bound. */
    public int addWindow(final long pd, final boolean type2) {
        final Entry entry = newEntry();
        entry.enter(type2 ? Kind.WINDOW_2 : Kind.WINDOW_1, pd, 0, -1, 0, 0);
        windowCount++;
        return entry.key;
    }

    /** A place of the table that is free, with its next key. */
    private Entry newEntry() {
        final Entry entry;
        if (firstFree != null) {
            entry = firstFree;
            firstFree = entry.nextFree;
        } else {
            if (used == 1 << 32 - TAG_BITS) {
                throw new DeviceException(Posix.ENOMEM, "register more memory regions");
            }
            if (used == table.length) {
                table = Arrays.copyOf(table, used * 2);
            }
            entry = new Entry(used);
            table[used++] = entry;
        }
        entry.key = entry.place << TAG_BITS | entry.key + 1 & (1 << TAG_BITS) - 1;
        return entry;
    }

    /** When it returns nothing is read or written by that key any more, not by what is in progress either. */
    public void remove(final int key) {
        final Entry entry = table[key >>> TAG_BITS];
        if (entry.windows != 0) {
            throw new DeviceException(Posix.EBUSY, "deregister memory that a window is bound to");
        }
        if (entry.isWindow()) {
            unbind(entry);
            windowCount--;
        } else {
            shut(entry);
            if (entry.kind == Kind.NOTHING && --nothings == 0) {
                posix.free(nothing);
            }
        }
        entry.domain = 0;
        entry.nextFree = firstFree;
        firstFree = entry;
    }

    /** The key is good for nothing from now on. */
    private void shut(final Entry entry) {
        final long bytes = entry.length;
        entry.length = -1;
        if (entry.kind == Kind.NOTHING) {
            device.withdrawn(nothing, 2L * Frame.MAX_PAYLOAD);
        } else {
            device.withdrawn(entry.address, bytes);
        }
    }

    private void unbind(final Entry window) {
        if (window.length >= 0) {
            window.region.windows--;
            window.owner = null;
            shut(window);
        }
    }

    /** @return null: there is no such key */
    private Entry known(final int key) {
        final int place = key >>> TAG_BITS;
        if (place == 0 || place >= used) {
            return null;
        }
        final Entry entry = table[place];
        return entry.key == key && entry.length >= 0 ? entry : null;
    }

    /** Memory that a peer reads or writes through a queue pair; 0 when the key does not allow it. */
    public long findRemote(final QueuePair qp, final int key, final long from, final long bytes, final int needed) {
        return findRemote(qp, qp.remoteDomain, key, from, bytes, needed);
    }

    /** As above, in the protection domain that was meant when the request came. */
    public long findRemote(final QueuePair qp, final long pd, final int key, final long from, final long bytes, final int needed) {
        final Entry entry = known(key);
        return entry == null || entry.kind == Kind.NOTHING || entry.kind == Kind.WINDOW_2 && entry.owner != qp ? 0
                : entry.find(pd, from, bytes, needed);
    }

    // ---- Windows ------------------------------------------------------------------------------------------------

    /**
     * Binds a window, or unbinds one of type 1 when there are no bytes.
     *
     * @param rkey the window's from then on
     * @return false: it cannot be done
     */
    public boolean bind(final QueuePair qp, final int rkey, final int lkey, final long from, final long bytes,
            final int flags) {
        final int place = rkey >>> TAG_BITS;
        if (place == 0 || place >= used || !table[place].isWindow() || table[place].domain != qp.domain) {
            return false;
        }
        final Entry window = table[place];
        final boolean type2 = window.kind == Kind.WINDOW_2;
        if (type2 && (bytes == 0 || window.length >= 0)) {
            return false;
        }
        final Entry behind = known(lkey);
        final boolean writes = (flags & (REMOTE_WRITE | REMOTE_ATOMIC)) != 0;
        long at = 0;
        if (bytes != 0) {
            at = behind == null || behind.kind != Kind.MEMORY ? 0
                    : behind.find(qp.domain, from, bytes, writes ? MW_BIND | LOCAL_WRITE : MW_BIND);
            if (at == 0) {
                return false;
            }
        }
        unbind(window);
        window.key = rkey;
        if (bytes != 0) {
            window.enter(window.kind, qp.domain, at, bytes, (flags & ZERO_BASED) != 0 ? 0 : from, flags);
            window.bound(behind, type2 ? qp : null);
        }
        return true;
    }

    /** Whether an rkey is that of a window of type 2 which is bound to the queue pair. */
    public boolean invalidatable(final int rkey, final QueuePair qp) {
        final Entry entry = known(rkey);
        return entry != null && entry.kind == Kind.WINDOW_2 && entry.owner == qp;
    }

    /** @return false: there is no such window */
    public boolean invalidate(final int rkey, final QueuePair qp) {
        if (!invalidatable(rkey, qp)) {
            return false;
        }
        unbind(table[rkey >>> TAG_BITS]);
        return true;
    }

    /** A queue pair ends, and with it the windows that are bound to it. */
    void unbind(final QueuePair qp) {
        for (int place = 1; windowCount > 0 && place < used; place++) {
            if (table[place].owner == qp) {
                unbind(table[place]);
            }
        }
    }

    // ---- SGE lists ----------------------------------------------------------------------------------------------

    /** By an lkey: also of the preload library's own memory. */
    private long findLocal(final int key, final long pd, final long from, final long bytes, final int needed) {
        final Entry entry = known(key);
        if (entry == null) {
            return key == shadowverbs_tcp_h.SV_TCP_LANDING_KEY() ? from : 0;
        }
        if (entry.kind == Kind.NOTHING) {
            return entry.domain != pd ? 0 : needed == 0 ? nothing : nothing + Frame.MAX_PAYLOAD;
        }
        return entry.kind != Kind.MEMORY ? 0 : entry.find(pd, from, bytes, needed);
    }

    /** Whether every entry of an SGE list may be used so. */
    boolean allow(final long sges, final int count, final long pd, final int needed) {
        for (int i = 0; i < count; i++) {
            final long sge = sges + i * Layouts.SGE_SIZE;
            final long bytes = Memory.i32(sge + Layouts.SGE_LENGTH) & 0xffffffffL;
            if (bytes != 0 && findLocal(Memory.i32(sge + Layouts.SGE_LKEY), pd,
                    Memory.i64(sge + Layouts.SGE_ADDR), bytes, needed) == 0) {
                return false;
            }
        }
        return true;
    }

    static long total(final long sges, final int count) {
        long bytes = 0;
        for (int i = 0; i < count; i++) {
            bytes += Memory.i32(sges + i * Layouts.SGE_SIZE + Layouts.SGE_LENGTH) & 0xffffffffL;
        }
        return bytes;
    }

    /**
     * Adds the memory of bytes [from, from + bytes) of an SGE list, no more than one frame's.
     *
     * @return false when a key does not allow it (any more)
     */
    public boolean slice(final Vectors to, final long sges, final int count, final long pd, final int needed,
            final long from, final long bytes) {
        return walk(to, 0, sges, count, pd, needed, from, bytes);
    }

    /** Whether keys still allow bytes [from, from + bytes) of an SGE list to be used so. */
    public boolean covers(final long sges, final int count, final long pd, final int needed, final long from, final long bytes) {
        return walk(null, 0, sges, count, pd, needed, from, bytes);
    }

    /** Copies bytes [from, from + bytes) of an SGE list, each aligned word of the application's at once. @return as slice */
    boolean copy(final long to, final long sges, final int count, final long pd, final long from, final long bytes) {
        return walk(null, to, sges, count, pd, 0, from, bytes);
    }

    private boolean walk(final Vectors to, final long copyTo, final long sges, final int count, final long pd, final int needed,
            final long from, final long bytes) {
        long skip = from;
        long left = bytes;
        for (int i = 0; i < count && left > 0; i++) {
            final long sge = sges + i * Layouts.SGE_SIZE;
            final long length = Memory.i32(sge + Layouts.SGE_LENGTH) & 0xffffffffL;
            if (skip >= length) {
                skip -= length;
                continue;
            }
            final long part = Math.min(left, length - skip);
            final long at = findLocal(Memory.i32(sge + Layouts.SGE_LKEY), pd,
                    Memory.i64(sge + Layouts.SGE_ADDR) + skip, part, needed);
            if (at == 0) {
                return false;
            }
            if (to != null) {
                to.add(at, part);
            } else if (copyTo != 0) {
                Memory.copyWords(at, copyTo + bytes - left, part, at);
            }
            left -= part;
            skip = 0;
        }
        return left == 0;
    }
}
