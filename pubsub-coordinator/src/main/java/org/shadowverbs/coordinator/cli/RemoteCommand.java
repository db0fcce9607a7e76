// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;

/** checkpoint, status, kill, quit: the coordinator does them, this prints what it says. */
final class RemoteCommand {
    private static final long ANSWER_MILLIS = 30_000;

    private final String name;
    private final String flag;
    private final String argument;
    private final boolean unbounded;
    private final Map<String, String> environment;

    /**
     * @param flag a plain flag that is passed on as the argument of that name, or empty
     * @param unbounded whether only the coordinator's own deadlines count
     */
    RemoteCommand(final String name, final String flag, final String argument, final boolean unbounded,
            final Map<String, String> environment) {
        this.name = name;
        this.flag = flag;
        this.argument = argument;
        this.unbounded = unbounded;
        this.environment = environment;
    }

    int run(final List<String> args) throws UsageException, CommandException {
        final Arguments a = Arguments.parse(name, args, Set.of("-h", "-p"),
                flag.isEmpty() ? Set.of("--json") : Set.of("--json", flag));
        a.noOperands(name);
        final Address address = Address.of(name, a, environment);
        final boolean json = a.has("--json");
        final Map<String, String> arguments =
                flag.isEmpty() ? Map.of() : Map.of(argument, Boolean.toString(a.has(flag)));
        try {
            final Result result = CoordinatorClient.call(address, name, arguments, unbounded ? 0 : ANSWER_MILLIS,
                    line -> (json ? System.err : System.out).println(line));
            if (json) {
                System.out.println(result.json());
                if (result.status() != 0) {
                    System.err.println("shadowverbs: " + result.text());
                }
            } else if (result.status() == 0 || result.text().startsWith("/")) {
                System.out.println(result.text());
            } else {
                System.err.println("shadowverbs: " + result.text());
            }
            return result.status();
        } catch (CoordinatorClient.Unreachable e) {
            throw new CommandException(name + ": " + e.getMessage());
        }
    }
}
