// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Where the images of a checkpoint are: {@code levels.json}, beside the manifest. It names copies that are whole and durable, and no
 * other. The manifest does not change any more when it is written; this file is replaced as a whole each time a copy is confirmed.
 * What a copy holds is compared with the manifest's checksums whenever it is read, so this file need have none. Without it all images
 * are in the checkpoint's folder.
 *
 * @param unflushed how many checkpoints, this one included, have been made since one was flushed; 0: this one is to be
 * @param copies of all hosts' images, those of one host by level
 */
public record Levels(int unflushed, List<Copy> copies) {
    public static final String NAME = "levels.json";

    private static final ObjectMapper JSON = JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    /**
     * A copy of one host's images.
     *
     * @param directory the host's folder, as in the manifest
     * @param host that has the copy; empty: all see it
     * @param root the folder of checkpoints there; empty: the one in which the checkpoint's folder is
     */
    public record Copy(String directory, Level level, String host, String root) {
        /** The one that is in the checkpoint's own folder. */
        public static Copy shared(final String directory) {
            return new Copy(directory, Level.SHARED, "", "");
        }

        /** Its folder of checkpoints, as its host sees it. @param folder the checkpoint's own */
        public Path rootFor(final Path folder) {
            return root.isEmpty() ? folder.toAbsolutePath().getParent() : Path.of(root);
        }

        /** As users read it. */
        public String text() {
            return level + (host.isEmpty() ? "" : " on " + host);
        }
    }

    /** Of a checkpoint whose images all are in its folder. */
    public static Levels shared(final Manifest manifest) {
        return new Levels(0, manifest.hosts().stream().map(part -> Copy.shared(part.directory())).toList());
    }

    /**
     * Reads it.
     *
     * @throws ManifestException it is there, and damaged
     */
    public static Levels read(final Path folder, final Manifest manifest) throws ManifestException {
        final Path file = folder.resolve(NAME);
        try {
            final Levels levels = JSON.readValue(Files.readString(file), Levels.class);
            if (levels == null || levels.copies() == null || levels.copies().stream().anyMatch(c -> c == null || c.directory() == null
                    || c.level() == null || c.host() == null || c.root() == null)) {
                throw new ManifestException(file + " is damaged: it does not say all of each copy");
            }
            return levels;
        } catch (NoSuchFileException e) {
            return shared(manifest);
        } catch (JsonProcessingException | java.nio.charset.CharacterCodingException e) {
            throw new ManifestException(file + " is damaged: it is no JSON of its kind");
        } catch (ManifestException e) {
            throw e;
        } catch (IOException e) {
            throw new ManifestException(file + " can't be read: " + e);
        }
    }

    /** Replaces it, durably: who reads it finds all of the old one or all of this. */
    public void write(final Path folder) throws IOException {
        final Path part = folder.resolve(NAME + ".part");
        Files.deleteIfExists(part);
        try (FileChannel out = FileChannel.open(part, Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE),
                PrivateFiles.FILE)) {
            final ByteBuffer bytes = ByteBuffer.wrap((JSON.writeValueAsString(this) + "\n").getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) {
                out.write(bytes);
            }
            out.force(true);
        }
        Files.move(part, folder.resolve(NAME), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Those of one host's images. */
    public List<Copy> of(final String directory) {
        return copies.stream().filter(copy -> copy.directory().equals(directory)).sorted((a, b) -> a.level().compareTo(b.level())).toList();
    }

    /** The same and one more. */
    public Levels with(final Copy copy) {
        final List<Copy> all = new ArrayList<>(copies);
        all.remove(copy);
        all.add(copy);
        return new Levels(unflushed, all);
    }

    /** Whether all images are in the checkpoint's folder, and what that builds on beside it. */
    public boolean allShared(final Manifest manifest) {
        return manifest.hosts().stream()
                .allMatch(part -> of(part.directory()).stream().anyMatch(copy -> copy.level() == Level.SHARED));
    }

    /** A host of the manifest whose images only hosts have that are not among these; null: there is none. */
    public Manifest.HostPart lost(final Manifest manifest, final Collection<String> hosts) {
        return manifest.hosts().stream().filter(part -> of(part.directory()).stream()
                .noneMatch(copy -> copy.level() == Level.SHARED || hosts.contains(copy.host()))).findFirst().orElse(null);
    }
}
