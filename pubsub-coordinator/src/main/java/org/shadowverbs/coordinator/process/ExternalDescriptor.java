// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * A descriptor that leads out of the tree, or one of 0 to 2 whatever it is, or any that is a terminal.
 *
 * @param fd       the descriptor's number
 * @param kind     what it is
 * @param target   what the kernel calls it, for example "pipe:[1234]" or "/dev/pts/3"
 * @param resource how the image calls it, empty when the image holds it itself
 * @param inode    its inode, the key of a replaced pipe
 * @param writable whether it is open for writing
 */
public record ExternalDescriptor(
        int fd, Kind kind, String target, String resource, long inode, boolean writable) {
    /** What a descriptor is. */
    public enum Kind {
        /** A regular file. */
        FILE,
        /** /dev/null or another device that is opened by name. */
        DEVICE,
        /** A terminal. */
        TERMINAL,
        /** A pipe or FIFO whose other end is outside the tree. */
        PIPE,
        /** The pipe that tells a rank what happened; the caller replaces it. */
        REPLACED_PIPE,
        /** Anything else: the image holds it. */
        OTHER
    }
}
