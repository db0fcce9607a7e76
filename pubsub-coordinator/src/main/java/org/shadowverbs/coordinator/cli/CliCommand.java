// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;
import picocli.CommandLine.TypeConversionException;

/**
 * A command: its options, which are there when it has been parsed, and what it does. It says what it takes by picocli's
 * methods, not by annotations: the classes by which those are read are in no AOT cache, and cost each command tens of milliseconds.
 */
abstract class CliCommand implements Callable<Integer> {
    private final CommandSpec spec = CommandSpec.wrapWithoutInspection(this);

    /** @param description the first line is the one that stands in the list of all commands */
    CliCommand(final String... description) {
        spec.usageMessage().description(description).synopsisHeading("usage: ").sortOptions(false).sortSynopsis(false);
    }

    /** With the options that all have. Where -h names a host, as DMTCP's users know it, help has its long name alone. */
    final CommandSpec complete() {
        final OptionSpec.Builder help = spec.findOption("-h") == null ? OptionSpec.builder("-h", "--help")
                : OptionSpec.builder("--help");
        return spec.addOption(help.usageHelp(true).description("prints this").build());
    }

    final void version(final String line) {
        spec.version(line).addOption(OptionSpec.builder("--version").versionHelp(true).description("prints the version").build());
    }

    final String name() {
        return spec.name();
    }

    final void footer(final String line) {
        spec.usageMessage().footer(line);
    }

    /** What was given behind the name of the command. */
    final List<String> arguments() {
        final List<String> all = spec.root().commandLine().getParseResult().originalArgs();
        return all.subList(1, all.size());
    }

    /** The same without {@code --daemon}, for the process in the background. */
    final List<String> argumentsOfDaemon() {
        final List<String> all = new ArrayList<>(arguments());
        all.remove(all.stream().filter(a -> a.startsWith("--daemon")).findFirst().orElseThrow());
        return all;
    }

    final Supplier<Boolean> flag(final String name, final String description) {
        return add(OptionSpec.builder(name).type(boolean.class).initialValue(false).description(description));
    }

    final Supplier<Boolean> json() {
        return flag("--json", "one object on standard output");
    }

    /** @param otherwise the value when the option is not given; null: null */
    final Supplier<String> text(final List<String> names, final String label, final String otherwise,
            final String description) {
        return add(value(names, label, description).type(String.class).initialValue(otherwise));
    }

    final Supplier<Path> path(final String name, final String label, final String description) {
        return add(value(List.of(name), label, description).type(Path.class).initialValue(null).converters(Path::of));
    }

    final Supplier<Path> checkpointDirectory() {
        return path("--ckptdir", "DIR", "where checkpoints go (SHADOWVERBS_CKPTDIR; the current directory)");
    }

    /** @param otherwise the value when the option is not given; null: null */
    final Supplier<Integer> number(final List<String> names, final String label, final int least, final int most,
            final Integer otherwise, final String description) {
        return add(value(names, label, description).type(Integer.class).initialValue(otherwise)
                .converters(text -> number(text, least, most)));
    }

    /** Null when it is not given. @param check returns the value, or throws what goes behind the name of the option */
    final Supplier<String> checked(final List<String> names, final String label, final ITypeConverter<String> check,
            final String description) {
        return add(value(names, label, description).type(String.class).initialValue(null).converters(check));
    }

    /** Null when it is not given. */
    final Supplier<Double> decimal(final String name, final String label, final double least, final double most,
            final String description) {
        final ITypeConverter<Double> check = text -> decimal(text, least, most);
        return add(value(List.of(name), label, description).type(Double.class).initialValue(null).converters(check));
    }

    /** One of two; null when it is not given. */
    final Supplier<String> choice(final String name, final String label, final List<String> choices,
            final String description) {
        final ITypeConverter<String> check = text -> {
            if (!choices.contains(text)) {
                throw new TypeConversionException("takes " + String.join(" or ", choices) + ", not " + text);
            }
            return text;
        };
        return add(value(List.of(name), label, description).type(String.class).initialValue(null).converters(check)
                .completionCandidates(choices));
    }

    final Supplier<List<String>> list(final String name, final String label, final String description) {
        return add(value(List.of(name), label, description).type(List.class).auxiliaryTypes(String.class).splitRegex(",")
                .hideParamSyntax(true).initialValue(List.of()));
    }

    /** @param arity how many, as picocli writes it */
    final Supplier<List<String>> operands(final String label, final String arity, final String description) {
        final PositionalParamSpec operands = PositionalParamSpec.builder().index("0..*").arity(arity).required(!arity.startsWith("0")).paramLabel(label)
                .description(description).type(List.class).auxiliaryTypes(String.class).initialValue(List.of()).build();
        spec.addPositional(operands);
        return operands::getValue;
    }

    /** @param arity 1, or 0..1: null when it is not given */
    final Supplier<String> operand(final String label, final String arity, final String description) {
        final PositionalParamSpec operand = PositionalParamSpec.builder().index("0").arity(arity).required(!arity.startsWith("0")).paramLabel(label)
                .description(description).type(String.class).initialValue(null).build();
        spec.addPositional(operand);
        return operand::getValue;
    }

    private static OptionSpec.Builder value(final List<String> names, final String label, final String description) {
        return OptionSpec.builder(names.toArray(new String[0])).arity("1").paramLabel(label).description(description);
    }

    private <T> Supplier<T> add(final OptionSpec.Builder builder) {
        final OptionSpec option = builder.build();
        spec.addOption(option);
        return option::getValue;
    }

    /** What it throws goes behind the name of an option. */
    static int number(final String text, final int least, final int most) {
        try {
            final int n = Integer.parseInt(text);
            if (n >= least && n <= most) {
                return n;
            }
        } catch (NumberFormatException e) {
            throw new TypeConversionException("takes a number, not \"" + text + '"');
        }
        throw new TypeConversionException("takes a number from " + least + " to " + most + ", not " + text);
    }

    private static double decimal(final String text, final double least, final double most) {
        try {
            final double d = Double.parseDouble(text);
            if (d >= least && d <= most) {
                return d;
            }
        } catch (NumberFormatException e) {
            throw new TypeConversionException("takes a number, not \"" + text + '"');
        }
        throw new TypeConversionException(String.format(Locale.ROOT, "takes a number from %.4g to %.7g, not %s", least, most, text));
    }

    @Override
    public abstract Integer call() throws CommandException;
}
