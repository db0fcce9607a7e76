// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Where the distribution and the JDK are. */
final class Installation {
    private Installation() {
    }

    /** The distribution's folder; the command script names it. */
    static Path home() throws CommandException {
        final String home = System.getProperty("shadowverbs.home", "");
        if (home.isEmpty()) {
            throw new CommandException("this command is to be started by bin/shadowverbs of the distribution");
        }
        return Path.of(home);
    }

    static Path command() throws CommandException {
        return home().resolve("bin/shadowverbs");
    }

    static Path preloadLibrary() throws CommandException {
        return existing(home().resolve("lib/libshadowverbs.so"), "the preload library");
    }

    static Path fabric() throws CommandException {
        existing(home().resolve("fabric/libibverbs.so.1"), "the software HCA's library");
        return home().resolve("fabric");
    }

    static Path libjvm() throws CommandException {
        return existing(Path.of(System.getProperty("java.home"), "lib/server/libjvm.so"), "the JVM");
    }

    static Path libjsig() throws CommandException {
        return existing(Path.of(System.getProperty("java.home"), "lib/libjsig.so"),
                "the JDK's signal chaining library");
    }

    private static Path existing(final Path file, final String what) throws CommandException {
        if (!Files.exists(file)) {
            throw new CommandException(what + " is missing: " + file + " (build the distribution again)");
        }
        return file;
    }

    /**
     * A daemon: in a session of its own, so that no terminal's signals reach it, and no child of this process, which
     * may become a program that is to be checkpointed with all its children.
     */
    static List<String> daemon(final String... arguments) throws CommandException {
        final List<String> command = new java.util.ArrayList<>(List.of("setsid", "--fork", command().toString()));
        command.addAll(List.of(arguments));
        return command;
    }
}
