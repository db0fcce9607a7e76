// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.process.HostImages;

/**
 * All that a restart must know about a checkpoint.
 *
 * @param schema version of this format
 * @param created when, ISO 8601, UTC
 * @param killed whether the job was ended after it
 * @param millis from the request to the commit
 * @param phaseMillis how long each phase took, in order
 * @param ranks how many ranks
 * @param bytes size of all images
 * @param hosts one part for each host of the job
 * @param checksum SHA-256 of this file's text with 64 zeros in place of the checksum
 */
public record Manifest(int schema, String job, long epoch, String created, boolean killed, long millis,
        Map<String, Long> phaseMillis, int ranks, long bytes, List<HostPart> hosts, String checksum) {
    public static final int SCHEMA = 1;

    /** What a host contributes. {@code directory} is relative to the checkpoint's folder. */
    public record HostPart(String host, String directory, List<RankPart> ranks, List<TreePart> trees,
            HostImages images) {
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

    /** A program that was launched. */
    public record TreePart(long pid, String root, List<String> argv, String cwd) {
    }
}
