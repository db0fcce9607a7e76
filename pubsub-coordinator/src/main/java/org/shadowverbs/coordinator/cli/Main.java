// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.List;
import java.util.Map;
import picocli.CommandLine;
import picocli.CommandLine.MissingParameterException;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.TypeConversionException;
import picocli.CommandLine.UnmatchedArgumentException;

/** The command line. Exit status 0 done, 1 failed, 2 wrong usage; every error is one line on standard error. */
public final class Main {
    static final String VERSION = "shadowverbs " + Main.class.getPackage().getImplementationVersion();
    private static final int WIDTH = 100;
    /** In the order of the help. */
    private static final List<String> COMMANDS = List.of("launch", "checkpoint", "restart", "job", "rsh", "status", "list", "kill", "quit",
            "coordinator", "agent", "doctor", "demo", "bench", "help");

    private Main() {
    }

    public static void main(final String[] args) {
        final int status = run(List.of(args), System.getenv());
        System.out.flush();
        System.exit(status);
    }

    /** Runs a command and returns its exit status. */
    static int run(final List<String> args, final Map<String, String> environment) {
        // A command that is named needs no other: to make the options of all of them takes time.
        final boolean one = !args.isEmpty() && COMMANDS.contains(args.getFirst());
        return line(one ? List.of(args.getFirst()) : COMMANDS, environment).execute(args.toArray(new String[0]));
    }

    /** With all commands. */
    static CommandLine line(final Map<String, String> environment) {
        return line(COMMANDS, environment);
    }

    private static CommandLine line(final List<String> commands, final Map<String, String> environment) {
        final CliCommand root = new RootCommand();
        final CommandLine line = new CommandLine(root.complete().name("shadowverbs"));
        commands.forEach(name -> line.addSubcommand(name, new CommandLine(command(name, environment).complete())
                .setUnmatchedOptionsArePositionalParams("rsh".equals(name)) // those of ssh
                .setStopAtPositional(List.of("launch", "job", "rsh").contains(name)))); // what follows the program is for the program
        return line.setExpandAtFiles(false)
                .setOverwrittenOptionsAllowed(true)
                .setUsageHelpWidth(WIDTH)
                .setParameterExceptionHandler((e, args) -> failed(wrongUsage(e, args), CommandLine.ExitCode.USAGE))
                .setExecutionExceptionHandler((e, command, result) -> {
                    if (e instanceof CommandException c) {
                        return failed(c.getMessage(), c.status());
                    }
                    throw e;
                });
    }

    private static CliCommand command(final String name, final Map<String, String> environment) {
        return switch (name) {
            case "launch" -> new LaunchCommand(environment);
            case "checkpoint" -> RemoteCommand.checkpoint(environment);
            case "restart" -> new RestartCommand(environment);
            case "job" -> new JobCommand(environment);
            case "rsh" -> new RshCommand(environment);
            case "status" -> RemoteCommand.status(environment);
            case "list" -> new ListCommand(environment);
            case "kill" -> RemoteCommand.kill(environment);
            case "quit" -> RemoteCommand.quit(environment);
            case "coordinator" -> new CoordinatorCommand(environment);
            case "agent" -> new AgentCommand(environment);
            case "doctor" -> new DoctorCommand(environment);
            case "demo" -> FabricCommand.demo();
            case "bench" -> FabricCommand.bench();
            case "help" -> new HelpCommand(environment);
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static int failed(final String message, final int status) {
        System.err.println("shadowverbs: " + message);
        return status;
    }

    private static String wrongUsage(final ParameterException e, final String... args) {
        final CommandSpec command = e.getCommandLine().getCommandSpec();
        final boolean root = command.parent() == null;
        final String prefix = root ? "" : command.name() + ": ";
        final String see = " (see shadowverbs help" + (root ? "" : " " + command.name()) + ")";
        return prefix + switch (e) {
            case UnmatchedArgumentException u -> {
                final String first = u.getUnmatched().getFirst();
                yield u.isUnknownOption() ? "unknown option " + first + see
                        : root ? "no such command: " + first + see : "unexpected argument " + first + see;
            }
            case MissingParameterException m -> {
                final ArgSpec missing = m.getMissing().getFirst();
                yield missing instanceof OptionSpec option ? asGiven(option, args) + " needs a value"
                        : "no " + missing.paramLabel() + " is named" + see;
            }
            case ParameterException p when p.getCause() instanceof TypeConversionException t
                    && p.getArgSpec() instanceof OptionSpec option ->
                asGiven(option, args) + " " + (option.typeInfo().isBoolean() ? "takes no value" : t.getMessage());
            default -> e.getMessage();
        };
    }

    /** The one of its names that was used. */
    private static String asGiven(final OptionSpec option, final String... args) {
        return List.of(option.names()).stream()
                .filter(name -> List.of(args).stream().anyMatch(a -> a.equals(name) || a.startsWith(name + "=")))
                .findFirst().orElse(option.shortestName());
    }
}
