// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import java.util.List;
import java.util.Set;

/** Processes that stand still. Closing lets them run on, unless {@link #kill} ended them. */
public interface FrozenTrees extends AutoCloseable {
    /**
     * The trees, each with the roots that it holds. Roots that share memory, pipes or sockets are in one tree.
     *
     * @return names of the roots, tree by tree
     */
    List<List<String>> trees();

    /**
     * The time that freezing took.
     *
     * @return nanoseconds from the request until all stood still
     */
    long freezeNanos();

    /**
     * The TCP connections to other hosts.
     *
     * @param addresses those of the job's other hosts
     * @return the ends on this host
     * @throws CheckpointException if they can't be looked at
     */
    TcpEnds connections(Set<String> addresses) throws CheckpointException;

    /**
     * Writes the images of all trees. The processes stay frozen, whether it fails or not; when they go on, what was written does
     * not change.
     *
     * @param imageDirectory an existing, empty folder; each tree gets a folder of its own in it
     * @param plan           how; a copy that was made for it before is used
     * @return what was written, to be made safe
     * @throws CheckpointException if an image could not be written; the message says which tree and why
     */
    WrittenImages write(Path imageDirectory, ImagePlan plan) throws CheckpointException;

    /**
     * Ends all the processes by SIGKILL and waits until they are gone. For {@code checkpoint --kill}, after the
     * manifest is in place.
     *
     * @throws CheckpointException if one is still there when the deadline passes
     */
    void kill() throws CheckpointException;

    /**
     * Lets the processes run on; {@link #close} is to follow.
     *
     * @throws CheckpointException if they cannot be thawed
     */
    default void thaw() throws CheckpointException {
        close();
    }

    /**
     * Lets the processes run on and gives back the control groups they came from. Safe to call more than once.
     *
     * @throws CheckpointException if they cannot be thawed
     */
    @Override
    void close() throws CheckpointException;
}
