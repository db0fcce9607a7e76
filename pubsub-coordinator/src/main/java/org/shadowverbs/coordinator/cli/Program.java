// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.shadowverbs.coordinator.system.Libc;

/** The program that {@code launch} is to become: found as a shell finds it, refused where nothing can be preloaded. */
final class Program {
    private static final int NOT_FOUND = 127;
    private static final int NOT_EXECUTABLE = 126;
    private static final int PT_INTERP = 3;
    private static final int SETUID = 04000;
    private static final int SETGID = 02000;
    private static final String CAPABILITIES = "security.capability";

    private Program() {
    }

    static Path find(final String name, final String path) throws CommandException {
        if (name.indexOf('/') >= 0) {
            final Path file = Path.of(name);
            if (!Files.exists(file)) {
                throw new CommandException(name + ": no such program", NOT_FOUND);
            }
            return executable(file);
        }
        Path unusable = null;
        for (final String directory : path.split(":")) {
            final Path file = Path.of(directory.isEmpty() ? "." : directory).resolve(name);
            if (Files.isRegularFile(file)) {
                if (Files.isExecutable(file)) {
                    return file;
                }
                unusable = file;
            }
        }
        if (unusable != null) {
            throw new CommandException(unusable + ": not executable", NOT_EXECUTABLE);
        }
        throw new CommandException(name + ": no such program in PATH", NOT_FOUND);
    }

    private static Path executable(final Path file) throws CommandException {
        if (!Files.isRegularFile(file) || !Files.isExecutable(file)) {
            throw new CommandException(file + ": not executable", NOT_EXECUTABLE);
        }
        return file;
    }

    /** Refuses a program into which the dynamic linker would preload nothing. */
    static void check(final Path program) throws CommandException {
        final Path self = Path.of("/proc/self");
        try {
            check(program, (int) Files.getAttribute(self, "unix:uid"), (int) Files.getAttribute(self, "unix:gid"));
        } catch (IOException e) {
            throw new CommandException(self + " can't be read: " + e.getMessage(), NOT_EXECUTABLE);
        }
    }

    /** The same for a user and a group. */
    static void check(final Path program, final int user, final int group) throws CommandException {
        check(program, program, user, group, 4);
    }

    private static void check(final Path program, final Path named, final int user, final int group, final int depth)
            throws CommandException {
        try (FileChannel in = FileChannel.open(program, StandardOpenOption.READ)) {
            if (hasOtherRights(program, user, group)) {
                throw new CommandException(named + " runs with other rights than the user's (setuid, setgid or file"
                        + " capabilities): nothing can be preloaded into it", NOT_EXECUTABLE);
            }
            final ByteBuffer head = ByteBuffer.allocate(4096).order(ByteOrder.LITTLE_ENDIAN);
            while (head.hasRemaining() && in.read(head) >= 0) {
                continue;
            }
            head.flip();
            if (head.limit() > 2 && head.get(0) == '#' && head.get(1) == '!') {
                checkInterpreter(head, named, user, group, depth);
            } else if (head.limit() >= 64 && head.getInt(0) == 0x464c457f) {
                checkElf(in, head, program);
            }
        } catch (IOException e) {
            throw new CommandException(program + " can't be read: " + e.getMessage(), NOT_EXECUTABLE);
        }
    }

    /** Capabilities of a file give root nothing new: execve(2), ld.so(8) on secure execution. */
    private static boolean hasOtherRights(final Path program, final int user, final int group) throws IOException {
        final int mode = (int) Files.getAttribute(program, "unix:mode");
        return (mode & SETUID) != 0 && (int) Files.getAttribute(program, "unix:uid") != user
                || (mode & SETGID) != 0 && (int) Files.getAttribute(program, "unix:gid") != group
                || user != 0 && Libc.hasAttribute(program, CAPABILITIES);
    }

    private static void checkInterpreter(final ByteBuffer head, final Path named, final int user, final int group,
            final int depth) throws CommandException {
        final StringBuilder line = new StringBuilder();
        for (int i = 2; i < head.limit() && head.get(i) != '\n'; i++) {
            line.append((char) head.get(i));
        }
        final String interpreter = line.toString().strip().split("\\s+")[0];
        if (!Files.isExecutable(Path.of(interpreter))) {
            throw new CommandException(named + ": its interpreter " + interpreter + " is missing", NOT_EXECUTABLE);
        }
        if (depth > 0) {
            check(Path.of(interpreter), named, user, group, depth - 1);
        }
    }

    private static void checkElf(final FileChannel in, final ByteBuffer head, final Path program)
            throws IOException, CommandException {
        final boolean wide = head.get(4) == 2;
        if (!wide || head.getShort(18) != 62) {
            throw new CommandException(program + " is no x86-64 program", NOT_EXECUTABLE);
        }
        final long headers = head.getLong(32);
        final int size = Short.toUnsignedInt(head.getShort(54));
        final int count = Short.toUnsignedInt(head.getShort(56));
        final ByteBuffer one = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < count; i++) {
            one.clear();
            if (in.read(one, headers + (long) i * size) == 4 && one.getInt(0) == PT_INTERP) {
                return;
            }
        }
        throw new CommandException(program + " is linked statically: nothing can be preloaded into it", NOT_EXECUTABLE);
    }
}
