// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** The command line. Exit status 0 done, 1 failed, 2 wrong usage; every error is one line on standard error. */
public final class Main {
    private static final int WRONG_USAGE = 2;

    private Main() {
    }

    public static void main(final String[] args) {
        final int status = run(Arrays.asList(args), System.getenv());
        System.out.flush();
        System.exit(status);
    }

    /** Runs a command and returns its exit status. */
    static int run(final List<String> args, final Map<String, String> environment) {
        try {
            return dispatch(args, environment);
        } catch (UsageException e) {
            System.err.println("shadowverbs: " + e.getMessage());
            return WRONG_USAGE;
        } catch (CommandException e) {
            System.err.println("shadowverbs: " + e.getMessage());
            return e.status();
        }
    }

    private static int dispatch(final List<String> args, final Map<String, String> environment)
            throws UsageException, CommandException {
        if (args.isEmpty()) {
            throw new UsageException("no command is given (see shadowverbs help)");
        }
        final String command = args.getFirst();
        final List<String> rest = args.subList(1, args.size());
        if (command.equals("help") || command.equals("--help")) {
            System.out.print(rest.isEmpty() ? Help.overview() : Help.of(rest.getFirst()));
            return 0;
        }
        if (Help.knows(command) && !rest.isEmpty() && rest.getFirst().equals("--help")) {
            System.out.print(Help.of(command));
            return 0;
        }
        return switch (command) {
            case "launch" -> new LaunchCommand(environment).run(rest);
            case "checkpoint" -> new RemoteCommand(command, "--kill", "kill", true, environment).run(rest);
            case "restart" -> new RestartCommand(environment).run(rest);
            case "status", "quit" -> new RemoteCommand(command, "", "", false, environment).run(rest);
            case "kill" -> new RemoteCommand(command, "--now", "now", false, environment).run(rest);
            case "list" -> new ListCommand(environment).run(rest);
            case "coordinator" -> new CoordinatorCommand(environment).run(rest);
            case "agent" -> new AgentCommand(environment).run(rest);
            case "doctor" -> new DoctorCommand(environment).run(rest);
            case "demo" -> FabricCommand.run(command, "org.shadowverbs.fabric.Demo", rest);
            case "bench" -> FabricCommand.run(command, "org.shadowverbs.fabric.Bench", rest);
            default -> throw new UsageException("no such command: " + command + " (see shadowverbs help)");
        };
    }
}
