// SPDX-License-Identifier: Apache-2.0
/**
 * Copies of images at several levels: on a host's own disk or memory, at a partner host, on the file system that all share. Nothing here
 * deals with processes. {@link org.shadowverbs.coordinator.levels.ImageCopy} makes a copy and verifies it,
 * {@link org.shadowverbs.coordinator.levels.ImageServer} and {@link org.shadowverbs.coordinator.levels.ImageFetcher} are the two ends of
 * one that comes from another host, {@link org.shadowverbs.coordinator.levels.Resolution} says which copy a restore reads. At each level a
 * checkpoint's images have the same paths, CHECKPOINT/HOST/TREE/FILE, so what builds on others finds them beside itself.
 */
package org.shadowverbs.coordinator.levels;
