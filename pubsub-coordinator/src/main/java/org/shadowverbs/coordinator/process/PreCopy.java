// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.shadowverbs.coordinator.memory.MemoryCopy;
import org.shadowverbs.coordinator.memory.WriteCount;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Copies the memory of trees that run. Without soft-dirty bits that is of use for processes only whose writes can be counted; of the
 * others the image has all.
 */
final class PreCopy {
    private final CriuTools tools;
    private final FreezeRequest request;
    private final Path directory;
    private final ImagePlan plan;

    PreCopy(final CriuTools tools, final FreezeRequest request, final Path directory, final ImagePlan plan) {
        this.tools = tools;
        this.request = request;
        this.directory = directory;
        this.plan = plan;
    }

    private record Copy(Path folder, ProcessTree.Member member, WriteCount count, int id, boolean known) {
    }

    /** Returns how much was copied. */
    long run() throws IOException, CheckpointException, InterruptedException {
        final List<ProcessTree> trees = ProcessTree.of(request.roots());
        final String space = CriuFrozenTrees.lackOfSpace(trees, directory, 1);
        if (!space.isEmpty()) {
            throw new CheckpointException(space);
        }
        final List<Copy> copies = new ArrayList<>();
        for (final ProcessTree tree : trees) {
            final List<ProcessTree.Member> members = tree.members().stream().filter(this::counts).toList();
            // Where bits are looked at and reset in two steps a write between them would be missed: all is copied then.
            final Chains.Link link = tools.chains().take(tree.top().pid(), plan, directory);
            final Chains.Link base = tools.softDirty() ? null : link;
            if (members.isEmpty()) {
                continue;
            }
            final Path folder = Files.createDirectory(directory.resolve("before-" + tree.top().pid()), PrivateFiles.FOLDER);
            final AtomicInteger id = new AtomicInteger();
            members.forEach(member -> copies.add(new Copy(folder, member, plan.counts().get(member.ids().pid()),
                    id.incrementAndGet(), base != null)));
            tools.chains().copied(tree.top().pid(), new Chains.Copied(plan.name(), folder, base));
        }
        return Parallel.each(copies, Parallel.threads(), copy -> MemoryCopy.of(copy.folder(), copy.member().ids().pid(),
                copy.member().ids().ownPid(), copy.id(), tools.softDirty() ? null : copy.count(), copy.known(),
                request.progress()::more)).stream().mapToLong(Long::longValue).sum();
    }

    private boolean counts(final ProcessTree.Member member) {
        if (member.ids().ended()) {
            return false;
        }
        final WriteCount count = plan.counts().get(member.ids().pid());
        return tools.softDirty() || CriuCommand.canCount() && count != null && count.works();
    }
}
