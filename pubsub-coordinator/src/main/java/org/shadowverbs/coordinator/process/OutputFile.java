// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * A regular file that was open for writing, and is put back at restart.
 *
 * @param path  its absolute path
 * @param bytes its length when all stood still
 * @param copy  the image file that holds its contents as it was mapped shared and writable, and so rewritten in
 *              place; empty when it only needs its length
 */
public record OutputFile(String path, long bytes, String copy) {
}
