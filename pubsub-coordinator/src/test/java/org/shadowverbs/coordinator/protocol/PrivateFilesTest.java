// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** As root: nobody else can give files away, or has as much to lose. */
class PrivateFilesTest {
    private static final int SOMEBODY = 65533;

    @TempDir
    private Path directory;

    private Path folder;
    private Path inside;

    @BeforeEach
    void folders() throws Exception {
        directory = directory.toRealPath();
        assertEquals(0, Files.getAttribute(directory, "unix:uid"), "this test needs root");
        folder = Files.createDirectories(directory.resolve("above/folder"), PrivateFiles.FOLDER);
        inside = Files.createFile(Files.createDirectory(folder.resolve("in"), PrivateFiles.FOLDER).resolve("file"),
                PrivateFiles.FILE);
    }

    private static void mode(final Path path, final int mode) throws IOException {
        Files.setAttribute(path, "unix:mode", mode);
    }

    @Test
    void whatOnlyItsOwnerCanWriteIsTrusted() throws Exception {
        mode(inside, 0444);
        mode(folder, 0755);
        assertEquals("", PrivateFiles.contentProblem(folder));
    }

    @Test
    void whateverAnotherUserCanWriteIsNamed() throws Exception {
        for (final Path path : new Path[] {folder.getParent(), folder, inside.getParent(), inside}) {
            final int mode = (int) Files.getAttribute(path, "unix:mode") & 0777;
            Files.setAttribute(path, "unix:uid", SOMEBODY);
            assertEquals(path + " belongs to user " + SOMEBODY, PrivateFiles.contentProblem(folder));
            Files.setAttribute(path, "unix:uid", 0);
            mode(path, mode | 0002);
            assertEquals(path + " may be written by everybody", PrivateFiles.contentProblem(folder));
            mode(path, mode | 0020);
            assertEquals(path + " may be written by group 0", PrivateFiles.contentProblem(folder));
            mode(path, mode);
            assertEquals("", PrivateFiles.contentProblem(folder));
        }
    }

    /** In a folder with the sticky bit, as /tmp has it, nobody can replace what is another's, but anybody can add to it. */
    @Test
    void theStickyBitCountsOnTheWayAndNotInside() throws Exception {
        mode(folder.getParent(), 01777);
        assertEquals("", PrivateFiles.contentProblem(folder));
        mode(folder, 01777);
        assertTrue(PrivateFiles.contentProblem(folder).startsWith(inside.getParent().getParent() + " may be written"));
    }

    @Test
    void linksAreFollowedOnTheWayAndRefusedInside() throws Exception {
        final Path link = Files.createSymbolicLink(directory.resolve("link"), Path.of("above/./../above"));
        assertEquals("", PrivateFiles.placeProblem(link.resolve("folder")));
        mode(folder.getParent(), 0777);
        assertEquals(folder.getParent() + " may be written by everybody", PrivateFiles.placeProblem(link.resolve("folder")));
        mode(folder.getParent(), 0700);
        Files.setAttribute(link, "unix:uid", SOMEBODY, java.nio.file.LinkOption.NOFOLLOW_LINKS);
        assertEquals(link + " belongs to user " + SOMEBODY, PrivateFiles.placeProblem(link.resolve("folder")));
        final Path loop = Files.createSymbolicLink(directory.resolve("loop"), Path.of("loop"));
        assertThrows(IOException.class, () -> PrivateFiles.placeProblem(loop));
        assertThrows(NoSuchFileException.class, () -> PrivateFiles.placeProblem(directory.resolve("none/such")));

        final Path within = Files.createSymbolicLink(folder.resolve("within"), inside);
        assertEquals(within + " is a symbolic link", PrivateFiles.contentProblem(folder));
    }

    @Test
    void aRunDirectoryIsTakenFromOthersOrRefused() throws Exception {
        final Path root = directory.resolve("run");
        final Path run = RunDirectory.make(root, 7);
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(run)));
        mode(run, 0777);
        RunDirectory.make(root, 7);
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(run)));

        mode(root, 0777);
        assertTrue(assertThrows(IOException.class, () -> RunDirectory.make(root, 7)).getMessage()
                .contains(root + " may be written by everybody"));
        mode(root, 01777);
        RunDirectory.make(root, 7);
        Files.setAttribute(run, "unix:uid", SOMEBODY);
        assertTrue(assertThrows(IOException.class, () -> RunDirectory.make(root, 7)).getMessage()
                .contains("belongs to another user"));
        JobSecret.keep(run, "another's");
        assertTrue(assertThrows(IOException.class, () -> JobSecret.made(run)).getMessage()
                .contains(run + " belongs to user " + SOMEBODY));
    }

    @Test
    void aFileThatIsThereIsTakenFromOthersBeforeItIsWritten() throws Exception {
        mode(inside, 0666);
        assertTrue(PrivateFiles.isOpenToOthers(inside));
        PrivateFiles.write(inside, new byte[] {1});
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(inside)));
        assertEquals(1, Files.size(inside));
    }
}
