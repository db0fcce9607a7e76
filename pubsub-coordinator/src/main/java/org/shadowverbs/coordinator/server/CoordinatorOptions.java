// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How a coordinator runs.
 *
 * @param address to listen at
 * @param port 0: any free one
 * @param portFile where the port is written to once it listens; null: nowhere
 * @param runRoot the run directory is the folder in it named by the port
 * @param checkpointDirectory for launches that name none
 * @param interval of periodic checkpoints, unless a launch asks for another
 * @param recovery whether the job heals itself, unless a launch asks for that
 * @param keep how many checkpoints of the job are kept
 * @param images how they are made, unless a launch asks for something else
 * @param exitOnLast end when the last program of the job has ended
 * @param secret what every peer must show; empty: nothing
 * @param deadlineSeconds of each phase
 * @param recover go on with the job of a coordinator that was lost; else what it left behind is dropped
 */
public record CoordinatorOptions(String address, int port, Path portFile, Path runRoot, Path checkpointDirectory,
        Interval interval, RecoveryOptions recovery, int keep, ImageChoice images, boolean exitOnLast, String secret,
        int deadlineSeconds, boolean recover) {
    /** Names of a launch's settings. */
    static final String KEEP = "keep";
    static final String DIRECTORY = "ckptdir";

    /** As a launch's settings: what a coordinator on another host is to go on with. */
    Map<String, String> settings() {
        final Map<String, String> settings = new LinkedHashMap<>(interval.settings());
        settings.putAll(images.settings());
        settings.putAll(recovery.settings());
        settings.put(KEEP, Integer.toString(keep));
        settings.put(DIRECTORY, checkpointDirectory.toString());
        return settings;
    }

    /** The same, but for what no launch asks for and the coordinator before this one was told. */
    CoordinatorOptions of(final JobState before) {
        return new CoordinatorOptions(address, port, portFile, runRoot, checkpointDirectory, interval, recovery, keep, images,
                before.exitOnLast(), secret, before.deadlineSeconds(), recover);
    }
}
