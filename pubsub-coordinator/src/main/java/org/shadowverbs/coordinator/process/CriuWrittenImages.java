// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.images.CompressionPolicy;
import org.shadowverbs.coordinator.images.Cores;

/** What CRIU has written of the trees of one host. */
final class CriuWrittenImages implements WrittenImages {
    private final HostImages images;
    private final List<Written> written;
    private final Path directory;
    private final ImagePlan plan;
    private final Chains chains;
    private final CompressionPolicy policy;

    /**
     * A tree.
     *
     * @param top    pid of its topmost process, on the host
     * @param image  without its files and layers
     * @param base   the image that it builds on; null: none
     * @param copied what was copied before; null: nothing. It may build on the base
     * @param counted whether writes count from here on, so that a later image may build on this one
     */
    record Written(long top, TreeImage image, Chains.Link base, Chains.Copied copied, boolean counted) {
    }

    /** @param images without trees */
    CriuWrittenImages(final HostImages images, final List<Written> written, final Path directory, final ImagePlan plan,
            final Chains chains, final CompressionPolicy policy) {
        this.images = images;
        this.written = written;
        this.directory = directory;
        this.plan = plan;
        this.chains = chains;
        this.policy = policy;
    }

    @Override
    public long bytes() {
        return written.stream().mapToLong(tree -> ImageFiles.bytes(directory.resolve(tree.image().directory()))).sum();
    }

    @Override
    public HostImages seal(final Compression compression, final Progress progress) throws CheckpointException {
        final long start = System.nanoTime();
        try (Cores cores = new Cores()) {
            final ImageFiles.Choice choice = file -> policy.choose(compression, file, cores);
            final List<TreeImage> trees = new ArrayList<>();
            for (final Written tree : written) {
                final List<ImageFile> files = ImageFiles.seal(directory.resolve(tree.image().directory()), choice, cores, progress);
                final List<ImageLayer> layers = new ArrayList<>();
                if (tree.copied() != null) {
                    final Path folder = tree.copied().folder();
                    layers.add(new ImageLayer("", directory.getFileName() + "/" + folder.getFileName(),
                            ImageFiles.seal(folder, choice, cores, progress).stream().filter(ImageFiles::isOfMemory).toList()));
                }
                final Chains.Link base = tree.copied() != null ? tree.copied().base() : tree.base();
                if (base != null) {
                    layers.addAll(base.layers());
                }
                final TreeImage image = tree.image().with(files, layers);
                trees.add(image);
                if (tree.counted()) {
                    chains.sealed(tree.top(), new Chains.Link(plan.name(), directory.getFileName().toString(), image));
                }
            }
            return images.with(trees, System.nanoTime() - start);
        } catch (final IOException e) {
            throw new CheckpointException("making the images in " + directory + " safe: " + e.getMessage(), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("making the images in " + directory + " safe: interrupted", e);
        }
    }
}
