// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import java.util.List;

/**
 * Saves the processes of one host to images and brings them back.
 *
 * <p>Implementations are safe for use by several threads, but one set of processes is in the hands of one caller at a
 * time.
 */
public interface ProcessCheckpointer {
    /**
     * Says what this host lacks for saving and restoring processes.
     *
     * @return what was found, with the mend of each thing that is missing
     */
    Readiness check();

    /**
     * Looks at the processes, without stopping them, for what cannot be saved.
     *
     * @param request the processes and what the caller knows about them
     * @param directory where images would go, or a folder above; null: that is not looked at
     * @return one finding for each thing that stands in the way; empty when nothing does
     * @throws PassingStateException if a launch is just being handed over
     * @throws CheckpointException if a root is gone
     */
    List<Finding> inspect(FreezeRequest request, Path directory) throws CheckpointException;

    /**
     * Stops every process below the roots, and returns when all stand still. They have been inspected once more, so
     * that what changed since {@link #inspect} is named too.
     *
     * @param request the processes and what the caller knows about them
     * @return the frozen processes, which run on when it is closed
     * @throws CheckpointException if something cannot be saved or does not stand still in time; all run on then
     */
    FrozenTrees freeze(FreezeRequest request) throws CheckpointException;

    /**
     * Copies what can be copied of the processes' memory while they run, so that their images, which are to be written to the same
     * folder next, need less.
     *
     * @param request        the processes
     * @param imageDirectory an existing, empty folder
     * @param plan           the one that the images will be written by
     * @return how much was copied, bytes; 0 where nobody can count what is written to afterwards
     * @throws CheckpointException if it cannot be copied
     */
    long preCopy(FreezeRequest request, Path imageDirectory, ImagePlan plan) throws CheckpointException;

    /**
     * Does what can be done while the processes run, so that they stand still for a shorter time. What stands in the way of a
     * checkpoint is left to {@link #freeze} to say.
     *
     * @param request        the processes
     * @param imageDirectory an existing folder, where the images will be written; null: that is not known yet
     * @param plan           the one that they will be written by
     * @return for {@link #freeze}, or to be closed
     */
    default Preparation prepare(final FreezeRequest request, final Path imageDirectory, final ImagePlan plan) {
        return Preparation.NOTHING;
    }

    /**
     * Freezes all trees of this host.
     *
     * @param request     the processes
     * @param preparation what was prepared for them; it is closed by this
     * @return the frozen trees, to be saved and let go
     * @throws CheckpointException as {@link #freeze(FreezeRequest)} does
     */
    default FrozenTrees freeze(final FreezeRequest request, final Preparation preparation) throws CheckpointException {
        preparation.close();
        return freeze(request);
    }

    /**
     * Looks at the processes, without stopping them, for TCP connections to other hosts.
     *
     * @param request the processes and what the caller knows about them
     * @return the ends on this host
     * @throws CheckpointException if they can't be looked at
     */
    TcpEnds connections(FreezeRequest request) throws CheckpointException;

    /**
     * Verifies images before anything is restored or changed: checksums, mapped files, CPU flags, output files.
     *
     * @param imageDirectory the folder that was given to {@link FrozenTrees#save}
     * @param images         what that call returned
     * @return one finding for each thing that stands in the way; empty when nothing does
     */
    List<Finding> verify(Path imageDirectory, HostImages images);

    /**
     * Restores the trees of one source host in a fresh pid namespace. {@link #verify} is done first. Output files are
     * put back to their recorded length, what they had grown by is kept beside them. When the call returns all trees
     * run.
     *
     * @param request the images and what takes the place of descriptors that led out of the job
     * @return the running processes
     * @throws CheckpointException if anything fails; nothing that was restored runs on then
     */
    RestoredTrees restore(RestoreRequest request) throws CheckpointException;
}
