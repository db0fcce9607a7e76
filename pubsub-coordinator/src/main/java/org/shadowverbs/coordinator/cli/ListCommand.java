// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.server.Sizes;

/** {@code list}: the checkpoints of a directory. */
final class ListCommand extends CliCommand {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, String> environment;
    private final AddressOptions coordinator = new AddressOptions(this);
    private final Supplier<Boolean> json = json();
    private final Supplier<String> named = operand("DIR", "0..1", "the directory; none: where the running job puts them");

    ListCommand(final Map<String, String> environment) {
        super("lists the checkpoints of a directory, good or damaged",
                "Age, ranks and size of each, and which others than their owner may read.");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        final Path directory = named.get() == null ? directory(coordinator.address(environment))
                : Path.of(named.get());
        final List<Map<String, Object>> all = new ArrayList<>();
        boolean damaged = false;
        try {
            if (!java.nio.file.Files.isDirectory(directory)) {
                throw new CommandException("list: " + directory + " is not a directory");
            }
            final List<Path> folders = CheckpointFolder.list(directory);
            final Set<Path> abandoned = new HashSet<>();
            folders.stream().collect(Collectors.groupingBy(CheckpointFolder::job)).values()
                    .forEach(ofOneJob -> abandoned.addAll(CheckpointFolder.abandoned(ofOneJob)));
            for (final Path folder : folders) {
                final Map<String, Object> one = describe(folder);
                one.put("abandoned", abandoned.contains(folder));
                damaged |= one.get("problem") != null;
                all.add(one);
                if (!json.get()) {
                    System.out.println((one.get("problem") == null
                            ? String.format(Locale.ROOT, "%s  %s  %d ranks  %s%s  %s%s%s", folder, age(one),
                                    one.get("ranks"), Sizes.bytes((Long) one.get("image_bytes")), chain(one), one.get("state"),
                                    one.get("levels") instanceof List<?> levels ? "  " + places(levels) : "",
                                    abandoned.contains(folder) ? ", abandoned: the job was restarted from an older one" : "")
                            : folder + "  damaged: " + one.get("problem"))
                            + (Boolean.TRUE.equals(one.get("open"))
                                    ? "  open to other users; close it with: chmod -R go= " + folder : ""));
                }
            }
            if (json.get()) {
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
            return CheckpointDirectory.of(null, environment);
        } catch (IOException e) {
            throw new CommandException("list: the coordinator's status is no JSON: " + e.getMessage());
        }
    }

    private static Map<String, Object> describe(final Path folder) {
        final Map<String, Object> one = new LinkedHashMap<>();
        one.put("folder", folder.toString());
        try {
            one.put("open", PrivateFiles.isOpenToOthers(folder));
            final Manifest m = ManifestFile.read(folder);
            one.put("job", m.job());
            one.put("epoch", m.epoch());
            one.put("parent", m.parent());
            one.put("created", m.created());
            one.put("ranks", m.ranks());
            one.put("image_bytes", m.bytes());
            one.put("bases", m.bases());
            final LevelReport report = LevelReport.of(folder, m, AgentCommand.hostName());
            one.put("problem", report.problem().isEmpty() ? null : report.problem());
            one.put("state", report.state());
            one.put("levels", report.copies());
        } catch (ManifestException e) {
            one.put("problem", e.getMessage());
        } catch (IOException e) {
            one.put("problem", folder + " can't be read: " + e.getMessage());
        }
        return one;
    }

    /** Each level with the hosts whose images it has. */
    private static String places(final List<?> copies) {
        final Map<String, List<String>> byLevel = new LinkedHashMap<>();
        for (final Object copy : copies) {
            final LevelReport.Place place = (LevelReport.Place) copy;
            byLevel.computeIfAbsent(place.level(), level -> new ArrayList<>()).add(place.text());
        }
        byLevel.values().forEach(texts -> texts.sort(null));
        return byLevel.entrySet().stream().map(e -> e.getKey() + ": " + String.join(", ", e.getValue())).collect(Collectors.joining("; "));
    }

    private static String chain(final Map<String, Object> one) {
        return one.get("bases") instanceof Collection<?> bases && !bases.isEmpty()
                ? " on " + bases.stream().map(String::valueOf).collect(Collectors.joining(", ")) : "";
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
