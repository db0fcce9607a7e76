// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

/**
 * What a virtual id differs from the real one by at creation: nothing, or (for tests) a constant XOR, the same in every
 * rank.
 */
public final class IdMasks {
    public static final IdMasks IDENTITY = new IdMasks(0, 0, 0, 0L);
    /** The lid mask leaves the two upper bits alone: unicast lids stay unicast. */
    public static final IdMasks SCRAMBLED = new IdMasks(0x2a5b3c, 0x5ac3_17e9, 0x1357, 0x00a5_005a_0c30_03c0L);

    private static final int FIRST_MULTICAST_LID = 0xc000;

    private final int qpNum;
    private final int key;
    private final int lid;
    private final long gid;

    private IdMasks(final int qpNum, final int key, final int lid, final long gid) {
        this.qpNum = qpNum;
        this.key = key;
        this.lid = lid;
        this.gid = gid;
    }

    /** 24 bits. */
    public int qpNum() {
        return qpNum;
    }

    /** The mask of lkey and rkey. */
    public int key() {
        return key;
    }

    /** 16 bits. */
    public int lid() {
        return lid;
    }

    /** 64 bits, of the interface id. */
    public long gid() {
        return gid;
    }

    /**
     * Its own inverse. Lid 0 means "none" (RoCE) and stays 0; so the one lid that would become 0 stays itself, too.
     * Multicast lids mean themselves.
     */
    public int lid(final int lidToMap) {
        return lidToMap == 0 || lidToMap == lid || lidToMap >= FIRST_MULTICAST_LID ? lidToMap
                : lidToMap ^ lid;
    }

    /**
     * Its own inverse, on the interface id. The zero GID is an empty entry and stays zero; multicast GIDs mean
     * themselves.
     */
    public Gid gid(final Gid gidToMap) {
        return gidToMap.isZero() || gidToMap.isMulticast() || gid == 0 ? gidToMap
                : new Gid(gidToMap.prefix(), gidToMap.interfaceId() ^ gid);
    }
}
