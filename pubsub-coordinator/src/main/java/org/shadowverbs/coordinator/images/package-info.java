// SPDX-License-Identifier: Apache-2.0
/**
 * Files of images on the disk: checksums, compression, and which compression pays. It knows nothing of processes, and works on
 * blocks of a file on several cores at once. Only agents and commands use it, no rank does: its libraries are not in a rank's
 * class path.
 */
package org.shadowverbs.coordinator.images;
