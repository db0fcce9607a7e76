// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInput;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * Messages to bytes and back. A frame is a length of four bytes (big-endian; type and body), a type byte and the body.
 * Whatever the bytes are, decoding ends with a message or a {@link ProtocolException}.
 */
public final class Codec {
    private Codec() {
    }

    /** The whole frame, its length included. */
    public static byte[] frame(final Message message) {
        try {
            final ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
            final DataOutputStream out = new DataOutputStream(bytes);
            out.writeInt(0);
            out.writeByte(message.type());
            message.write(out);
            final byte[] frame = bytes.toByteArray();
            final int length = frame.length - 4;
            if (length > FrameType.MAX_FRAME) {
                throw new IllegalArgumentException("message of type " + message.type() + " has " + length
                        + " bytes, more than " + FrameType.MAX_FRAME);
            }
            frame[0] = (byte) (length >>> 24);
            frame[1] = (byte) (length >>> 16);
            frame[2] = (byte) (length >>> 8);
            frame[3] = (byte) length;
            return frame;
        } catch (IOException e) {
            throw new UncheckedIOException(e); // a byte array takes everything
        }
    }

    /** The message in type and body, the frame without its length. */
    public static Message decode(final byte[] typeAndBody) throws ProtocolException {
        if (typeAndBody.length == 0) {
            throw new ProtocolException("empty frame");
        }
        final byte type = typeAndBody[0];
        final DataInputStream in =
                new DataInputStream(new ByteArrayInputStream(typeAndBody, 1, typeAndBody.length - 1));
        try {
            final Message message = type < FrameType.AGENT_HELLO ? readRankLeg(type, in) : HostCodec.read(type, in);
            if (in.available() > 0) {
                throw new ProtocolException(in.available() + " bytes too many in a frame of type " + type);
            }
            return message;
        } catch (EOFException e) {
            throw new ProtocolException("frame of type " + type + " ends early");
        } catch (ProtocolException e) {
            throw e;
        } catch (IOException e) {
            throw new ProtocolException("frame of type " + type + ": " + e.getMessage());
        }
    }

    private static Message readRankLeg(final byte type, final DataInput in) throws IOException {
        return switch (type) {
            case FrameType.HELLO -> RankMessages.Hello.read(in);
            case FrameType.WELCOME -> RankMessages.Welcome.read(in);
            case FrameType.REFUSED -> RankMessages.Refused.read(in);
            case FrameType.CHECKPOINT -> RankMessages.Checkpoint.read(in);
            case FrameType.CONTRIBUTE -> RankMessages.Contribute.read(in);
            case FrameType.REPLY -> RankMessages.Answer.read(in);
            case FrameType.ABORT -> RankMessages.Abort.read(in);
            case FrameType.DETACHED -> RankMessages.Detached.read(in);
            case FrameType.DONE -> RankMessages.Done.read(in);
            case FrameType.FAIL -> RankMessages.Fail.read(in);
            case FrameType.PROGRESS -> RankMessages.Progress.read(in);
            case FrameType.GOODBYE -> RankMessages.Goodbye.read(in);
            case FrameType.PUBLISH -> RankMessages.Publish.read(in);
            case FrameType.LOOKUP -> RankMessages.Lookup.read(in);
            case FrameType.FOUND -> RankMessages.Found.read(in);
            case FrameType.SHUTDOWN -> RankMessages.Shutdown.read(in);
            case FrameType.HOLD -> RankMessages.Hold.read(in);
            case FrameType.GIVE_BACK -> RankMessages.GiveBack.read(in);
            case FrameType.HELD -> RankMessages.Held.read(in);
            case FrameType.TELL -> RankMessages.Tell.read(in);
            case FrameType.TOLD -> RankMessages.Told.read(in);
            case FrameType.LAST_WILL -> RankMessages.LastWill.read(in);
            case FrameType.REGISTER_TREE -> LaunchMessages.RegisterTree.read(in);
            case FrameType.REGISTERED -> LaunchMessages.Registered.read(in);
            default -> throw new ProtocolException("unknown frame type " + type);
        };
    }
}
