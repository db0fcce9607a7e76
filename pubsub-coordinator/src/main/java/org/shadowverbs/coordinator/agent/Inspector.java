// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.Finding;
import org.shadowverbs.coordinator.process.FreezeRequest;
import org.shadowverbs.coordinator.process.PassingStateException;
import org.shadowverbs.coordinator.process.ProcessCheckpointer;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.process.TcpEnds;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspect;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspected;

/**
 * Looks at the job's processes on this host, while they run, for what a checkpoint would be refused for. Programs start, connect
 * and end meanwhile: only what every look finds counts.
 */
final class Inspector {
    private static final int LOOKS = 6;
    private static final long PAUSE_MILLIS = 300;

    private final ProcessCheckpointer checkpointer;
    private final LocalRanks ranks;
    private final LaunchedPrograms programs;
    /** Whether this host has been found to have all that it takes; what it lacks may come. */
    private boolean ready;

    Inspector(final ProcessCheckpointer checkpointer, final LocalRanks ranks, final LaunchedPrograms programs) {
        this.checkpointer = checkpointer;
        this.ranks = ranks;
        this.programs = programs;
    }

    Inspected inspect(final Inspect m) throws InterruptedException {
        final Path folder = m.folder().isEmpty() ? null : Path.of(m.folder());
        final Set<String> problems = new LinkedHashSet<>();
        for (int look = 0; look < LOOKS; look++) {
            final List<String> found = look(m, folder);
            if (look == 0) {
                problems.addAll(found);
            } else {
                problems.retainAll(new HashSet<>(found));
            }
            if (problems.isEmpty()) {
                break;
            }
            Thread.sleep(PAUSE_MILLIS);
        }
        final List<String> all = new ArrayList<>(problems);
        if (!ready && !programs.all().isEmpty()) {
            final List<Finding> lacks = checkpointer.check().findings();
            ready = lacks.isEmpty();
            lacks.forEach(lack -> all.add(lack.toString()));
        }
        return new Inspected(m.id(), all, ImageWorker.sockets(connections(m)));
    }

    private List<String> look(final Inspect m, final Path folder) {
        try {
            final FreezeRequest request = request(m);
            if (request.roots().isEmpty()) {
                return List.of();
            }
            if (ImageWorker.descendsFrom(request)) {
                return List.of(ImageWorker.DESCENDS);
            }
            final List<String> found = new ArrayList<>();
            final boolean seen = folder == null || Files.isDirectory(folder);
            if (!seen) {
                found.add("this host does not see " + folder + ", which the coordinator sees: the checkpoint directory must be on a"
                        + " file system that all hosts share");
            }
            for (final Finding finding : checkpointer.inspect(request, seen ? folder : null)) {
                found.add(finding.toString());
            }
            return found;
        } catch (PassingStateException e) {
            return List.of(e.getMessage());
        } catch (CheckpointException | IOException | RuntimeException e) {
            return List.of("the processes can't be looked at: " + e.getMessage());
        }
    }

    /** Who can't be looked at has been told of. */
    private TcpEnds connections(final Inspect m) {
        try {
            final FreezeRequest request = request(m);
            return request.roots().isEmpty() ? TcpEnds.NONE : checkpointer.connections(request);
        } catch (CheckpointException | IOException | RuntimeException e) {
            return TcpEnds.NONE;
        }
    }

    private FreezeRequest request(final Inspect m) throws IOException {
        return ImageWorker.request(ranks.welcomed(), programs.all(), Duration.ZERO, Progress.UNTOLD)
                .with(open(ranks.running(), m.listeners())).withOthers(m.addresses());
    }

    private static FreezeRequest.Open open(final Set<Long> pids, final Set<String> listeners) throws UnknownHostException {
        final Set<InetSocketAddress> addresses = new HashSet<>();
        for (final String listener : listeners) {
            final int colon = listener.lastIndexOf(':');
            addresses.add(new InetSocketAddress(InetAddress.getByName(listener.substring(0, colon)),
                    Integer.parseInt(listener.substring(colon + 1))));
        }
        return FreezeRequest.Open.running(pids, addresses);
    }
}
