// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

/** The names that {@code --backend} takes. */
final class Backends {
    private Backends() {
    }

    static String check(final String command, final String name) throws UsageException {
        if (!name.equals("hca") && !name.equals("ib2tcp")) {
            throw new UsageException(command + ": --backend takes hca or ib2tcp, not " + name);
        }
        return name;
    }
}
