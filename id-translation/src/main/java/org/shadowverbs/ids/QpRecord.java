// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.Objects;

/**
 * What a rank publishes about one queue pair before the drain, so that the two ends of a connection find each other.
 * Immutable. All ids are virtual.
 */
public final class QpRecord {
    /**
     * What a record was published as. Devices give a number again, to another rank of the same port: one address may have a
     * queue pair that was destroyed, one that was destroyed between ANNOUNCE and CLOSE, and one that lives.
     */
    public enum Kind {
        /** A queue pair that there is at ANNOUNCE. */
        ANNOUNCED("q/a"),
        /** A queue pair that there is at CLOSE. */
        CLOSED("q/c"),
        /** A queue pair that there was. */
        DESTROYED("q/d");

        private final String prefix;

        Kind(final String prefix) {
            this.prefix = prefix;
        }
    }

    /** {@link #state} of a queue pair that was destroyed: its peer is told apart from one outside the job. */
    public static final int DESTROYED = 99;

    private static final int VERSION = 1;

    /** Owner, and the queue pair's number in order of creation there: together unique in the job. */
    public final int rank;
    public final int sequence;
    public final int qpNum;
    /** {@code enum ibv_qp_state}, as the application set it, or {@link #DESTROYED}. */
    public final int state;
    /** The destination, where state is RTR or later. */
    public final int destQpNum;
    public final int destLid;
    /** Zero when the destination is given by lid alone. */
    public final Gid destGid;
    /** 7: retries for ever. */
    public final int rnrRetry;
    /** How a key of the destination ends; null: nobody has asked. */
    private String destination;

    public QpRecord(final int rank, final int sequence, final int qpNum, final int state, final int destQpNum,
            final int destLid, final Gid destGid, final int rnrRetry) {
        this.rank = rank;
        this.sequence = sequence;
        this.qpNum = qpNum;
        this.state = state;
        this.destQpNum = destQpNum;
        this.destLid = destLid;
        this.destGid = destGid;
        this.rnrRetry = rnrRetry;
    }

    @Override
    public boolean equals(final Object other) {
        return other instanceof QpRecord r && rank == r.rank && sequence == r.sequence && qpNum == r.qpNum && state == r.state
                && destQpNum == r.destQpNum && destLid == r.destLid && destGid.equals(r.destGid) && rnrRetry == r.rnrRetry;
    }

    @Override
    public int hashCode() {
        return Objects.hash(rank, sequence, qpNum, state, destQpNum, destLid, destGid, rnrRetry);
    }

    /** The key that a peer, who knows lid and number only, looks it up by. */
    public static String keyByLid(final Kind kind, final int lid, final int qpNum) {
        return kind.prefix + byLid(lid, qpNum);
    }

    private static String byLid(final int lid, final int qpNum) {
        return "/l" + Integer.toHexString(lid) + '/' + Integer.toHexString(qpNum);
    }

    /** The key that a peer, who knows GID and number only, looks it up by. */
    public static String keyByGid(final Kind kind, final Gid gid, final int qpNum) {
        return kind.prefix + byGid(gid, qpNum);
    }

    private static String byGid(final Gid gid, final int qpNum) {
        return "/g" + gid + '/' + Integer.toHexString(qpNum);
    }

    /** The key of the destination. */
    public String destKey(final Kind kind) {
        if (destination == null) {
            destination = destGid.isZero() ? byLid(destLid, destQpNum) : byGid(destGid, destQpNum);
        }
        return kind.prefix + destination;
    }

    public byte[] encode() {
        return new RecordWriter(48).i8(VERSION).i32(rank).i32(sequence).i32(qpNum).i8(state).i32(destQpNum)
                .i16(destLid).gid(destGid).i8(rnrRetry).toByteArray();
    }

    public static QpRecord decode(final byte[] bytes) {
        final RecordReader in = new RecordReader(bytes).version(VERSION);
        final int rank = in.i32();
        final int sequence = in.i32();
        final int qpNum = in.i32();
        final int state = in.u8();
        final int destQpNum = in.i32();
        final int destLid = in.u16();
        final Gid destGid = in.gid();
        final QpRecord record = new QpRecord(rank, sequence, qpNum, state, destQpNum, destLid, destGid, in.u8());
        in.end();
        return record;
    }
}
