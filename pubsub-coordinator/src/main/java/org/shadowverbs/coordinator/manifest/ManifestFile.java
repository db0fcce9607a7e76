// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
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
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Set;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/** Writes and reads {@code manifest.json}. It carries a checksum of itself, so that damage to it is named. */
public final class ManifestFile {
    public static final String NAME = "manifest.json";

    private static final String NO_CHECKSUM = "0".repeat(64);
    private static final ObjectMapper JSON =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    private ManifestFile() {
    }

    /** Writes it into the folder and makes it durable. Any checksum that the record has is replaced. */
    public static void write(final Path folder, final Manifest m) throws IOException {
        final String blank = JSON.writeValueAsString(new Manifest(m.schema(), m.job(), m.epoch(), m.parent(), m.backend(),
                m.created(), m.killed(), m.millis(), m.phaseMillis(), m.ranks(), m.bytes(), m.hosts(), m.needs(), m.history(),
                NO_CHECKSUM)) + "\n";
        final String text = blank.replace(NO_CHECKSUM, sha256(blank));
        try (FileChannel out = FileChannel.open(folder.resolve(NAME),
                Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), PrivateFiles.FILE)) {
            final ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) {
                out.write(bytes);
            }
            out.force(true);
        }
    }

    /** Reads and verifies it. */
    public static Manifest read(final Path folder) throws ManifestException {
        final Path file = folder.resolve(NAME);
        try {
            final String text = Files.readString(file);
            final JsonNode tree = JSON.readTree(text);
            final String checksum = tree.path("checksum").asText("");
            if (checksum.length() != 64 || !sha256(text.replace(checksum, NO_CHECKSUM)).equals(checksum)) {
                throw new ManifestException(file + " is damaged: its checksum is not that of its text");
            }
            final int schema = tree.path("schema").asInt();
            if (schema < Manifest.OLDEST || schema > Manifest.SCHEMA) {
                throw new ManifestException(file + " has schema version " + schema + "; this program reads versions "
                        + Manifest.OLDEST + " to " + Manifest.SCHEMA);
            }
            return JSON.treeToValue(tree, Manifest.class);
        } catch (NoSuchFileException e) {
            throw new ManifestException(folder + " is no checkpoint: it has no " + NAME);
        } catch (JsonProcessingException | java.nio.charset.CharacterCodingException e) {
            throw new ManifestException(file + " is damaged: it is no JSON");
        } catch (ManifestException e) {
            throw e;
        } catch (IOException e) {
            throw new ManifestException(file + " can't be read: " + e);
        }
    }

    /** The part of a host, as its agent sends it. */
    public static String toJson(final Manifest.HostPart part) throws IOException {
        return JSON.writeValueAsString(part);
    }

    /** The inverse of {@link #toJson}. */
    public static Manifest.HostPart hostPart(final String json) throws IOException {
        return JSON.readValue(json, Manifest.HostPart.class);
    }

    private static String sha256(final String text) {
        try {
            return HexFormat.of().formatHex(
                    MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError(e); // every Java platform has it
        }
    }
}
