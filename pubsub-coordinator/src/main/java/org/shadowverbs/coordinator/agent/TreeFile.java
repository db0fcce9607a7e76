// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.system.Processes;

/**
 * The launched programs, in a file, for an agent that is started anew after a crash. One line each: pid, start time (a
 * pid alone may be that of another process by then), directory, arguments; percent-encoded, with spaces between.
 */
final class TreeFile {
    private static final String NAME = "programs";

    private final Path file;

    TreeFile(final Path runDirectory) {
        file = runDirectory.resolve(NAME);
    }

    void write(final Collection<Tree> trees) throws IOException {
        final StringBuilder text = new StringBuilder();
        for (final Tree tree : trees) {
            text.append(tree.hostPid()).append(' ').append(startTime(tree.hostPid())).append(' ')
                    .append(encode(tree.cwd()));
            tree.argv().forEach(a -> text.append(' ').append(encode(a)));
            text.append('\n');
        }
        final Path temporary = file.resolveSibling(NAME + ".tmp");
        Files.writeString(temporary, text);
        Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    List<Tree> stillRunning() throws IOException {
        final List<Tree> running = new ArrayList<>();
        try {
            for (final String line : Files.readAllLines(file)) {
                final String[] words = line.split(" ", -1);
                final long pid = Long.parseLong(words[0]);
                if (words[1].equals(startTime(pid))) {
                    running.add(new Tree(pid, Arrays.stream(words).skip(3).map(TreeFile::decode).toList(),
                            decode(words[2])));
                }
            }
        } catch (NoSuchFileException e) {
            return List.of();
        } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
            throw new IOException(file + " is damaged; remove it", e);
        }
        return running;
    }

    void remove() throws IOException {
        Files.deleteIfExists(file);
    }

    /** In clock ticks since the boot; "-" for a process that is gone. */
    private static String startTime(final long pid) {
        try {
            return Processes.stat(pid, Processes.START_TIME);
        } catch (IOException e) {
            return "-";
        }
    }

    private static String encode(final String s) {
        return URLEncoder.encode(s, StandardCharsets.UTF_8);
    }

    private static String decode(final String s) {
        return URLDecoder.decode(s, StandardCharsets.UTF_8);
    }
}
