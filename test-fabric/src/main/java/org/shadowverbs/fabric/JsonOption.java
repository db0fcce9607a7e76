// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.util.List;

/** The arguments of a command that takes {@code --json} and nothing else. */
final class JsonOption {
    private JsonOption() {
    }

    /** Whether it is there. Ends the process with one line and status 2 when there is anything else. */
    static boolean parse(final String command, final String... arguments) {
        for (final String argument : arguments) {
            if (!argument.equals("--json")) {
                System.err.println("shadowverbs: " + command + ": unknown argument " + argument
                        + " (see shadowverbs help " + command + ")");
                System.exit(2);
            }
        }
        return List.of(arguments).contains("--json");
    }
}
