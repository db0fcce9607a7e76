// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;

/** A folder of a job that goes on, or is just ending, and removes files meanwhile. */
public final class LiveFolder {
    private LiveFolder() {
    }

    /** What is done with a file, a folder or a link, which may be gone. */
    @FunctionalInterface
    public interface Visit {
        void to(Path path, BasicFileAttributes attributes) throws IOException;
    }

    /** Visits the folder and all that is below it, and passes over what is removed meanwhile. */
    public static void visit(final Path root, final Visit visit) throws IOException {
        Files.walkFileTree(root, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(final Path path, final BasicFileAttributes attributes) throws IOException {
                return visitFile(path, attributes);
            }

            @Override
            public FileVisitResult visitFile(final Path path, final BasicFileAttributes attributes) throws IOException {
                try {
                    visit.to(path, attributes);
                    return FileVisitResult.CONTINUE;
                } catch (NoSuchFileException e) {
                    return visitFileFailed(path, e);
                }
            }

            @Override
            public FileVisitResult visitFileFailed(final Path path, final IOException e) throws IOException {
                if (e instanceof NoSuchFileException) {
                    return FileVisitResult.CONTINUE;
                }
                throw e;
            }
        });
    }
}
