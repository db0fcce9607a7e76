// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.zip.CRC32C;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.server.Sizes;

/** {@code list}: the checkpoints of a directory. */
final class ListCommand {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, String> environment;

    ListCommand(final Map<String, String> environment) {
        this.environment = environment;
    }

    int run(final List<String> args) throws UsageException, CommandException {
        final Arguments a = Arguments.parse("list", args, Set.of("-h", "-p"), Set.of("--json"));
        if (a.operands().size() > 1) {
            throw new UsageException("list: at most one directory can be named");
        }
        final Path directory = a.operands().isEmpty() ? directory(Address.of("list", a, environment))
                : Path.of(a.operands().getFirst());
        final List<Map<String, Object>> all = new ArrayList<>();
        boolean damaged = false;
        try {
            if (!java.nio.file.Files.isDirectory(directory)) {
                throw new CommandException("list: " + directory + " is not a directory");
            }
            for (final Path folder : CheckpointFolder.list(directory)) {
                final Map<String, Object> one = describe(folder);
                damaged |= one.get("problem") != null;
                all.add(one);
                if (!a.has("--json")) {
                    System.out.println(one.get("problem") == null
                            ? String.format(Locale.ROOT, "%s  %s  %d ranks  %s  good", folder, age(one),
                                    one.get("ranks"), Sizes.bytes((Long) one.get("image_bytes")))
                            : folder + "  damaged: " + one.get("problem"));
                }
            }
            if (a.has("--json")) {
                final Map<String, Object> o = new LinkedHashMap<>();
                o.put("schema", 1);
                o.put("command", "list");
                o.put("ok", !damaged);
                o.put("directory", directory.toString());
                o.put("checkpoints", all);
                System.out.println(JSON.writeValueAsString(o));
            } else if (all.isEmpty()) {
                System.out.println("no checkpoints in " + directory);
            }
            return damaged ? 1 : 0;
        } catch (IOException e) {
            throw new CommandException("list: " + directory + ": " + e.getMessage());
        }
    }

    /** Where the running job's checkpoints go, else where a launch from here would put them. */
    private Path directory(final Address address) throws CommandException {
        try {
            return Path.of(JSON.readTree(CoordinatorClient.call(address, "status", Map.of(), 10_000, line -> { })
                    .json()).path("ckptdir").asText());
        } catch (CoordinatorClient.Unreachable e) {
            if (address.named()) {
                throw new CommandException("list: " + e.getMessage());
            }
            return Path.of(environment.getOrDefault("SHADOWVERBS_CKPTDIR", ".")).toAbsolutePath().normalize();
        } catch (IOException e) {
            throw new CommandException("list: the coordinator's status is no JSON: " + e.getMessage());
        }
    }

    private static Map<String, Object> describe(final Path folder) {
        final Map<String, Object> one = new LinkedHashMap<>();
        one.put("folder", folder.toString());
        try {
            final Manifest m = ManifestFile.read(folder);
            one.put("job", m.job());
            one.put("epoch", m.epoch());
            one.put("created", m.created());
            one.put("ranks", m.ranks());
            one.put("image_bytes", m.bytes());
            one.put("problem", damage(folder, m));
        } catch (ManifestException e) {
            one.put("problem", e.getMessage());
        }
        return one;
    }

    /** What is wrong with the images, or null: every file is read, for "good" is to be true. */
    private static String damage(final Path folder, final Manifest m) {
        for (final Manifest.HostPart part : m.hosts()) {
            for (final var tree : part.images().trees()) {
                for (final var file : tree.files()) {
                    final Path path = folder.resolve(part.directory()).resolve(tree.directory()).resolve(file.name());
                    if (!path.toFile().exists()) {
                        return path + " is missing";
                    }
                    try {
                        if (path.toFile().length() != file.bytes() || !crc32c(path).equals(file.crc32c())) {
                            return path + " is not what was written";
                        }
                    } catch (IOException e) {
                        return path + " can't be read: " + e.getMessage();
                    }
                }
            }
        }
        return null;
    }

    private static String crc32c(final Path file) throws IOException {
        final CRC32C crc = new CRC32C();
        final ByteBuffer buffer = ByteBuffer.allocateDirect(1 << 20);
        try (FileChannel in = FileChannel.open(file, StandardOpenOption.READ)) {
            while (in.read(buffer.clear()) >= 0) {
                crc.update(buffer.flip());
            }
        }
        return HexFormat.of().toHexDigits((int) crc.getValue());
    }

    private static String age(final Map<String, Object> one) {
        try {
            final Duration age = Duration.between(Instant.parse((String) one.get("created")), Instant.now());
            return age.toHours() > 48 ? age.toDays() + " d old" : age.toMinutes() > 120 ? age.toHours() + " h old"
                    : age.toSeconds() > 120 ? age.toMinutes() + " min old" : age.toSeconds() + " s old";
        } catch (DateTimeParseException e) {
            return "of unknown age";
        }
    }
}
