// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.Finding;
import org.shadowverbs.coordinator.process.FreezeRequest;
import org.shadowverbs.coordinator.process.FrozenTrees;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ImagePlan;
import org.shadowverbs.coordinator.process.PassingStateException;
import org.shadowverbs.coordinator.process.ProcessCheckpointer;
import org.shadowverbs.coordinator.process.ProcessRoot;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.process.Readiness;
import org.shadowverbs.coordinator.process.RestoreRequest;
import org.shadowverbs.coordinator.process.RestoredTrees;
import org.shadowverbs.coordinator.process.TcpEnds;
import org.shadowverbs.coordinator.process.WrittenImages;

/** Freezes and saves nothing, fails when told to, and counts what is frozen. */
final class FakeCheckpointer implements ProcessCheckpointer {
    /** What inspect() finds, in its next looks. */
    volatile List<Finding> findings = List.of();
    final AtomicInteger looksWithFindings = new AtomicInteger(Integer.MAX_VALUE);
    volatile String freezeFails;
    volatile String saveFails;
    volatile String sealFails;
    volatile String preCopyFails;
    /** So many saves fail for something that passes by itself. */
    final AtomicInteger passing = new AtomicInteger();
    /** So many times what is frozen cannot be thawed. */
    final AtomicInteger thawFails = new AtomicInteger();
    /** When set, save() says that it has begun and waits. */
    volatile CompletableFuture<Void> saveBegun;
    volatile CompletableFuture<Void> saveMayEnd;
    final AtomicInteger frozen = new AtomicInteger();
    final AtomicInteger killed = new AtomicInteger();
    volatile FreezeRequest lastRequest;

    @Override
    public Readiness check() {
        return new Readiness("fake", "", "none", List.of());
    }

    @Override
    public List<Finding> inspect(final FreezeRequest request, final Path directory) {
        return looksWithFindings.getAndUpdate(left -> Math.max(0, left - 1)) > 0 ? findings : List.of();
    }

    @Override
    public long preCopy(final FreezeRequest request, final Path imageDirectory, final ImagePlan plan) throws CheckpointException {
        if (preCopyFails != null) {
            throw new CheckpointException(preCopyFails);
        }
        return 7;
    }

    @Override
    public TcpEnds connections(final FreezeRequest request) {
        return TcpEnds.NONE;
    }

    @Override
    public FrozenTrees freeze(final FreezeRequest request) throws CheckpointException {
        lastRequest = request;
        if (freezeFails != null) {
            throw new CheckpointException(freezeFails);
        }
        frozen.incrementAndGet();
        return new Frozen(request);
    }

    private final class Frozen implements FrozenTrees {
        private final FreezeRequest request;
        private boolean open = true;

        Frozen(final FreezeRequest request) {
            this.request = request;
        }

        @Override
        public List<List<String>> trees() {
            return request.roots().stream().map(r -> List.of(r.name())).toList();
        }

        @Override
        public long freezeNanos() {
            return 1;
        }

        @Override
        public WrittenImages write(final Path imageDirectory, final ImagePlan plan) throws CheckpointException {
            try {
                if (saveBegun != null) {
                    saveBegun.complete(null);
                    saveMayEnd.get(30, TimeUnit.SECONDS);
                }
                Files.writeString(imageDirectory.resolve("pages.img"), "pages");
            } catch (IOException | InterruptedException | TimeoutException
                    | java.util.concurrent.ExecutionException e) {
                throw new CheckpointException("fake save: " + e, e);
            }
            if (passing.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
                throw new PassingStateException("a socket has data to read");
            }
            if (saveFails != null) {
                throw new CheckpointException(saveFails);
            }
            return new WrittenImages() {
                @Override
                public long bytes() {
                    return 5;
                }

                @Override
                public HostImages seal(final Compression compression, final Progress progress) throws CheckpointException {
                    if (sealFails != null) {
                        throw new CheckpointException(sealFails);
                    }
                    return new HostImages("fake", "here", "0", "cpu", List.of(), List.of(), 5, 1, 1);
                }
            };
        }

        @Override
        public void kill() {
            for (final ProcessRoot root : request.roots()) {
                ProcessHandle.of(root.hostPid()).ifPresent(ProcessHandle::destroyForcibly);
            }
            killed.incrementAndGet();
        }

        @Override
        public void close() throws CheckpointException {
            if (thawFails.getAndUpdate(n -> Math.max(0, n - 1)) > 0) {
                throw new CheckpointException("as if it could not be thawed");
            }
            if (open) {
                open = false;
                frozen.decrementAndGet();
            }
        }
    }

    @Override
    public List<Finding> verify(final Path imageDirectory, final HostImages images) {
        return List.of();
    }

    @Override
    public RestoredTrees restore(final RestoreRequest request) throws CheckpointException {
        throw new CheckpointException("the fake restores nothing: " + Map.copyOf(request.pipes()).size() + " pipes");
    }
}
