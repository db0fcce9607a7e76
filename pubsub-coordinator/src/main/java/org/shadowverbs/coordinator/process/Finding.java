// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * One thing that stands in the way of saving or restoring processes.
 *
 * @param subject who has it: a root's name, with pid and descriptor where that applies
 * @param problem what it is
 * @param mend    what the user can do about it, empty when nothing is known
 */
public record Finding(String subject, String problem, String mend) {
    @Override
    public String toString() {
        return subject + ": " + problem + (mend.isEmpty() ? "" : "; " + mend);
    }
}
