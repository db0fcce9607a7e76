// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.List;

/**
 * What a host has for saving and restoring processes.
 *
 * @param implementation the tool and its version, for example "CRIU 4.2.1"; "CRIU" when its version is not known
 * @param path           where the tool was found, empty when nowhere
 * @param freezer        which freezer will be used, for example "cgroup v1 freezer"
 * @param findings       what is missing, with the mend; empty when all is well
 */
public record Readiness(String implementation, String path, String freezer, List<Finding> findings) {
    /**
     * Whether processes can be saved and restored.
     *
     * @return true if nothing is missing
     */
    public boolean ready() {
        return findings.isEmpty();
    }
}
