// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.wire;

import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;

/**
 * The header of everything that goes over an established connection, 64 bytes in network byte order; the payload follows.
 * <pre>
 *    0        1        2        3        4
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   |  type  | opcode | attempt| flags  | payload bytes in this frame       |  0
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   | destination queue pair            | source queue pair                 |  8
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   | message sequence number           | immediate / RNR timer             | 16
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   | remote address / result of an atomic / lid                            | 24
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   | rkey / Q_Key                      | shared receive queue (XRC)        | 32
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   | length of the message                                                 | 40
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   | offset of this frame's payload in the message / compare or add        | 48
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 *   | swap / acknowledged: attempt      | and message sequence number       | 56
 *   +--------+--------+--------+--------+--------+--------+--------+--------+
 * </pre>
 * docs/IB2TCP.md says which type uses which field.
 */
public final class Frame {
    public static final int SIZE = 64;
    /** Longest payload of a frame. A longer message takes several, so that queue pairs share a connection fairly. */
    public static final int MAX_PAYLOAD = 256 << 10;
    public static final long MAX_MESSAGE = Limits.MAX_MESSAGE;

    public static final int REQUEST = 1;
    public static final int READ_RESPONSE = 2;
    public static final int ATOMIC_RESPONSE = 3;
    public static final int ACK = 4;
    public static final int NAK = 5;
    /** A receive has been posted at a queue pair that had sent a NAK of RNR. */
    public static final int READY = 6;
    /** A request of an unreliable connection: nobody answers it. */
    public static final int UNACKNOWLEDGED = 7;
    public static final int DATAGRAM = 8;

    /** Opcodes of a request: enum ibv_wr_opcode. Those of 7 and 8 concern the requester alone. */
    public static final int WRITE = 0;
    public static final int WRITE_IMM = 1;
    public static final int SEND = 2;
    public static final int SEND_IMM = 3;
    public static final int READ = 4;
    public static final int COMPARE_SWAP = 5;
    public static final int FETCH_ADD = 6;
    public static final int LOCAL_INV = 7;
    public static final int BIND_MW = 8;
    public static final int SEND_INV = 9;

    /** Opcodes of a NAK. */
    public static final int RNR = 0;
    public static final int NOT_READY = 1;
    public static final int INVALID_REQUEST = 2;
    public static final int ACCESS_ERROR = 3;
    public static final int OPERATION_ERROR = 4;

    public static final int SOLICITED = 1;
    /** On a request that is no atomic: it is also an ACK of requests the other way. */
    static final int ACKNOWLEDGES = 2;

    /** Longest payload of a datagram: the MTU of the port. */
    public static final int MAX_DATAGRAM = 4096;

    /** Bits that no pair of numbers has, of queue pairs or of the shared receive queues of XRC: of 24 bits each. */
    private static final long NO_NUMBERS = 0xff000000_ff000000L;
    private static final int SERVICE_LEVELS = 16;

    private Frame() {
    }

    public static boolean reads(final int opcode) {
        return opcode >= READ && opcode <= FETCH_ADD;
    }

    public static boolean atomic(final int opcode) {
        return opcode == COMPARE_SWAP || opcode == FETCH_ADD;
    }

    public static boolean sends(final int opcode) {
        return opcode == SEND || opcode == SEND_IMM || opcode == SEND_INV;
    }

    /** Takes a receive request at the peer. */
    public static boolean consumes(final int opcode) {
        return sends(opcode) || opcode == WRITE_IMM;
    }

    /** Nothing of it is sent. */
    public static boolean local(final int opcode) {
        return opcode == LOCAL_INV || opcode == BIND_MW;
    }

    /** Writes a whole header; what a type does not use is 0. */
    public static void start(final long at, final int type, final int opcode, final int attempt, final int destination,
            final int source, final int sequence) {
        start(at, type, opcode, attempt, 0, 0, destination, source, sequence);
    }

    /** As above, with flags and payload. Each word is written at once: a few instructions for each message count. */
    public static void start(final long at, final int type, final int opcode, final int attempt, final int flags, final int payload,
            final int destination, final int source, final int sequence) {
        Memory.netPair(at, type << 24 | opcode << 16 | (attempt & 0xff) << 8 | flags, payload);
        Memory.netPair(at + 8, destination, source);
        Memory.netPair(at + 16, sequence, 0);
        Memory.i64(at + 24, 0);
        Memory.i64(at + 32, 0);
        Memory.i64(at + 40, 0);
        Memory.i64(at + 48, 0);
        Memory.i64(at + 56, 0);
    }

    public static int type(final long at) {
        return Memory.u8(at);
    }

    public static int opcode(final long at) {
        return Memory.u8(at + 1);
    }

    public static int attempt(final long at) {
        return Memory.u8(at + 2);
    }

    /** The service level of a datagram, in place of the attempt. */
    public static int serviceLevel(final long at) {
        return Memory.u8(at + 2);
    }

    public static int flags(final long at) {
        return Memory.u8(at + 3);
    }

    static void flags(final long at, final int flags) {
        Memory.u8(at + 3, flags);
    }

    public static int payload(final long at) {
        return Memory.net32(at + 4);
    }

    public static void payload(final long at, final int bytes) {
        Memory.net32(at + 4, bytes);
    }

    public static int destination(final long at) {
        return Memory.net32(at + 8);
    }

    public static int source(final long at) {
        return Memory.net32(at + 12);
    }

    public static int sequence(final long at) {
        return Memory.net32(at + 16);
    }

    /** Network order on both sides: the application's bytes. */
    public static int immediate(final long at) {
        return Memory.i32(at + 20);
    }

    public static void immediate(final long at, final int value) {
        Memory.i32(at + 20, value);
    }

    /** The timer code of a NAK of RNR: as in verbs, 0 to 31. */
    public static int timer(final long at) {
        return Memory.net32(at + 20);
    }

    public static void timer(final long at, final int value) {
        Memory.net32(at + 20, value);
    }

    public static long address(final long at) {
        return Memory.net64(at + 24);
    }

    public static void address(final long at, final long value) {
        Memory.net64(at + 24, value);
    }

    /** The lid that a datagram comes from, or 0; in place of the address. */
    public static int lid(final long at) {
        return (int) address(at);
    }

    public static void lid(final long at, final int lid) {
        address(at, lid);
    }

    /** The Q_Key of a datagram. */
    public static int rkey(final long at) {
        return Memory.net32(at + 32);
    }

    public static void rkey(final long at, final int value) {
        Memory.net32(at + 32, value);
    }

    /** The peer's shared receive queue that an XRC request names; else 0. */
    public static int sharedQueue(final long at) {
        return Memory.net32(at + 36);
    }

    public static void sharedQueue(final long at, final int number) {
        Memory.net32(at + 36, number);
    }

    /** Both of the above at once, to be compared with those of another frame. */
    public static long keyAndQueue(final long at) {
        return Memory.i64(at + 32);
    }

    public static long length(final long at) {
        return Memory.net64(at + 40);
    }

    public static void length(final long at, final long value) {
        Memory.net64(at + 40, value);
    }

    public static long offset(final long at) {
        return Memory.net64(at + 48);
    }

    public static void offset(final long at, final long value) {
        Memory.net64(at + 48, value);
    }

    public static long compareAdd(final long at) {
        return Memory.net64(at + 48);
    }

    public static void compareAdd(final long at, final long value) {
        Memory.net64(at + 48, value);
    }

    public static long swap(final long at) {
        return Memory.net64(at + 56);
    }

    public static void swap(final long at, final long value) {
        Memory.net64(at + 56, value);
    }

    /** Makes a request, not an atomic, an ACK besides. */
    public static void acknowledge(final long at, final int attempt, final int sequence) {
        flags(at, flags(at) | ACKNOWLEDGES);
        Memory.net32(at + 56, attempt);
        Memory.net32(at + 60, sequence);
    }

    public static boolean acknowledges(final long at) {
        return (flags(at) & ACKNOWLEDGES) != 0;
    }

    public static int acknowledgedAttempt(final long at) {
        return Memory.net32(at + 56);
    }

    public static int acknowledgedSequence(final long at) {
        return Memory.net32(at + 60);
    }

    /** Nothing in a header is used before this has passed it. */
    public static void check(final long at) throws ProtocolException {
        final int type = type(at);
        final int opcode = opcode(at);
        final int payload = payload(at);
        final long length = length(at);
        if ((Memory.net64(at + 8) & NO_NUMBERS) != 0 || (sharedQueue(at) & (int) NO_NUMBERS) != 0) {
            throw new ProtocolException("a number of more than 24 bits");
        }
        if (payload < 0 || payload > MAX_PAYLOAD || length < 0 || length > MAX_MESSAGE) {
            throw new ProtocolException("a length beyond bounds");
        }
        if (sharedQueue(at) != 0 && type != REQUEST || (flags(at) & ~(SOLICITED | ACKNOWLEDGES)) != 0
                || acknowledges(at) && (type != REQUEST || atomic(opcode) || sharedQueue(at) != 0)) {
            throw new ProtocolException("bits that must be zero");
        }
        final boolean data;
        switch (type) {
            case REQUEST:
                if (opcode > SEND_INV || local(opcode)) {
                    throw new ProtocolException("a request with opcode " + opcode);
                }
                data = !reads(opcode);
                if (atomic(opcode) && length != 8) {
                    throw new ProtocolException("an atomic of " + length + " bytes");
                }
                if (opcode == READ && offset(at) != 0) {
                    throw new ProtocolException("a read request with an offset");
                }
                break;
            case UNACKNOWLEDGED:
                if (opcode > SEND_INV || opcode > SEND_IMM && opcode < SEND_INV) {
                    throw new ProtocolException("an unacknowledged request with opcode " + opcode);
                }
                data = true;
                break;
            case DATAGRAM:
                if (opcode != SEND && opcode != SEND_IMM || payload != length || length > MAX_DATAGRAM
                        || offset(at) != 0 || serviceLevel(at) >= SERVICE_LEVELS
                        || address(at) < 0 || address(at) > Address.LIDS) {
                    throw new ProtocolException("a datagram that is none");
                }
                data = true;
                break;
            case READ_RESPONSE:
                data = true;
                break;
            case NAK:
                if (opcode > OPERATION_ERROR || opcode == RNR && (timer(at) & ~31) != 0) {
                    throw new ProtocolException("a negative acknowledgement of kind " + opcode);
                }
                data = false;
                break;
            case ATOMIC_RESPONSE:
            case ACK:
            case READY:
                data = false;
                break;
            default:
                throw new ProtocolException("a frame of type " + type);
        }
        if (data) {
            final long offset = offset(at);
            if (offset < 0 || offset > length - payload || payload == 0 && length != 0) {
                throw new ProtocolException("payload outside of its message");
            }
        } else if (payload != 0) {
            throw new ProtocolException("a payload where none belongs");
        }
    }
}
