// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Whether a rank can keep its devices open while the image is made, as it says at DETACH. All of a job do, or none.
 *
 * @param obstacle why it can't; empty: it can
 * @param resets its queue pairs that are to be reset on both sides before that
 * @param alone how many more it resets by itself
 */
public record Attachment(String obstacle, List<Reset> resets, int alone) {
    /** Published with the answer by which all keep their devices: for a rank that has lost its link in that moment. */
    public static final String AGREED = "t/agreed";

    /** What the keys of all ranks begin with. */
    public static final String KEYS = "t/";

    /** A connection, by what its ends number their queue pairs with. */
    public record Reset(int sequence, int peer, int peerSequence) {
    }

    public static String key(final int rank) {
        return KEYS + rank;
    }

    /** Nobody else has to do anything for it. */
    public boolean independent() {
        return obstacle.isEmpty() && resets.isEmpty();
    }

    /** There is nothing to say. */
    public boolean silent() {
        return independent() && alone == 0;
    }

    public byte[] encode() {
        try (ByteArrayOutputStream bytes = new ByteArrayOutputStream(); DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeUTF(obstacle);
            out.writeInt(alone);
            for (final Reset reset : resets) {
                out.writeInt(reset.sequence);
                out.writeInt(reset.peer);
                out.writeInt(reset.peerSequence);
            }
            return bytes.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** @throws IllegalArgumentException it is none of {@link #encode}'s */
    public static Attachment decode(final byte[] bytes) {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            final String obstacle = in.readUTF();
            final int alone = in.readInt();
            final List<Reset> resets = new ArrayList<>();
            while (in.available() > 0) {
                resets.add(new Reset(in.readInt(), in.readInt(), in.readInt()));
            }
            return new Attachment(obstacle, resets, alone);
        } catch (IOException e) {
            throw new IllegalArgumentException("not what a rank says of its devices", e);
        }
    }
}
