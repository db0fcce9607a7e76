// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import java.util.List;
import java.util.function.Supplier;

/** Saves by the commands of the programs' user if they have such, and restores by what has saved; else by another one. */
public final class ChosenCheckpointer implements ProcessCheckpointer {
    private final ProcessCheckpointer otherwise;
    private final Supplier<UserCommands> commands;

    /**
     * Makes one.
     *
     * @param otherwise for processes without commands of their own
     * @param commands  those of the programs that run now; null: they have none
     */
    public ChosenCheckpointer(final ProcessCheckpointer otherwise, final Supplier<UserCommands> commands) {
        this.otherwise = otherwise;
        this.commands = commands;
    }

    private ProcessCheckpointer ofPrograms() {
        return by(commands.get());
    }

    private ProcessCheckpointer by(final UserCommands own) {
        return own == null ? otherwise : new CommandCheckpointer(own);
    }

    @Override
    public Readiness check() {
        return ofPrograms().check();
    }

    @Override
    public List<Finding> inspect(final FreezeRequest request, final Path directory) throws CheckpointException {
        return ofPrograms().inspect(request, directory);
    }

    @Override
    public Preparation prepare(final FreezeRequest request, final Path imageDirectory, final ImagePlan plan) {
        return ofPrograms().prepare(request, imageDirectory, plan);
    }

    @Override
    public FrozenTrees freeze(final FreezeRequest request) throws CheckpointException {
        return ofPrograms().freeze(request);
    }

    @Override
    public FrozenTrees freeze(final FreezeRequest request, final Preparation preparation) throws CheckpointException {
        return ofPrograms().freeze(request, preparation);
    }

    @Override
    public long preCopy(final FreezeRequest request, final Path imageDirectory, final ImagePlan plan) throws CheckpointException {
        return ofPrograms().preCopy(request, imageDirectory, plan);
    }

    @Override
    public TcpEnds connections(final FreezeRequest request) throws CheckpointException {
        return ofPrograms().connections(request);
    }

    @Override
    public List<Finding> verify(final Path imageDirectory, final HostImages images) {
        return by(images.commands()).verify(imageDirectory, images);
    }

    @Override
    public RestoredTrees restore(final RestoreRequest request) throws CheckpointException {
        return by(request.images().commands()).restore(request);
    }
}
