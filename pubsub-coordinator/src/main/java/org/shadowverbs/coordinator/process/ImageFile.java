// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * One file of an image.
 *
 * @param name   its name in the tree's folder
 * @param bytes  its size
 * @param crc32c its CRC-32C, eight hexadecimal digits
 */
public record ImageFile(String name, long bytes, String crc32c) {
}
