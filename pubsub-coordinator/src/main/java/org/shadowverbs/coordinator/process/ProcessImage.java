// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.List;

/**
 * One process of a tree.
 *
 * @param root       the name of the root that it is, empty when it is a descendant of one
 * @param pid        its pid as it sees it itself, which it has again after the restore
 * @param parentPid  that of its parent; 0 for the topmost
 * @param command    its command name
 * @param threads    the number of its threads
 * @param externals  its descriptors that lead out of the tree and are given anew at restart
 */
public record ProcessImage(
        String root, long pid, long parentPid, String command, int threads, List<ExternalDescriptor> externals) {
}
