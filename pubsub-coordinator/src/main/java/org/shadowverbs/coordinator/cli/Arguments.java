// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Flags and operands of a command. {@code --} ends the flags. */
final class Arguments {
    private final Map<String, String> values = new LinkedHashMap<>();
    private final Set<String> given = new LinkedHashSet<>();
    private final List<String> operands = new ArrayList<>();

    private Arguments() {
    }

    /**
     * Parses.
     *
     * @param withValue flags that take a value, as {@code --flag VALUE} or {@code --flag=VALUE}
     * @param plain flags that take none
     */
    static Arguments parse(final String command, final List<String> args, final Set<String> withValue,
            final Set<String> plain) throws UsageException {
        return parse(command, args, withValue, plain, false);
    }

    /** The same for a command whose first operand is a program: what follows that is for the program. */
    static Arguments parseUntilProgram(final String command, final List<String> args, final Set<String> withValue,
            final Set<String> plain) throws UsageException {
        return parse(command, args, withValue, plain, true);
    }

    private static Arguments parse(final String command, final List<String> args, final Set<String> withValue,
            final Set<String> plain, final boolean untilProgram) throws UsageException {
        final Arguments a = new Arguments();
        int i = 0;
        for (; i < args.size(); i++) {
            final String arg = args.get(i);
            if (arg.equals("--")) {
                i++;
                break;
            }
            if (!arg.startsWith("-") || arg.equals("-")) {
                if (untilProgram) {
                    break;
                }
                a.operands.add(arg);
                continue;
            }
            final int equals = arg.startsWith("--") ? arg.indexOf('=') : -1;
            final String flag = equals < 0 ? arg : arg.substring(0, equals);
            if (withValue.contains(flag)) {
                if (equals >= 0) {
                    a.values.put(flag, arg.substring(equals + 1));
                } else if (++i < args.size()) {
                    a.values.put(flag, args.get(i));
                } else {
                    throw new UsageException(command + ": " + flag + " needs a value");
                }
            } else if (plain.contains(flag) && equals < 0) {
                a.given.add(flag);
            } else {
                throw new UsageException(command + ": unknown option " + arg + " (see shadowverbs help " + command
                        + ")");
            }
        }
        a.operands.addAll(args.subList(i, args.size()));
        return a;
    }

    boolean has(final String flag) {
        return given.contains(flag) || values.containsKey(flag);
    }

    String value(final String flag, final String otherwise) {
        return values.getOrDefault(flag, otherwise);
    }

    /** A number within bounds. */
    int number(final String command, final String flag, final int otherwise, final int least, final int most)
            throws UsageException {
        return has(flag) ? number(command + ": " + flag, value(flag, ""), least, most) : otherwise;
    }

    static int number(final String what, final String text, final int least, final int most) throws UsageException {
        try {
            final int n = Integer.parseInt(text);
            if (n >= least && n <= most) {
                return n;
            }
        } catch (NumberFormatException e) {
            throw new UsageException(what + " takes a number, not \"" + text + '"');
        }
        throw new UsageException(what + " takes a number from " + least + " to " + most + ", not " + text);
    }

    List<String> operands() {
        return operands;
    }

    void noOperands(final String command) throws UsageException {
        if (!operands.isEmpty()) {
            throw new UsageException(command + ": unexpected argument " + operands.getFirst());
        }
    }
}
