// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * A process that was launched; it and all its descendants are saved.
 *
 * <p>A root may be a descendant of another: they are then in one tree. Give the ranks and also what {@code launch}
 * became (a shell, for example) when that is not a rank itself.
 *
 * @param name    how messages call it, unique in the request, for example "rank 3"
 * @param hostPid its pid as this process sees it
 */
public record ProcessRoot(String name, long hostPid) {
}
