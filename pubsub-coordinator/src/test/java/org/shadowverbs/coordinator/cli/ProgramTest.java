// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Programs that the dynamic linker starts in secure execution, in which it preloads nothing. */
final class ProgramTest {
    private static final int SETUID = 04755;
    private static final int SETGID = 02755;

    @TempDir
    private Path directory;
    private Path program;
    private int user;
    private int group;

    @BeforeEach
    void aProgram() throws IOException {
        program = Files.copy(Path.of("/bin/true"), directory.resolve("program"));
        user = (int) Files.getAttribute(program, "unix:uid");
        group = (int) Files.getAttribute(program, "unix:gid");
    }

    @Test
    void thatOfAnotherUserOrGroupIsRefusedWhenItTakesTheirRights() throws IOException {
        accepted(user + 1, group + 1);
        Files.setAttribute(program, "unix:mode", SETUID);
        accepted(user, group + 1);
        refused(user + 1, group);
        Files.setAttribute(program, "unix:mode", SETGID);
        accepted(user + 1, group);
        refused(user, group + 1);
    }

    /** To set them takes a privilege, which whoever runs all tests has. */
    @Test
    void oneWithCapabilitiesIsRefusedButForRoot() throws Throwable {
        accepted(1000, group);
        giveCapability();
        refused(1000, group);
        accepted(0, group);
        final Path script = Files.writeString(directory.resolve("script"), "#!" + program + "\n");
        assertTrue(assertThrows(CommandException.class, () -> Program.check(script, 1000, group)).getMessage()
                .startsWith(script.toString()));
    }

    private void accepted(final int asUser, final int asGroup) {
        assertDoesNotThrow(() -> Program.check(program, asUser, asGroup));
    }

    private void refused(final int asUser, final int asGroup) {
        final CommandException e = assertThrows(CommandException.class, () -> Program.check(program, asUser, asGroup));
        assertTrue(e.getMessage().contains("runs with other rights than the user's"), e.getMessage());
    }

    /** CAP_NET_RAW, permitted: struct vfs_cap_data of linux/capability.h, revision 2. */
    private void giveCapability() throws Throwable {
        final byte[] data = ByteBuffer.allocate(20).order(ByteOrder.LITTLE_ENDIAN).putInt(0x02000000).putInt(1 << 13).array();
        final Linker linker = Linker.nativeLinker();
        try (Arena arena = Arena.ofConfined()) {
            final int result = (int) linker.downcallHandle(linker.defaultLookup().find("setxattr").orElseThrow(),
                    FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS,
                            ValueLayout.ADDRESS, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT))
                    .invokeExact(arena.allocateFrom(program.toString()), arena.allocateFrom("security.capability"),
                            arena.allocateFrom(ValueLayout.JAVA_BYTE, data), (long) data.length, 0);
            assertEquals(0, result, "setxattr");
        }
    }
}
