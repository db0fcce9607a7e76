// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.process.HostImages;

class ManifestFileTest {
    @TempDir
    private Path directory;

    private static Manifest manifest(final String job, final long epoch) {
        return manifest(job, epoch, epoch - 1);
    }

    private static Manifest manifest(final String job, final long epoch, final Long parent) {
        final HostImages images = new HostImages("fake", "here", "6.1", "a cpu", List.of("sse", "avx"),
                List.of(), 42, 1, 2);
        return new Manifest(Manifest.SCHEMA, job, epoch, parent, "same", "2026-01-02T03:04:05Z", false, 12,
                Map.of("SAVE", 10L), 1, 42,
                List.of(new Manifest.HostPart("here", "host-here-1",
                        List.of(new Manifest.RankPart(0, "uid", 77, "rank 0", "prog", 76, 123)),
                        List.of(new Manifest.TreePart(76, "rank 0", List.of("prog", "ä ö"), "/tmp", "/run/agent.sock", "there")),
                        images, List.of(new Manifest.Origin("there", List.of(new Manifest.OriginAddress("eth0", "10.0.0.1",
                                "10.0.0.2")), List.of(new Manifest.OriginPort(80, 81)))))),
                List.of(new Needs(0, "mlx5_0", true, Map.of("max_sge", 30L), Map.of("max_sge", 32L))),
                new Manifest.History(3_600_000, 2), "");
    }

    private CheckpointFolder begin(final String job, final long epoch) throws IOException {
        final CheckpointFolder folder = CheckpointFolder.begin(directory, job, epoch);
        Files.createDirectories(folder.temporary().resolve("host-here-1"));
        return folder;
    }

    @Test
    void comesBackAsItWas() throws Exception {
        final Path place = begin("job", 1).commit(manifest("job", 1), () -> { });
        final Manifest back = ManifestFile.read(place);
        assertEquals(manifest("job", 1).hosts(), back.hosts());
        assertEquals(manifest("job", 1).needs(), back.needs());
        assertEquals(manifest("job", 1).history(), back.history());
        assertEquals(64, back.checksum().length());
    }

    @Test
    void everyByteThatChangesIsNoticed() throws Exception {
        final Path place = begin("job", 1).commit(manifest("job", 1), () -> { });
        final Path file = place.resolve(ManifestFile.NAME);
        final byte[] good = Files.readAllBytes(file);
        for (int i = 0; i < good.length; i += 7) {
            final byte[] bad = good.clone();
            bad[i] ^= 1;
            Files.write(file, bad);
            final ManifestException e = assertThrows(ManifestException.class, () -> ManifestFile.read(place),
                    "byte " + i);
            assertTrue(e.getMessage().startsWith(file + " is damaged"), e.getMessage());
        }
        Files.write(file, java.util.Arrays.copyOf(good, good.length / 2));
        assertThrows(ManifestException.class, () -> ManifestFile.read(place));
        Files.delete(file);
        assertEquals(place + " is no checkpoint: it has no manifest.json",
                assertThrows(ManifestException.class, () -> ManifestFile.read(place)).getMessage());
    }

    @Test
    void isNotThereBeforeTheCommit() throws Exception {
        final CheckpointFolder folder = begin("job", 1);
        assertFalse(Files.exists(folder.place()));
        assertEquals(List.of(), CheckpointFolder.list(directory));
        folder.discard();
        assertFalse(Files.exists(folder.temporary()));
    }

    @Test
    void aCrashedOneIsReplacedAndAGoodOneIsNot() throws Exception {
        Files.writeString(begin("job", 1).temporary().resolve("half"), "written");
        final Path place = begin("job", 1).commit(manifest("job", 1), () -> { });
        assertFalse(Files.exists(place.resolve("half")));
        assertThrows(IOException.class, () -> begin("job", 1));
    }

    @Test
    void pruningKeepsTheNewestAndOtherJobs() throws Exception {
        for (int epoch = 8; epoch <= 11; epoch++) {
            begin("job", epoch).commit(manifest("job", epoch), () -> { });
        }
        begin("other-job", 1).commit(manifest("other-job", 1), () -> { });
        CheckpointFolder.prune(directory, "job", 2, 0);
        assertEquals(List.of("ckpt-job-10", "ckpt-job-11", "ckpt-other-job-1"),
                CheckpointFolder.list(directory).stream().map(p -> p.getFileName().toString()).toList());
    }

    private List<Long> epochs() throws IOException {
        return CheckpointFolder.list(directory).stream()
                .map(p -> Long.parseLong(p.getFileName().toString().replaceFirst(".*-", ""))).toList();
    }

    /** 8, 9, 10; restarted from 9: 11, 12. */
    @Test
    void pruningPrefersWhatTheNewestHasComeFrom() throws Exception {
        for (int epoch = 8; epoch <= 10; epoch++) {
            begin("job", epoch).commit(manifest("job", epoch), () -> { });
        }
        begin("job", 11).commit(manifest("job", 11, 9L), () -> { });
        assertEquals(11, CheckpointFolder.highest(directory, "job"));
        assertEquals(List.of(directory.resolve("ckpt-job-10")),
                CheckpointFolder.abandoned(CheckpointFolder.list(directory)));
        CheckpointFolder.prune(directory, "job", 4, 9);
        assertEquals(List.of(8L, 9L, 10L, 11L), epochs());
        CheckpointFolder.prune(directory, "job", 3, 9);
        assertEquals(List.of(8L, 9L, 11L), epochs());
        begin("job", 12).commit(manifest("job", 12, 11L), () -> { });
        CheckpointFolder.prune(directory, "job", 2, 9);
        assertEquals(List.of(9L, 11L, 12L), epochs());
        CheckpointFolder.prune(directory, "job", 2, 12);
        assertEquals(List.of(11L, 12L), epochs());
        assertEquals(List.of(), CheckpointFolder.abandoned(CheckpointFolder.list(directory)));
    }

    /** Those do not say what they have come from. */
    @Test
    void manifestsOfOlderProgramsAreReadAndNothingIsTakenForAbandoned() throws Exception {
        for (int epoch = 1; epoch <= 3; epoch++) {
            begin("job", epoch).commit(manifest("job", epoch, null), () -> { });
        }
        assertEquals(List.of(), CheckpointFolder.abandoned(CheckpointFolder.list(directory)));
        CheckpointFolder.prune(directory, "job", 2, 0);
        assertEquals(List.of(2L, 3L), epochs());
    }

    @Test
    void theFolderIsFoundByItsParentAndByLatest() throws Exception {
        begin("job", 1).commit(manifest("job", 1), () -> { });
        final Path second = begin("job", 2).commit(manifest("job", 2), () -> { });
        assertEquals(second.toRealPath(), CheckpointFolder.resolve(directory));
        assertEquals(second.toRealPath(), CheckpointFolder.resolve(directory.resolve("latest")));
        assertEquals(second.toRealPath(), CheckpointFolder.resolve(second));
        assertThrows(ManifestException.class, () -> CheckpointFolder.resolve(directory.resolve("none")));
    }
}
