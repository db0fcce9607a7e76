// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Set;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Where the processes of a host register the XRC receive queue pairs that they have open together: a folder beside their
 * agent's socket, with a file for each, and a lock. What is in the files is the processes' own business.
 */
public final class ReceiverRegister {
    private static final String FOLDER = "xrc";
    private static final String LOCK = "lock";

    private ReceiverRegister() {
    }

    /** @param runDirectory that of the agent's socket */
    public static Path folder(final Path runDirectory) {
        return runDirectory.resolve(FOLDER);
    }

    /** What is to be locked while a file is read or changed. */
    public static Path lock(final Path folder) {
        return folder.resolve(LOCK);
    }

    /** Opens what is to be locked; makes the folder and the file when they are not there. */
    public static FileChannel openLock(final Path folder) throws IOException {
        Files.createDirectories(folder, PrivateFiles.FOLDER);
        return FileChannel.open(lock(folder), Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE),
                PrivateFiles.FILE);
    }

    /** Replaces a file, or makes it. Whoever is killed here leaves what was there before. */
    public static void put(final Path file, final byte[] content) throws IOException {
        final Path next = file.resolveSibling("next");
        PrivateFiles.write(next, content);
        Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
    }

    /**
     * Removes what processes that were killed have left, when no process of the job is left on this host. The lock stays: who
     * waits for it waits for that very file. Anything but plain files stays, too.
     */
    public static void clear(final Path runDirectory) throws IOException {
        final Path folder = folder(runDirectory);
        if (!Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
            for (final Path file : files) {
                if (!file.equals(lock(folder)) && Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
                    Files.delete(file);
                }
            }
        }
    }
}
