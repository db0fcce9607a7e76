// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;

/** What copies of images need: between coordinator and agents, and between the agent that has images and the one that fetches them. */
public final class LevelMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.of(
            FrameType.COPY_IMAGES, CopyImages.class,
            FrameType.IMAGES_COPIED, ImagesCopied.class,
            FrameType.COPY_PROGRESS, CopyProgress.class,
            FrameType.RETAIN_IMAGES, RetainImages.class,
            FrameType.IMAGES_AT, ImagesAt.class,
            FrameType.LEVEL_LOST, LevelLost.class,
            FrameType.FETCH, Fetch.class,
            FrameType.PIECE, Piece.class);

    private LevelMessages() {
    }

    /**
     * An agent that others fetch images from.
     *
     * @param addresses those of its host
     * @param token as its IMAGES_AT
     */
    public record Holder(String host, List<NetAddress> addresses, int port, String token) {
    }

    /**
     * Copy a host's images of a checkpoint while the job runs on.
     *
     * @param id of this copy, in the answers
     * @param folder the checkpoint's
     * @param directory the host's folder in it
     * @param local where this host keeps images, as the user named it
     * @param from fetch them from there to this host; none: from this host to the checkpoint's folder
     */
    public record CopyImages(long id, String folder, String directory, String local, List<Holder> from) implements Message {
    }

    /** {@code root}: where the copy is on that host, a folder of checkpoints; {@code problem}: why there is none, or empty. */
    public record ImagesCopied(long id, String root, long bytes, String problem) implements Message {
    }

    /** The copy goes on; {@code done}: how far it has come, in bytes. */
    public record CopyProgress(long id, long done) implements Message {
    }

    /**
     * Of the job's checkpoints up to that epoch this host keeps the images of these alone.
     *
     * @param local where it keeps them, as the user named it
     * @param serve whether other hosts are to fetch them
     * @param names of the checkpoints' folders
     */
    public record RetainImages(String local, boolean serve, long epoch, List<String> names) implements Message {
    }

    /** Where other agents fetch images from this one, and what they must show. */
    public record ImagesAt(int port, String token) implements Message {
    }

    /** A level did not serve, and the next one does: a line for the user. */
    public record LevelLost(String line) implements Message {
    }

    /** Asks for a file. {@code path}: below the folder in which the agent keeps the job's images. Several may be asked for in turn. */
    public record Fetch(int version, String token, String path) implements Message {
    }

    /** A part of that file, in order. {@code left}: how many bytes follow it; 0: none. */
    public record Piece(long left, byte[] data) implements Message {
    }
}
