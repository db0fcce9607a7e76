// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.From;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.Size;
import picocli.CommandLine;

/** What follows the program is for the program, to the last word: no option, file of arguments or quote of launch's own. */
final class LaunchArgumentsTest {
    @Property(tries = 200)
    void reachTheProgramAsTheyAre(@ForAll @Size(max = 6) final List<@From("words") String> words) {
        for (final String options : List.of("", " -p 5 --test-fabric", " --", " --keep 3 --")) {
            final List<String> program = new ArrayList<>(List.of("program"));
            program.addAll(words);
            final List<String> args = new ArrayList<>(List.of(("launch" + options).split(" ")));
            args.addAll(program);
            final CommandLine line = Main.line(Map.of());
            line.parseArgs(args.toArray(new String[0]));
            assertEquals(program, line.getSubcommands().get("launch").getCommandSpec().positionalParameters().getFirst().getValue());
        }
    }

    @Provide
    Arbitrary<String> words() {
        return Arbitraries.oneOf(Arbitraries.of("", "-", "--", "-p", "--port=5", "--help", "-h", "launch", "@/etc/passwd", "'a b'",
                "\"q\"", "${user.home}", "--test-fabric", "-x", "a,b", "\\", "--kill=no"), Arbitraries.strings().ofMaxLength(5));
    }
}
