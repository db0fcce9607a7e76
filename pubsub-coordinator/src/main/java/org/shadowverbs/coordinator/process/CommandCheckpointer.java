// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.coordinator.images.Cores;

/**
 * Saves and restores by commands of the user: the verbs are drained, closed and made anew around them as around CRIU. What the
 * processes have open and share with others is the commands' business; nothing of it is looked at here.
 */
final class CommandCheckpointer implements ProcessCheckpointer {
    static final Path SHELL = Path.of("/bin/sh");

    private final UserCommands commands;

    CommandCheckpointer(final UserCommands commands) {
        this.commands = commands;
    }

    @Override
    public Readiness check() {
        return new Readiness("commands", SHELL.toString(), "SIGSTOP", Files.isExecutable(SHELL) ? List.of()
                : List.of(new Finding(SHELL.toString(), "is not there, and runs the commands", "")));
    }

    @Override
    public List<Finding> inspect(final FreezeRequest request, final Path directory) throws CheckpointException {
        ProcessTree.outline(request.roots()); // whether they are there
        return List.of();
    }

    @Override
    public FrozenTrees freeze(final FreezeRequest request) throws CheckpointException {
        return CommandFrozenTrees.freeze(commands, request);
    }

    /** Nothing: what the commands need they see when they are run. */
    @Override
    public long preCopy(final FreezeRequest request, final Path imageDirectory, final ImagePlan plan) {
        return 0;
    }

    @Override
    public TcpEnds connections(final FreezeRequest request) {
        return TcpEnds.NONE;
    }

    @Override
    public List<Finding> verify(final Path imageDirectory, final HostImages images) {
        return verify(imageDirectory, images, Progress.UNTOLD);
    }

    static List<Finding> verify(final Path imageDirectory, final HostImages images, final Progress progress) {
        final List<Finding> findings = new ArrayList<>();
        try (Cores cores = new Cores()) {
            for (final TreeImage tree : images.trees()) {
                findings.addAll(tree.verify(imageDirectory, cores, progress));
            }
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            findings.add(new Finding("this host", "was interrupted while it checked the images", ""));
        }
        return findings;
    }

    @Override
    public RestoredTrees restore(final RestoreRequest request) throws CheckpointException {
        final long begun = System.nanoTime();
        final List<Finding> findings = request.verified() ? List.of()
                : verify(request.imageDirectory(), request.images(), request.progress());
        request.progress().read(System.nanoTime() - begun);
        if (!findings.isEmpty()) {
            throw new CheckpointException(findings);
        }
        return CommandRestoredTrees.restore(commands, request);
    }
}
