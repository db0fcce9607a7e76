// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

final class ManualTest {
    @TempDir
    private Path share;

    @BeforeEach
    void write() throws IOException {
        Manual.main(new String[] {share.toString()});
    }

    @Test
    void eachCommandHasAPageWithItsOptions() throws IOException {
        final CommandLine line = Main.line(Map.of());
        final String overview = Files.readString(share.resolve("man/man1/shadowverbs.1"));
        for (final CommandLine command : line.getSubcommands().values()) {
            final String name = command.getCommandName();
            assertTrue(overview.contains("\\fB" + name + "\\fR"), name);
            final String page = Files.readString(share.resolve("man/man1/shadowverbs-" + name + ".1"));
            assertTrue(page.startsWith(".TH SHADOWVERBS-" + name.toUpperCase(java.util.Locale.ROOT) + " 1 "), page);
            for (final OptionSpec option : command.getCommandSpec().options()) {
                assertTrue(page.contains("\\fB" + option.longestName().replace("-", "\\-") + "\\fR"), name + option.longestName());
            }
        }
    }

    @Test
    void bashCompletesCommandsOptionsAndTheirValues() throws Exception {
        assertEquals("launch list", completed("l"));
        assertEquals("--keep", completed("launch --ke"));
        assertEquals("hca ib2tcp", completed("restart --backend ''"));
    }

    /** What bash offers for the last word. */
    private String completed(final String words) throws Exception {
        final Process bash = new ProcessBuilder("bash", "--norc", "-c", "source \"$0\"; compopt() { :; }; COMP_WORDS=(shadowverbs " + words
                + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=\"${COMP_WORDS[*]}\"; COMP_POINT=${#COMP_LINE};"
                + " _complete_shadowverbs; printf '%s\\n' \"${COMPREPLY[@]}\"",
                share.resolve("bash-completion/completions/shadowverbs").toString()).redirectErrorStream(true).start();
        final String said = new String(bash.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, bash.waitFor(), said);
        return Stream.of(said.split("\\s+")).sorted().collect(Collectors.joining(" "));
    }
}
