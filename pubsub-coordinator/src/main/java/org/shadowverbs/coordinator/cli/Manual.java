// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.AutoComplete;
import picocli.CommandLine;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/** The manual pages, and the completion of bash, made of what the commands say of themselves. The build runs it. */
final class Manual {
    private Manual() {
    }

    /** @param args the folder {@code share} of the distribution */
    public static void main(final String[] args) throws IOException {
        final CommandLine line = Main.line(Map.of());
        final Path pages = Files.createDirectories(Path.of(args[0], "man/man1"));
        for (final CommandLine one : Stream.concat(Stream.of(line), line.getSubcommands().values().stream()).toList()) {
            final CommandSpec command = one.getCommandSpec();
            Files.writeString(pages.resolve(pageName(command) + ".1"), page(command));
        }
        Files.writeString(Files.createDirectories(Path.of(args[0], "bash-completion/completions")).resolve(line.getCommandName()),
                AutoComplete.bash(line.getCommandName(), line));
    }

    private static String pageName(final CommandSpec command) {
        return command.qualifiedName("-");
    }

    /** As man(7) describes it. */
    private static String page(final CommandSpec command) {
        final List<String> description = List.of(command.usageMessage().description());
        final StringBuilder page = new StringBuilder(".TH " + pageName(command).toUpperCase(Locale.ROOT) + " 1 \"\" \""
                + Main.VERSION + "\"\n");
        section(page, "NAME", text(pageName(command) + " - " + description.getFirst()));
        section(page, "SYNOPSIS", text(new Help(command, Help.defaultColorScheme(Help.Ansi.OFF)).synopsis(0).strip()
                .replaceAll("\\s+", " ")));
        section(page, "DESCRIPTION", description.stream().skip(1).map(Manual::text).collect(Collectors.joining(".PP\n")));
        section(page, "COMMANDS", command.subcommands().values().stream().map(sub ->
                item(bold(sub.getCommandName()), sub.getCommandSpec().usageMessage().description()[0]))
                .collect(Collectors.joining()));
        section(page, "OPTIONS", Stream.<ArgSpec>concat(command.positionalParameters().stream(), command.options().stream())
                .map(Manual::option).collect(Collectors.joining()));
        section(page, "NOTES", Stream.of(command.usageMessage().footer()).map(Manual::text).collect(Collectors.joining(".PP\n")));
        section(page, "SEE ALSO", command.parent() == null
                ? command.subcommands().values().stream().map(sub -> bold(pageName(sub.getCommandSpec())) + "(1)")
                        .collect(Collectors.joining(", ")) + "\n"
                : bold(pageName(command.parent())) + "(1)\n");
        return page.toString();
    }

    private static void section(final StringBuilder page, final String title, final String body) {
        if (!body.isEmpty()) {
            page.append(".SH ").append(title).append('\n').append(body);
        }
    }

    private static String option(final ArgSpec argument) {
        final String label = "\\fI" + escape(argument.paramLabel()) + "\\fR";
        final String head = argument instanceof OptionSpec option
                ? Stream.of(option.names()).map(Manual::bold).collect(Collectors.joining(", "))
                        + (option.arity().max() > 0 ? "=" + label : "")
                : label;
        return item(head, argument.description()[0]);
    }

    private static String item(final String head, final String description) {
        return ".TP\n" + head + "\n" + text(description);
    }

    private static String bold(final String text) {
        return "\\fB" + escape(text) + "\\fR";
    }

    /** A line that is no request, whatever it begins with. */
    private static String text(final String text) {
        return "\\&" + escape(text) + "\n";
    }

    private static String escape(final String text) {
        return text.replace("\\", "\\e").replace("-", "\\-");
    }
}
