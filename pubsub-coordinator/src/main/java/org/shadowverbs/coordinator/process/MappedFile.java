// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * A file that processes had mapped, which must be the same at restart.
 *
 * @param path    its absolute path
 * @param bytes   its length
 * @param buildId the GNU build id of an ELF file in hexadecimal, empty when it has none
 */
public record MappedFile(String path, long bytes, String buildId) {
}
