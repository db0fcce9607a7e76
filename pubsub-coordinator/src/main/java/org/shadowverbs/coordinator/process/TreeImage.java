// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.images.Cores;

/**
 * The image of one process tree.
 *
 * @param name        the tree's name: that of its topmost root
 * @param directory   the folder of its image files, relative to the image directory
 * @param processes   its processes, the topmost first
 * @param files       its image files
 * @param outputs     regular files that its processes have open for writing
 * @param pipes       FIFOs with a name that its processes have open; none in images of versions that did not say
 * @param mapped      files that its processes have mapped or open as programs, which must be the same at restart
 * @param shellJob    whether its session leader or terminal is outside the tree
 * @param connections its ends of open TCP connections
 * @param listeners   its TCP sockets that listen; none in images of versions that did not say
 * @param alive       inodes of TCP sockets that ask whether the other end is alive, which the image does not say of them
 * @param unaccepted  connections that no program had accepted, and that are made again; none in images of versions that did not say
 * @param memory      a number of its /dev/shm if that is not the host's; 0: it is, or an older version has not said
 * @param dumpNanos   time to dump it
 * @param layers      what its memory builds on, the next one first; none in a whole image
 * @param clocks      what its processes saw when all trees had been saved; null in images in which CRIU has kept its own reading
 */
public record TreeImage(
        String name,
        String directory,
        List<ProcessImage> processes,
        List<ImageFile> files,
        List<OutputFile> outputs,
        List<NamedPipe> pipes,
        List<MappedFile> mapped,
        boolean shellJob,
        List<TcpConnection> connections,
        List<TcpListener> listeners,
        List<Long> alive,
        List<UnacceptedConnection> unaccepted,
        long memory,
        long dumpNanos,
        List<ImageLayer> layers,
        Clocks clocks) {
    public TreeImage {
        pipes = pipes == null ? List.of() : pipes;
        listeners = listeners == null ? List.of() : listeners;
        alive = alive == null ? List.of() : alive;
        unaccepted = unaccepted == null ? List.of() : unaccepted;
        layers = layers == null ? List.of() : layers;
    }

    /**
     * Whether it has open TCP connections.
     *
     * @return true if so
     */
    public boolean established() {
        return !connections.isEmpty();
    }

    /**
     * Whether processes of it have a pseudo terminal whose master another one has.
     *
     * @return true if so
     */
    public boolean ownTerminals() {
        return processes.stream().flatMap(process -> process.externals().stream())
                .anyMatch(external -> external.kind() == ExternalDescriptor.Kind.TERMINAL && external.resource().isEmpty());
    }

    /**
     * The pid of the topmost process, as it sees it itself.
     *
     * @return the pid that it has again when it is restored
     */
    public long rootPid() {
        return processes.getFirst().pid();
    }

    /**
     * How much its checkpoint has of it.
     *
     * @return bytes of its own files, without those of other checkpoints that it builds on
     */
    public long bytes() {
        return Stream.concat(files.stream(), layers.stream().filter(layer -> layer.checkpoint().isEmpty())
                .flatMap(layer -> layer.files().stream())).mapToLong(ImageFile::bytes).sum();
    }

    /** Reads all files, and those that they build on. */
    List<Finding> verify(final Path imageDirectory, final Cores cores, final Progress progress) throws InterruptedException {
        final List<Finding> findings = new ArrayList<>(
                ImageFiles.verify(name, imageDirectory.resolve(directory), files, cores, progress));
        for (final ImageLayer layer : layers) {
            findings.addAll(ImageFiles.verify(name, layer.folder(imageDirectory), layer.files(), cores, progress));
        }
        return findings;
    }

    TreeImage with(final List<ImageFile> nowFiles, final List<ImageLayer> nowLayers) {
        return new TreeImage(name, directory, processes, nowFiles, outputs, pipes, mapped, shellJob, connections, listeners, alive,
                unaccepted, memory, dumpNanos, nowLayers, clocks);
    }

    TreeImage goingOnFrom(final Clocks then) {
        return new TreeImage(name, directory, processes, files, outputs, pipes, mapped, shellJob, connections, listeners,
                alive, unaccepted, memory, dumpNanos, layers, then);
    }
}
