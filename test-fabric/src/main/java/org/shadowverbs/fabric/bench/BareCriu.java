// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.WireFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.process.Criu;

/** CRIU without anything of ours. */
final class BareCriu {
    private static final double NANOS_PER_MILLI = 1e6;
    private static final double MICROS_PER_MILLI = 1e3;
    /** Two numbers before the message, and its length. */
    private static final int STATS_HEADER = 12;
    // stats_entry
    private static final int DUMP = 1;
    // dump_stats_entry
    private static final int FREEZING = 1;
    private static final int FROZEN = 2;

    private final BenchRuns runs;
    private final String criu;

    BareCriu(final BenchRuns runs) throws BenchException {
        this.runs = runs;
        criu = new Criu().check().path();
        if (criu.isEmpty()) {
            throw new BenchException("CRIU is not there: run tools/setup.sh");
        }
    }

    void dump(final long pid, final Path images, final boolean goesOn) throws BenchException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of(criu, "dump", "--tree", Long.toString(pid), "--images-dir",
                images.toString(), "--log-file", "log"));
        if (goesOn) {
            command.add("--leave-running");
        }
        run("criu dump", command);
    }

    /** Has all images written to the disk. */
    void sync(final Path images) throws BenchException, InterruptedException, IOException {
        final List<String> command = new ArrayList<>(List.of("sync"));
        try (Stream<Path> files = Files.list(images)) {
            files.forEach(file -> command.add(file.toString()));
        }
        run("sync", command);
    }

    /** Returns the milliseconds until it ran. */
    double restoreAndKill(final Path images) throws BenchException, InterruptedException, IOException {
        final Path pidFile = images.resolve("restored.pid");
        final long begin = System.nanoTime();
        run("criu restore", List.of(criu, "restore", "--images-dir", images.toString(), "--log-file", "restore.log", "--restore-detached",
                "--pidfile", pidFile.toString()));
        final double millis = (System.nanoTime() - begin) / NANOS_PER_MILLI;
        ProcessHandle.of(Long.parseLong(Files.readString(pidFile).strip())).ifPresent(ProcessHandle::destroyForcibly);
        return millis;
    }

    private void run(final String what, final List<String> command) throws BenchException, InterruptedException {
        try (BenchProcess process = runs.startNative(what, command)) {
            process.finish(BenchRuns.RUN_DEADLINE);
        }
    }

    /** How long a tree stood still, as CRIU has counted it: from its first process stopped to its last one let go. */
    static double frozenMillis(final Path images) throws IOException {
        final byte[] file = Files.readAllBytes(images.resolve("stats-dump"));
        final CodedInputStream stats = CodedInputStream.newInstance(file, STATS_HEADER, file.length - STATS_HEADER);
        double millis = 0;
        for (int tag = stats.readTag(); tag != 0; tag = stats.readTag()) {
            if (WireFormat.getTagFieldNumber(tag) != DUMP) {
                stats.skipField(tag);
                continue;
            }
            final CodedInputStream dump = stats.readBytes().newCodedInput();
            for (int field = dump.readTag(); field != 0; field = dump.readTag()) {
                final int number = WireFormat.getTagFieldNumber(field);
                if (number == FREEZING || number == FROZEN) {
                    millis += dump.readUInt32() / MICROS_PER_MILLI;
                } else {
                    dump.skipField(field);
                }
            }
        }
        return millis;
    }

    static double bytes(final Path images) throws IOException {
        try (Stream<Path> files = Files.list(images)) {
            return files.mapToLong(file -> file.toFile().length()).sum();
        }
    }
}
