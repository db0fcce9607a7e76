// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

/** How one port is addressed: as the application knows it, and as the subnet does. Immutable. */
public final class PortIds {
    /** One entry of the GID table that is not empty. */
    public static final class GidPair {
        /** Index in the table that the application sees, and type ({@code enum ibv_gid_type}). */
        public final int virtualIndex;
        public final int type;
        public final Gid virtual;
        /** Index in the real table; -1: the port has nothing that could stand for it. */
        public final int realIndex;
        public final Gid real;

        public GidPair(final int virtualIndex, final int type, final Gid virtual, final int realIndex,
                final Gid real) {
            this.virtualIndex = virtualIndex;
            this.type = type;
            this.virtual = virtual;
            this.realIndex = realIndex;
            this.real = real;
        }
    }

    /** {@code IBV_GID_TYPE_IB} */
    private static final int TYPE_IB = 0;

    public final int number;
    public final int virtualLid;
    public final int realLid;
    /** A port answers to 2^lmc lids, from its base lid on. */
    public final int lmc;
    /** The real port's, {@code IBV_LINK_LAYER_*}: it decides whether a destination needs a GID. */
    public final int linkLayer;
    /** The virtual index of the GID that the process sends from, as far as it is known; else -1. */
    public final int sourceIndex;
    private final GidPair[] gids;

    public PortIds(final int number, final int virtualLid, final int realLid, final int lmc, final int linkLayer,
            final GidPair[] gids) {
        this(number, virtualLid, realLid, lmc, linkLayer, -1, gids);
    }

    private PortIds(final int number, final int virtualLid, final int realLid, final int lmc, final int linkLayer,
            final int sourceIndex, final GidPair[] gids) {
        this.number = number;
        this.virtualLid = virtualLid;
        this.realLid = realLid;
        this.lmc = lmc;
        this.linkLayer = linkLayer;
        this.sourceIndex = sourceIndex;
        this.gids = gids.clone();
    }

    /** The same port of a process that sends from that GID. */
    public PortIds sendingFrom(final int virtualIndex) {
        return new PortIds(number, virtualLid, realLid, lmc, linkLayer, virtualIndex, gids);
    }

    /**
     * The same virtual addresses over another real port.
     *
     * @param port what the real port has; its virtual side does not count
     */
    public PortIds carriedOverTo(final PortIds port) {
        final GidPair[] pairs = new GidPair[gids.length];
        for (int i = 0; i < gids.length; i++) {
            final GidPair real = port.counterpart(gids[i], rankInClass(i));
            pairs[i] = new GidPair(gids[i].virtualIndex, gids[i].type, gids[i].virtual,
                    real == null ? -1 : real.realIndex, real == null ? Gid.ZERO : real.real);
        }
        return new PortIds(number, virtualLid, port.realLid, port.lmc, port.linkLayer, sourceIndex, pairs);
    }

    /** 0: link-local, 1: made from an IPv4 address, 2: any other. GIDs of one class are reached in the same way. */
    private static int classOf(final Gid gid) {
        return gid.isLinkLocal() ? 0 : gid.isIpv4Mapped() ? 1 : 2;
    }

    /** How many entries of the same type and class come before it. */
    private int rankInClass(final int index) {
        int n = 0;
        for (int i = 0; i < index; i++) {
            if (gids[i].type == gids[index].type && classOf(gids[i].virtual) == classOf(gids[index].virtual)) {
                n++;
            }
        }
        return n;
    }

    /** The n-th real entry of that type and class; else the last of both; else of the type; else any. */
    private GidPair counterpart(final GidPair wanted, final int rank) {
        GidPair best = null;
        int bestScore = -1;
        int seen = 0;
        for (final GidPair pair : gids) {
            if (pair.realIndex < 0) {
                continue;
            }
            final boolean sameType = pair.type == wanted.type;
            final boolean sameClass = classOf(pair.real) == classOf(wanted.virtual);
            if (sameType && sameClass && seen++ == rank) {
                return pair;
            }
            final int score = (sameType ? 2 : 0) + (sameClass ? 1 : 0);
            if (score >= bestScore) {
                bestScore = score;
                best = pair;
            }
        }
        return best;
    }

    public int gidCount() {
        return gids.length;
    }

    public GidPair gidAt(final int n) {
        return gids[n];
    }

    public GidPair byVirtual(final Gid gid) {
        for (final GidPair pair : gids) {
            if (pair.virtual.equals(gid)) {
                return pair;
            }
        }
        return null;
    }

    public GidPair byVirtualIndex(final int index) {
        for (final GidPair pair : gids) {
            if (pair.virtualIndex == index) {
                return pair;
            }
        }
        return null;
    }

    /**
     * The virtual GID of a packet that has a real GID of this port. When a real GID stands for several virtual ones it is
     * the one that the process sends from; without one, the first on InfiniBand, the last (most general) on RoCE.
     *
     * @return null: it stands for none
     */
    public GidPair nameOf(final Gid real) {
        GidPair name = null;
        for (final GidPair pair : gids) {
            if (pair.realIndex >= 0 && pair.real.equals(real)) {
                if (pair.virtualIndex == sourceIndex) {
                    return pair;
                }
                name = name != null && pair.type == TYPE_IB ? name : pair;
            }
        }
        return name;
    }

    /** The entry a destination without a GID gets on a link layer that needs one: the last usable is the most general. */
    public GidPair anyUsable() {
        for (int i = gids.length - 1; i >= 0; i--) {
            if (gids[i].realIndex >= 0) {
                return gids[i];
            }
        }
        return null;
    }

    /** Whether a packet to this virtual address comes here. */
    public boolean answersTo(final int lid, final Gid gid) {
        if (gid != null && !gid.isZero()) {
            return byVirtual(gid) != null;
        }
        return virtualLid != 0 && lid >> lmc == virtualLid >> lmc;
    }

    /** Whether both stand for one real port: they share a lid or a GID. */
    boolean sameRealPort(final PortIds other) {
        if (realLid != 0 && realLid >> lmc == other.realLid >> lmc) {
            return true;
        }
        for (final GidPair pair : gids) {
            for (final GidPair another : other.gids) {
                if (pair.realIndex >= 0 && another.realIndex >= 0 && !pair.real.isZero() && pair.real.equals(another.real)) {
                    return true;
                }
            }
        }
        return false;
    }

    void write(final RecordWriter out) {
        out.i8(number).i16(virtualLid).i16(realLid).i8(lmc).i8(linkLayer).i16(sourceIndex).i32(gids.length);
        for (final GidPair pair : gids) {
            out.i16(pair.virtualIndex).i8(pair.type).gid(pair.virtual).i16(pair.realIndex).gid(pair.real);
        }
    }

    static PortIds read(final RecordReader in) {
        final int number = in.u8();
        final int virtualLid = in.u16();
        final int realLid = in.u16();
        final int lmc = in.u8();
        final int linkLayer = in.u8();
        final int sourceIndex = (short) in.u16();
        final GidPair[] gids = new GidPair[in.count(37)];
        for (int i = 0; i < gids.length; i++) {
            final int virtualIndex = in.u16();
            final int type = in.u8();
            final Gid virtual = in.gid();
            gids[i] = new GidPair(virtualIndex, type, virtual, (short) in.u16(), in.gid());
        }
        return new PortIds(number, virtualLid, realLid, lmc, linkLayer, sourceIndex, gids);
    }
}
