// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.images.VerifiedFile;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.LevelMessages.Holder;

/** Images that one host fetches from another, over a real connection. */
final class ImageServerTest {
    @TempDir
    private Path work;
    private Path here;
    private Path there;
    private Manifest.HostPart part;
    private ImageServer server;

    @BeforeEach
    void serve() throws IOException {
        here = Files.createDirectory(work.resolve("here"));
        there = Files.createDirectory(work.resolve("there"));
        part = SavedImages.write(here, new Random(1), List.of(3 * VerifiedFile.PIECE + 5, VerifiedFile.PIECE, 0, 7, 4096), 2);
        server = new ImageServer(new EventLog(work.resolve("log")));
        server.serve(here);
    }

    @AfterEach
    void end() throws IOException {
        server.close();
    }

    private ImageFetcher fetcher(final String token) throws IOException {
        return new ImageFetcher(new Holder("here", List.of(new NetAddress("lo", "127.0.0.1")), server.port(), token));
    }

    private long fetch() throws Exception {
        try (ImageFetcher fetcher = fetcher(server.token())) {
            return ImageCopy.copy(SavedImages.CHECKPOINT, part, fetcher, there, true, Progress.UNTOLD);
        }
    }

    @Test
    void allFilesComeByteForByteWithWhatTheyBuildOn() throws Exception {
        final List<ImageCopy.Item> items = ImageCopy.items(SavedImages.CHECKPOINT, part);
        assertEquals(7, items.size());
        assertEquals(items.stream().mapToLong(item -> item.file().bytes()).sum(), fetch());
        for (final ImageCopy.Item item : items) {
            assertArrayEquals(Files.readAllBytes(here.resolve(item.path())), Files.readAllBytes(there.resolve(item.path())), item.path());
        }
        assertEquals("", ImageCopy.problem(SavedImages.CHECKPOINT, part, there, Progress.UNTOLD));
    }

    @Test
    void onlyWhatIsNotThereOrDamagedComesAgain() throws Exception {
        fetch();
        assertEquals(0, fetch());
        final ImageCopy.Item item = ImageCopy.items(SavedImages.CHECKPOINT, part).get(3);
        Files.writeString(there.resolve(item.path()), "1234567");
        assertEquals(7, fetch());
        assertEquals("", ImageCopy.problem(SavedImages.CHECKPOINT, part, there, Progress.UNTOLD));
    }

    @Test
    void aFileThatIsNotWhatWasWrittenIsNamedAndNotThereAfterwards() throws Exception {
        final ImageCopy.Item item = ImageCopy.items(SavedImages.CHECKPOINT, part).getFirst();
        final byte[] bytes = Files.readAllBytes(here.resolve(item.path()));
        bytes[bytes.length / 2] ^= 4;
        Files.write(here.resolve(item.path()), bytes);
        final IOException refused = assertThrows(IOException.class, this::fetch);
        assertTrue(refused.getMessage().contains("tree-0/pages-1.img") && refused.getMessage().contains("CRC-32C"), refused.getMessage());
        assertFalse(Files.exists(there.resolve(item.path())));
        assertFalse(Files.exists(there.resolve(item.path() + ".part")));
    }

    @Test
    void whoHasNotTheTokenGetsNothing() throws Exception {
        final ImageCopy.Item item = ImageCopy.items(SavedImages.CHECKPOINT, part).getFirst();
        try (ImageFetcher fetcher = fetcher("guessed")) {
            final IOException refused = assertThrows(IOException.class, () -> fetcher.read(item.path(), piece -> { }));
            assertTrue(refused.getMessage().contains("token"), refused.getMessage());
        }
    }

    @Test
    void nothingOutsideOfTheJobsFolderIsGiven() throws Exception {
        Files.writeString(work.resolve("secret"), "secret");
        Files.createSymbolicLink(here.resolve("link"), work.resolve("secret"));
        for (final String path : List.of("../secret", work.resolve("secret").toString(), "link", SavedImages.CHECKPOINT, "none")) {
            try (ImageFetcher fetcher = fetcher(server.token())) {
                final IOException refused = assertThrows(IOException.class, () -> fetcher.read(path, piece -> { }), path);
                assertTrue(refused.getMessage().contains("is not on this host"), refused.getMessage());
            }
        }
    }

    @Test
    void nothingIsFlushedToACheckpointThatHasBeenRemoved() throws Exception {
        final IOException refused = assertThrows(IOException.class, () -> ImageCopy.copy(SavedImages.CHECKPOINT, part,
                ImageCopy.from(here), there, false, Progress.UNTOLD));
        assertTrue(refused.getMessage().contains("has been removed"), refused.getMessage());
        assertFalse(Files.exists(there.resolve(SavedImages.CHECKPOINT)));
    }
}
