// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * The store in a coordinator's run directory: nothing is to be set up for it. The state is in a file, the published ids are
 * where the constructor is told. A coordinator that ends in order removes the state.
 */
public final class EmbeddedStore implements JobStore {
    private static final String NAME = "job.properties";
    private static final String TEMPORARY = ".tmp";

    private final Path runDirectory;
    private final PublishedStore published;
    private final String before;
    private boolean closed;

    /**
     * @param goOn whether there may be a coordinator before this one whose job goes on
     * @throws IOException when its state can't be read
     */
    public EmbeddedStore(final Path runDirectory, final PublishedStore published, final boolean goOn) throws IOException {
        this.runDirectory = runDirectory;
        this.published = published;
        before = goOn ? read(runDirectory.resolve(NAME)) : null;
    }

    private static String read(final Path file) throws IOException {
        try {
            return Files.readString(file);
        } catch (NoSuchFileException e) {
            return null;
        }
    }

    @Override
    public String before() {
        return before;
    }

    @Override
    public PublishedStore published() {
        return published;
    }

    /** What is kept after the end is left out. */
    @Override
    public synchronized void keep(final String state, final Seat seat) throws StoreException {
        if (closed) {
            return;
        }
        try {
            // A name of its own: a coordinator that is just ending may write its last one when the next is there already.
            final Path temporary = Files.createTempFile(runDirectory, NAME + "-", TEMPORARY);
            try {
                Files.writeString(temporary, state);
                Files.move(temporary, runDirectory.resolve(NAME), StandardCopyOption.ATOMIC_MOVE,
                        StandardCopyOption.REPLACE_EXISTING);
            } finally {
                Files.deleteIfExists(temporary);
            }
        } catch (IOException e) {
            throw new StoreException("the job's state could not be written: " + e, e);
        }
    }

    /** A checkpoint is valid once its folder has its name: nobody but this coordinator gives it that. */
    @Override
    public void decide(final String state, final Seat seat) {
    }

    @Override
    public void discard() {
        published.discard();
        remove();
    }

    @Override
    public void close() {
        published.close();
        remove();
    }

    @Override
    public synchronized void abandon() {
        closed = true;
        published.close();
    }

    private synchronized void remove() {
        closed = true;
        try {
            Files.deleteIfExists(runDirectory.resolve(NAME));
            try (DirectoryStream<Path> left = Files.newDirectoryStream(runDirectory, NAME + "-*" + TEMPORARY)) {
                for (final Path file : left) {
                    Files.deleteIfExists(file); // of a coordinator that was killed
                }
            }
        } catch (IOException e) {
            System.getLogger(EmbeddedStore.class.getName()).log(System.Logger.Level.WARNING, "at the end: {0}", e.toString());
        }
    }
}
