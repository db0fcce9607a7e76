// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ImageLayer;
import org.shadowverbs.coordinator.process.ProcessImage;
import org.shadowverbs.coordinator.process.TreeImage;

/**
 * All that a restart must know about a checkpoint.
 *
 * @param schema version of this format
 * @param parent epoch of the checkpoint from which the job has come to this one; 0: it was launched; null: a program that
 *     did not know of this has written it
 * @param backend that a restart has chosen for the job, as in a verdict; null, or "same": none has
 * @param created when, ISO 8601, UTC
 * @param killed whether the job was ended after it
 * @param millis from the request to the commit
 * @param phaseMillis how long each phase took, in order
 * @param ranks how many ranks
 * @param bytes size of all images
 * @param hosts one part for each host of the job
 * @param needs what its ranks have used of their devices; none in checkpoints of versions that did not say
 * @param history of the job until then; none in checkpoints of versions that did not say
 * @param checksum SHA-256 of this file's text with 64 zeros in place of the checksum
 */
public record Manifest(int schema, String job, long epoch, Long parent, String backend, String created, boolean killed,
        long millis, Map<String, Long> phaseMillis, int ranks, long bytes, List<HostPart> hosts, List<Needs> needs,
        History history, String checksum) {
    public static final int SCHEMA = 6;
    /** The oldest that is read, too. */
    static final int OLDEST = 1;

    public Manifest {
        needs = needs == null ? List.of() : needs;
        history = history == null ? History.NONE : history;
    }

    /** The checkpoints that this one builds on, by the names of their folders beside its own; none if it is whole. */
    public Set<String> bases() {
        return hosts.stream().flatMap(host -> host.images().trees().stream()).flatMap(tree -> tree.layers().stream())
                .map(ImageLayer::checkpoint).filter(checkpoint -> !checkpoint.isEmpty())
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /**
     * What the job has been through.
     *
     * @param ranMillis how long its programs had run, through all restarts
     * @param failures how often it had been restarted from a checkpoint that was not made to end it
     */
    public record History(long ranMillis, int failures) {
        /** Of a job that has just begun, or of which nothing is known. */
        public static final History NONE = new History(0, 0);
    }

    /**
     * What a host contributes.
     *
     * @param directory relative to the checkpoint's folder
     * @param origins of its programs; none in checkpoints of versions that did not say
     */
    public record HostPart(String host, String directory, List<RankPart> ranks, List<TreePart> trees,
            HostImages images, List<Origin> origins) {
        public HostPart {
            origins = origins == null ? List.of() : origins;
        }

        /** That of a tree; one without addresses where nobody has said. */
        Origin originOf(final TreeImage tree) {
            final Set<String> roots = tree.processes().stream().map(ProcessImage::root).collect(Collectors.toSet());
            final String name = trees.stream().filter(t -> roots.contains(t.root()) && t.origin() != null)
                    .map(TreePart::origin).findFirst().orElse(host);
            return origins.stream().filter(o -> o.name().equals(name)).findFirst()
                    .orElse(new Origin(name, List.of(), List.of()));
        }
    }

    /**
     * A host on which programs of the job were launched, and what they mean by its addresses and ports.
     *
     * @param name as its agent called it
     * @param ports those that are not what programs mean
     */
    public record Origin(String name, List<OriginAddress> addresses, List<OriginPort> ports) {
        /** What programs mean that listen at this port. */
        int virtualPort(final int port) {
            return ports.stream().filter(p -> p.port() == port).map(OriginPort::virtual).findFirst().orElse(port);
        }
    }

    /**
     * An address.
     *
     * @param device the network interface that has it
     * @param virtual as the programs know it: the one that their host had when they were launched
     * @param address the one that stands for it now
     */
    public record OriginAddress(String device, String virtual, String address) {
    }

    /** A port at which programs listen, as they know it, and the one that stands for it now. */
    public record OriginPort(int virtual, int port) {
    }

    /**
     * A rank.
     *
     * @param pid as it sees itself
     * @param root its name among the roots that were given to the process checkpointer
     * @param verdictInode of the FIFO that it reads its verdict from, in the image
     */
    public record RankPart(int number, String uid, long pid, String root, String program, long treeRootPid,
            long verdictInode) {
    }

    /**
     * A program that was launched.
     *
     * @param agent the socket of the agent that it was launched at, as its environment says; null when that does not
     * @param origin the host that it was launched on, as its environment says; null when that does not
     */
    public record TreePart(long pid, String root, List<String> argv, String cwd, String agent, String origin) {
    }
}
