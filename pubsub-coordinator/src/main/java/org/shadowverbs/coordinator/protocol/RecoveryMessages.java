// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.LevelMessages.Holder;
import org.shadowverbs.coordinator.protocol.RestartMessages.Share;

/** What a job that heals itself needs: between coordinator and agents, and between an agent and the launching commands of its host. */
public final class RecoveryMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.ofEntries(
            Map.entry(FrameType.WATCH, Watch.class),
            Map.entry(FrameType.ALIVE, Alive.class),
            Map.entry(FrameType.END_PROCESSES, EndProcesses.class),
            Map.entry(FrameType.PROCESSES_ENDED, ProcessesEnded.class),
            Map.entry(FrameType.RECOVER, Recover.class),
            Map.entry(FrameType.RECOVERING, Recovering.class),
            Map.entry(FrameType.PROGRAM_ENDED, ProgramEnded.class),
            Map.entry(FrameType.LAUNCHERS, Launchers.class),
            Map.entry(FrameType.USER_ASKS, UserAsks.class),
            Map.entry(FrameType.JOB_ENDED, JobEnded.class),
            Map.entry(FrameType.STAND_IN, StandIn.class),
            Map.entry(FrameType.STANDING_IN, StandingIn.class),
            Map.entry(FrameType.LAUNCH_ENDED, LaunchEnded.class),
            Map.entry(FrameType.LAUNCH_SIGNAL, LaunchSignal.class),
            Map.entry(FrameType.OUTPUT, Output.class),
            Map.entry(FrameType.OUTPUT_TAKEN, OutputTaken.class));

    private RecoveryMessages() {
    }

    /**
     * The job heals itself. Each side says that it is alive, and counts the other host as lost when its kernel has not
     * acknowledged that for so long: the agent sooner than the coordinator, for it is to have ended its processes by then.
     */
    public record Watch(int lostAfterMillis) implements Message {
    }

    /** Nothing but something to be acknowledged. */
    public record Alive() implements Message {
    }

    /** End all processes of the job on this host, and forget them; those that launched them stay. */
    public record EndProcesses(long epoch) implements Message {
    }

    public record ProcessesEnded(long epoch) implements Message {
    }

    /**
     * Bring back a part of a checkpoint; THAW says when.
     *
     * @param folder the checkpoint's
     * @param checksum of its manifest
     * @param own the place of this host among the shares
     * @param local where this host keeps images, as the user named it; empty: nowhere
     * @param holders of images that this host may need
     */
    public record Recover(long epoch, String folder, String checksum, int own, List<Share> shares, String local, List<Holder> holders)
            implements Message {
    }

    /** These are the ranks that this host is about to bring back. */
    public record Recovering(long epoch, List<Member> members) implements Message {
    }

    /** A program that was launched has ended. {@code status}: 0 to 255, or 128 and its signal. */
    public record ProgramEnded(String program, int status) implements Message {
    }

    /** How many launching commands stand in for programs on this host. */
    public record Launchers(int number) implements Message {
    }

    /** What a signal to a launching command means: {@link #END}, or a checkpoint. */
    public record UserAsks(byte what, int signal) implements Message {
        /** The job is to end by that signal: what dies from now on is no failure. */
        public static final byte END = 0;
        public static final byte CHECKPOINT = 1;
        /** A checkpoint, after which the job ends. */
        public static final byte LAST_CHECKPOINT = 2;
    }

    /** The job is over. {@code status}: its exit status; {@link #NOBODY_KNOWS}: it goes on, and nobody looks after it any more. */
    public record JobEnded(int status) implements Message {
        public static final int NOBODY_KNOWS = -1;
    }

    /**
     * First message of a launching command that stands in for its program.
     *
     * @param pid its own
     * @param program what it has launched
     * @param stays whether it stays until the job ends; else it ends with its program
     */
    public record StandIn(int version, long pid, String program, boolean stays) implements Message {
    }

    /** {@code command}: starts the agent anew should it be lost. */
    public record StandingIn(List<String> command) implements Message {
    }

    /** Its program has ended. {@code status}: as wait(2) says it. */
    public record LaunchEnded(int status) implements Message {
    }

    /** It was sent a signal: one that ends it, or one that is not for the program or can't be passed on to it any more. */
    public record LaunchSignal(int signal) implements Message {
    }

    /**
     * What programs have written that were moved to a host without a launching command; for one on another host.
     *
     * @param descriptor 1 or 2
     */
    public record Output(byte descriptor, byte[] data) implements Message {
    }

    /** The last OUTPUT of this host has been passed on: the next may come. */
    public record OutputTaken() implements Message {
    }
}
