// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;

/**
 * What to restore, and what takes the place of descriptors that led out of the job.
 *
 * <p>Replacements are paths that are opened anew, so that they can be given from any process: a FIFO, a file, a
 * terminal, or {@code /proc/PID/fd/N} for a descriptor that a process holds.
 *
 * @param imageDirectory the folder of the images
 * @param images         what {@link FrozenTrees#save} returned
 * @param checkpointName appended to the saved tails of output files: FILE.tail-NAME
 * @param pipes          for each inode of {@link FreezeRequest#replacedPipes}, what is opened in its place
 * @param streams        what replaces pipes and terminals that were read as descriptor 0 or written as 1 or 2
 * @param deadline       how long the restore may go on without anything being read
 * @param progress       of checking and restoring
 * @param moves          where the sockets of each tree are to be, by its name; a tree that is not named has them where they were
 * @param ownMemory      whether /dev/shm is to be one of their own, with what they had there: the host's may have other files of
 *                       the same names
 * @param gate           what all trees wait at before any of their processes runs; null: they need not
 * @param verified       whether the image files have just been read, and are as they were written
 */
public record RestoreRequest(
        Path imageDirectory,
        HostImages images,
        String checkpointName,
        Map<Long, Path> pipes,
        RestoreStreams streams,
        Duration deadline,
        Progress progress,
        Map<String, SocketMoves> moves,
        boolean ownMemory,
        RestoreGate gate,
        boolean verified) {
    /** The same for images that nobody has looked at. */
    public RestoreRequest(final Path imageDirectory, final HostImages images, final String checkpointName, final Map<Long, Path> pipes,
            final RestoreStreams streams, final Duration deadline, final Progress progress, final Map<String, SocketMoves> moves,
            final boolean ownMemory, final RestoreGate gate) {
        this(imageDirectory, images, checkpointName, pipes, streams, deadline, progress, moves, ownMemory, gate, false);
    }
}
