// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import java.util.List;

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
     * @return the ends on this host
     * @throws CheckpointException if they can't be looked at
     */
    default TcpEnds connections() throws CheckpointException {
        return TcpEnds.NONE;
    }

    /**
     * From now on no TCP connection takes in anything, and none comes to a listener.
     *
     * @return the ends on this host of those to other hosts, which do not change any more
     * @throws PassingStateException if one has come that can't be made again
     * @throws CheckpointException   if they can't be held
     */
    default TcpEnds holdConnections() throws CheckpointException {
        return TcpEnds.NONE;
    }

    /**
     * Takes the connections out of the listeners' queues. Those from other hosts are reset when all goes on, and so they are to be made
     * again by their clients' hosts.
     *
     * @return those from other hosts
     * @throws CheckpointException if they can't be accepted
     */
    default List<UnacceptedEnd> acceptConnections() throws CheckpointException {
        return List.of();
    }

    /**
     * Connections to other hosts that are to be made again when all goes on, and after a restart. Safe to call more than once.
     *
     * @param connections whose clients are here
     */
    default void makeAgain(final List<UnacceptedEnd> connections) {
        if (!connections.isEmpty()) {
            throw new IllegalStateException("no connection is held");
        }
    }

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
