// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import java.util.Arrays;
import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;

/**
 * Registered memory by key. A key is the place in the table and a tag. Of a region the tag changes each time the place is
 * used again, so that a stale key is found out; lkey and rkey of a region are the same. A memory window is in the table,
 * too: all keys with its place are its own, and which of them is good whoever binds it says.
 */
final class MemoryRegions {
    static final int LOCAL_WRITE = 1;
    static final int REMOTE_WRITE = 2;
    static final int REMOTE_READ = 4;
    static final int REMOTE_ATOMIC = 8;
    static final int MW_BIND = 16;
    static final int ZERO_BASED = 32;
    private static final int TAG_BITS = 8;

    /** Kinds of entries. */
    private static final byte MEMORY = 0;
    /** A null region: what is written to it is gone, and zeros are read. */
    private static final byte NOTHING = 1;
    private static final byte WINDOW_1 = 2;
    private static final byte WINDOW_2 = 3;

    private final Posix posix;
    private int[] keys = new int[64];
    private byte[] kind = new byte[64];
    private int[] access = new int[64];
    private long[] domain = new long[64];
    private long[] start = new long[64];
    private long[] length = new long[64];
    private long[] address = new long[64];
    private int[] nextFree = new int[64];
    /** Of a bound window: the place of its region. Of a region: how many windows are bound to it. */
    private int[] region = new int[64];
    private int[] windows = new int[64];
    /** The queue pair that a window of type 2 is good for. */
    private QueuePair[] owner = new QueuePair[64];
    private int firstFree;
    /** Place 0 is never used: key 0 is nobody's. */
    private int used = 1;
    private int windowCount;
    /** For null regions, while there are any: zeros, and behind them room for what is written. */
    private long nothing;
    private int nothings;

    MemoryRegions(final Posix posix) {
        this.posix = posix;
    }

    /**
     * @param from what the region begins with in requests (iova)
     * @return the key
     */
    int add(final long pd, final long at, final long bytes, final long from, final int flags) {
        final int place = place();
        enter(place, MEMORY, pd, at, bytes, from, flags);
        return keys[place];
    }

    /** A null region. */
    int addNothing(final long pd) {
        if (nothings++ == 0) {
            nothing = posix.allocate(2L * Frame.MAX_PAYLOAD);
        }
        final int place = place();
        enter(place, NOTHING, pd, 0, Long.MAX_VALUE, 0, LOCAL_WRITE);
        return keys[place];
    }

    /** A window that is not bound. */
    int addWindow(final long pd, final boolean type2) {
        final int place = place();
        enter(place, type2 ? WINDOW_2 : WINDOW_1, pd, 0, -1, 0, 0);
        windowCount++;
        return keys[place];
    }

    /** A place of the table, with its next key. */
    private int place() {
        final int place;
        if (firstFree != 0) {
            place = firstFree;
            firstFree = nextFree[place];
        } else {
            if (used == 1 << 32 - TAG_BITS) {
                throw new DeviceException(Posix.ENOMEM, "register more memory regions");
            }
            if (used == keys.length) {
                grow();
            }
            place = used++;
        }
        keys[place] = place << TAG_BITS | keys[place] + 1 & (1 << TAG_BITS) - 1;
        return place;
    }

    private void grow() {
        final int n = keys.length * 2;
        keys = Arrays.copyOf(keys, n);
        access = Arrays.copyOf(access, n);
        domain = Arrays.copyOf(domain, n);
        start = Arrays.copyOf(start, n);
        length = Arrays.copyOf(length, n);
        address = Arrays.copyOf(address, n);
        nextFree = Arrays.copyOf(nextFree, n);
        kind = Arrays.copyOf(kind, n);
        region = Arrays.copyOf(region, n);
        windows = Arrays.copyOf(windows, n);
        owner = Arrays.copyOf(owner, n);
    }

    private void enter(final int place, final byte what, final long pd, final long at, final long bytes,
            final long from, final int flags) {
        kind[place] = what;
        domain[place] = pd;
        address[place] = at;
        length[place] = bytes;
        start[place] = from;
        access[place] = flags;
    }

    void remove(final int key) {
        final int place = key >>> TAG_BITS;
        if (windows[place] != 0) {
            throw new DeviceException(Posix.EBUSY, "deregister memory that a window is bound to");
        }
        if (kind[place] >= WINDOW_1) {
            unbind(place);
            windowCount--;
        } else if (kind[place] == NOTHING && --nothings == 0) {
            posix.free(nothing);
        }
        domain[place] = 0;
        length[place] = -1;
        nextFree[place] = firstFree;
        firstFree = place;
    }

    private boolean known(final int key) {
        final int place = key >>> TAG_BITS;
        return place != 0 && place < used && keys[place] == key && length[place] >= 0;
    }

    /** @return the address of that memory, or 0 when the key does not allow it */
    private long find(final int place, final long pd, final long from, final long bytes, final int needed) {
        if (domain[place] != pd || (access[place] & needed) != needed) {
            return 0;
        }
        final long offset = from - start[place];
        if (offset < 0 || bytes > length[place] - offset) {
            return 0;
        }
        return address[place] + offset;
    }

    /** Memory that a peer reads or writes through a queue pair; 0 when the key does not allow it. */
    long findRemote(final QueuePair qp, final int key, final long from, final long bytes, final int needed) {
        final int place = key >>> TAG_BITS;
        return !known(key) || kind[place] == NOTHING || kind[place] == WINDOW_2 && owner[place] != qp ? 0
                : find(place, qp.remoteDomain, from, bytes, needed);
    }

    // ---- Windows ------------------------------------------------------------------------------------------------

    /**
     * Binds a window, or unbinds one of type 1 when there are no bytes.
     *
     * @param rkey the window's from then on
     * @return false: it cannot be done
     */
    boolean bind(final QueuePair qp, final int rkey, final int lkey, final long from, final long bytes,
            final int flags) {
        final int place = rkey >>> TAG_BITS;
        if (place == 0 || place >= used || kind[place] < WINDOW_1 || domain[place] != qp.domain) {
            return false;
        }
        final boolean type2 = kind[place] == WINDOW_2;
        if (type2 && (bytes == 0 || length[place] >= 0)) {
            return false;
        }
        final int behind = lkey >>> TAG_BITS;
        final boolean writes = (flags & (REMOTE_WRITE | REMOTE_ATOMIC)) != 0;
        long at = 0;
        if (bytes != 0) {
            at = !known(lkey) || kind[behind] != MEMORY ? 0
                    : find(behind, qp.domain, from, bytes, writes ? MW_BIND | LOCAL_WRITE : MW_BIND);
            if (at == 0) {
                return false;
            }
        }
        unbind(place);
        keys[place] = rkey;
        if (bytes != 0) {
            enter(place, kind[place], qp.domain, at, bytes, (flags & ZERO_BASED) != 0 ? 0 : from, flags);
            region[place] = behind;
            windows[behind]++;
            owner[place] = type2 ? qp : null;
        }
        return true;
    }

    private void unbind(final int place) {
        if (length[place] >= 0) {
            windows[region[place]]--;
            length[place] = -1;
            owner[place] = null;
        }
    }

    /** Whether an rkey is that of a window of type 2 which is bound to the queue pair. */
    boolean invalidatable(final int rkey, final QueuePair qp) {
        return known(rkey) && kind[rkey >>> TAG_BITS] == WINDOW_2 && owner[rkey >>> TAG_BITS] == qp;
    }

    /** @return false: there is no such window */
    boolean invalidate(final int rkey, final QueuePair qp) {
        if (!invalidatable(rkey, qp)) {
            return false;
        }
        unbind(rkey >>> TAG_BITS);
        return true;
    }

    /** A queue pair ends, and with it the windows that are bound to it. */
    void unbind(final QueuePair qp) {
        for (int place = 1; windowCount > 0 && place < used; place++) {
            if (owner[place] == qp) {
                unbind(place);
            }
        }
    }

    // ---- SGE lists ----------------------------------------------------------------------------------------------

    /** By an lkey: also of the preload library's own memory. */
    private long findLocal(final int key, final long pd, final long from, final long bytes, final int needed) {
        final int place = key >>> TAG_BITS;
        if (!known(key)) {
            return key == shadowverbs_tcp_h.SV_TCP_LANDING_KEY() ? from : 0;
        }
        if (kind[place] == NOTHING) {
            return domain[place] != pd ? 0 : needed == 0 ? nothing : nothing + Frame.MAX_PAYLOAD;
        }
        return kind[place] != MEMORY ? 0 : find(place, pd, from, bytes, needed);
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
    boolean slice(final Vectors to, final long sges, final int count, final long pd, final int needed,
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
            to.add(at, part);
            left -= part;
            skip = 0;
        }
        return left == 0;
    }
}
