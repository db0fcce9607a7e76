// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import java.util.Arrays;
import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;

/**
 * Registered memory by key. A key is the region's place in the table and a tag that changes each time the place is used
 * again, so that a stale key is found out. lkey and rkey of a region are the same.
 */
final class MemoryRegions {
    static final int LOCAL_WRITE = 1;
    static final int REMOTE_WRITE = 2;
    static final int REMOTE_READ = 4;
    static final int REMOTE_ATOMIC = 8;
    private static final int TAG_BITS = 8;

    private int[] keys = new int[64];
    private int[] access = new int[64];
    private long[] domain = new long[64];
    private long[] start = new long[64];
    private long[] length = new long[64];
    private long[] address = new long[64];
    private int[] nextFree = new int[64];
    private int firstFree;
    /** Place 0 is never used: key 0 is nobody's. */
    private int used = 1;

    /**
     * @param from what the region begins with in requests (iova)
     * @return the key
     */
    int add(final long pd, final long at, final long bytes, final long from, final int flags) {
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
        final int tag = keys[place] + 1 & (1 << TAG_BITS) - 1;
        keys[place] = place << TAG_BITS | tag;
        change(keys[place], pd, at, bytes, from, flags);
        return keys[place];
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
    }

    void change(final int key, final long pd, final long at, final long bytes, final long from, final int flags) {
        final int place = key >>> TAG_BITS;
        domain[place] = pd;
        address[place] = at;
        length[place] = bytes;
        start[place] = from;
        access[place] = flags;
    }

    void remove(final int key) {
        final int place = key >>> TAG_BITS;
        domain[place] = 0;
        length[place] = -1;
        nextFree[place] = firstFree;
        firstFree = place;
    }

    /** @return the address of that memory, or 0 when the key does not allow it */
    long find(final int key, final long pd, final long from, final long bytes, final int needed) {
        final int place = key >>> TAG_BITS;
        if (place == 0 || place >= used || keys[place] != key || domain[place] != pd
                || (access[place] & needed) != needed) {
            return 0;
        }
        final long offset = from - start[place];
        if (offset < 0 || bytes > length[place] - offset) {
            return 0;
        }
        return address[place] + offset;
    }

    /** As {@link #find}, by an lkey: also of the preload library's own memory. */
    private long findLocal(final int key, final long pd, final long from, final long bytes, final int needed) {
        return key == shadowverbs_tcp_h.SV_TCP_LANDING_KEY() ? from : find(key, pd, from, bytes, needed);
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
     * Adds the memory of bytes [from, from + bytes) of an SGE list. @return false when a key does not allow it (any more)
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
