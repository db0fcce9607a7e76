// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.HostMessages.FromRank;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;

/**
 * Messages to bytes and back. A frame is a length of four bytes (big-endian; type and body), a type byte and the body.
 * Whatever the bytes are, decoding ends with a message or a {@link ProtocolException}.
 */
public final class Codec {
    private static final int WORTH_A_PART = 4096;
    private static final int LEGS = 8;

    private Codec() {
    }

    /**
     * The whole frame, its length included.
     *
     * @throws IllegalArgumentException when it is longer than a frame of its type may be
     */
    public static byte[] frame(final Message message) {
        return frame(message, null);
    }

    /**
     * The same in parts that follow each other. What is passed on within the message, its last component, is a part of
     * its own that is not copied, so that a long answer to many hosts is in memory once. Errors are those of {@link
     * #frame}.
     */
    static byte[][] frames(final Message message) {
        final byte[] passedOn = message instanceof ToRanks m ? m.frame() : message instanceof FromRank m ? m.frame()
                : null;
        return passedOn == null || passedOn.length < WORTH_A_PART ? new byte[][] {frame(message)}
                : new byte[][] {frame(message, passedOn), passedOn};
    }

    /** @param apart the bytes of the last component, which are left out; null: they are not */
    private static byte[] frame(final Message message, final byte[] apart) {
        final long length = 1 + RecordCodec.size(message);
        final int longest = message.type() < FrameType.AGENT_HELLO ? FrameType.MAX_PASSED_ON : FrameType.MAX_FRAME;
        if (length > longest) {
            throw new IllegalArgumentException("message of type " + message.type() + " has " + length
                    + " bytes, more than " + longest);
        }
        final ByteBuffer frame = ByteBuffer.allocate(Integer.BYTES + (int) length - (apart == null ? 0 : apart.length));
        frame.putInt((int) length).put(message.type());
        if (apart == null) {
            RecordCodec.write(frame, message);
        } else {
            RecordCodec.writeBut(frame, message, apart);
        }
        return frame.array();
    }

    /** The message in type and body, the frame without its length. */
    public static Message decode(final byte[] typeAndBody) throws ProtocolException {
        if (typeAndBody.length == 0) {
            throw new ProtocolException("empty frame");
        }
        final byte type = typeAndBody[0];
        final ByteBuffer in = ByteBuffer.wrap(typeAndBody, 1, typeAndBody.length - 1);
        try {
            final Message message = (Message) RecordCodec.read(in, message(type));
            if (in.hasRemaining()) {
                throw new ProtocolException(in.remaining() + " bytes too many in a frame of type " + type);
            }
            return message;
        } catch (BufferUnderflowException e) {
            throw new ProtocolException("frame of type " + type + " ends early");
        }
    }

    /** What never reaches a rank is looked up last, so that a rank does not load it. */
    private static Class<? extends Message> message(final byte type) throws ProtocolException {
        for (int i = 0; i < LEGS; i++) {
            final Class<? extends Message> message = types(i).get(type);
            if (message != null) {
                return message;
            }
        }
        throw new ProtocolException("unknown frame type " + type);
    }

    static byte type(final Class<? extends Message> message) {
        for (int i = 0; i < LEGS; i++) {
            for (final Map.Entry<Byte, Class<? extends Message>> e : types(i).entrySet()) {
                if (e.getValue() == message) {
                    return e.getKey();
                }
            }
        }
        throw new AssertionError("a message without a type: " + message);
    }

    private static Map<Byte, Class<? extends Message>> types(final int i) {
        return switch (i) {
            case 0 -> RankMessages.TYPES;
            case 1 -> LaunchMessages.TYPES;
            case 2 -> HostMessages.TYPES;
            case 3 -> RestartMessages.TYPES;
            case 4 -> PmiMessages.TYPES;
            case 5 -> ShellMessages.TYPES;
            case 6 -> RecoveryMessages.TYPES;
            default -> LevelMessages.TYPES;
        };
    }
}
