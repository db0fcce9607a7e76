// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NamedPipeTest {
    private static final int FIFO = 0010000;
    private static final int FOLDER = 0040000;

    @TempDir
    Path temporary;
    private Path file;
    private int uid;
    private int gid;

    @BeforeEach
    void know() throws Exception {
        file = temporary.resolve("session/7/fifo");
        uid = (int) Files.getAttribute(temporary, "unix:uid");
        gid = (int) Files.getAttribute(temporary, "unix:gid");
    }

    @Test
    void isMadeWithItsFoldersAsTheyWere() throws Exception {
        final NamedPipe pipe = pipe(uid);
        assertEquals("", pipe.problem());
        pipe.make(file);
        assertEquals(FIFO | 0622, mode(file));
        assertEquals(FOLDER | 0750, mode(file.getParent()));
        assertEquals(FOLDER | 0711, mode(file.getParent().getParent()));
    }

    @Test
    void isLeftAloneWhereItIs() throws Exception {
        pipe(uid).make(file);
        final Object inode = Files.getAttribute(file, "unix:ino");
        Files.setAttribute(file, "unix:mode", 0600);
        assertEquals("", pipe(uid).problem());
        pipe(uid).make(file);
        assertEquals(inode, Files.getAttribute(file, "unix:ino"));
        assertEquals(FIFO | 0600, mode(file));
    }

    @Test
    void takesNoOtherFilesPlace() throws Exception {
        Files.createDirectories(file.getParent());
        Files.writeString(file, "somebody's");
        assertEquals(file + " is no FIFO any more", pipe(uid).problem());
        assertThrows(CheckpointException.class, () -> pipe(uid).make(file));
        assertEquals("somebody's", Files.readString(file));
    }

    @Test
    void isNotMadeInAFolderOfAnotherUser() throws Exception {
        final Path session = Files.createDirectory(temporary.resolve("session"));
        assertEquals("the FIFO " + file + " is missing, and " + session + " is not the folder that it was", pipe(uid + 1).problem());
        Files.delete(session);
        Files.createSymbolicLink(session, Files.createDirectory(temporary.resolve("elsewhere")));
        assertEquals("the FIFO " + file + " is missing, and " + session + " is not the folder that it was", pipe(uid).problem());
    }

    @Test
    void needsItsFolderWhereNotEverybodyMakesSome() throws Exception {
        final NamedPipe pipe = new NamedPipe(file.toString(), 0622, uid, gid, List.of());
        assertEquals("the FIFO " + file + " is missing, and so is the folder " + file.getParent(), pipe.problem());
        Files.createDirectories(file.getParent());
        assertEquals("", pipe.problem());
        pipe.make(file);
        assertFalse(Files.isRegularFile(file));
        assertEquals(FIFO | 0622, mode(file));
    }

    private NamedPipe pipe(final int owner) {
        final Path folder = file.getParent();
        return new NamedPipe(file.toString(), 0622, uid, gid, List.of(
                new NamedPipe.Folder(folder.getParent().toString(), 0711, owner, gid),
                new NamedPipe.Folder(folder.toString(), 0750, owner, gid)));
    }

    private static int mode(final Path file) throws Exception {
        return (int) Files.getAttribute(file, "unix:mode", LinkOption.NOFOLLOW_LINKS);
    }
}
