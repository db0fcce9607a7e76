// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

/** The type byte of every frame; {@code docs/MESSAGES.md} has the bytes of each body. */
public final class FrameType {
    /** Goes up with every change that an older peer would misread. */
    public static final int VERSION = 13;

    /** Longest frame (type and body, bytes). A longer one is an error of the sender, not a reason to allocate. */
    public static final int MAX_FRAME = 64 << 20;
    /** Longest frame of those that are passed on within another, with the names of the ranks it is for. */
    public static final int MAX_PASSED_ON = MAX_FRAME - (1 << 20);

    // rank <-> agent
    public static final byte HELLO = 1;
    public static final byte WELCOME = 2;
    public static final byte REFUSED = 3;
    public static final byte ASK_CHECKPOINT = 4;
    public static final byte ASKED = 5;
    public static final byte CHECKPOINT = 10;
    public static final byte CONTRIBUTE = 11;
    public static final byte REPLY = 12;
    public static final byte ABORT = 13;
    public static final byte DETACHED = 14;
    public static final byte DONE = 15;
    public static final byte FAIL = 16;
    public static final byte PROGRESS = 17;
    public static final byte GOODBYE = 18;
    public static final byte PUBLISH = 19;
    public static final byte LOOKUP = 20;
    public static final byte FOUND = 21;
    public static final byte SHUTDOWN = 22;
    public static final byte HOLD = 23;
    public static final byte GIVE_BACK = 24;
    public static final byte HELD = 25;
    public static final byte NOTIFY = 26;
    public static final byte NOTIFIED = 27;
    public static final byte EXIT_MESSAGES = 28;
    public static final byte ASK_WORK = 29;
    public static final byte WORK = 38;
    public static final byte CHECK = 32;
    public static final byte CHECKED = 33;

    // launch <-> agent
    public static final byte REGISTER_TREE = 30;
    public static final byte REGISTERED = 31;

    // restored tree <-> agent <-> coordinator
    public static final byte PMI_STATE = 34;
    public static final byte PMI_NEWS = 35;

    // rsh <-> agent
    public static final byte ASK_SHELL = 36;
    public static final byte SHELL_ANSWER = 37;

    // agent <-> coordinator
    public static final byte AGENT_HELLO = 40;
    public static final byte AGENT_WELCOME = 41;
    public static final byte RANK_JOINED = 42;
    public static final byte RANK_NUMBER = 43;
    public static final byte FROM_RANK = 44;
    public static final byte TO_RANKS = 45;
    public static final byte RANK_GONE = 46;
    public static final byte TREE_STATE = 47;
    public static final byte FREEZE = 48;
    public static final byte FROZEN = 49;
    public static final byte SAVE = 50;
    public static final byte SAVED = 51;
    public static final byte THAW = 52;
    public static final byte THAWED = 53;
    public static final byte STEP_FAILED = 54;
    public static final byte TERMINATE = 55;
    public static final byte QUIT = 56;
    public static final byte STEP_PROGRESS = 57;
    public static final byte RELEASE = 58;
    public static final byte RESTORED = 59;
    public static final byte RELEASED = 69;
    public static final byte INSPECT = 70;
    public static final byte INSPECTED = 71;
    public static final byte SAY = 72;
    public static final byte START_SHELL = 73;
    public static final byte SHELL_FAILED = 74;
    public static final byte SEAL = 75;
    public static final byte SEALED = 76;
    public static final byte PRE_COPY = 77;
    public static final byte PRE_COPIED = 78;
    public static final byte PREPARE = 67;
    public static final byte PREPARED = 68;
    public static final byte HOST_CONTRIBUTES = 66;
    public static final byte HOST_RANKS = 79;

    // command line <-> coordinator
    public static final byte COMMAND = 60;
    public static final byte LINE = 61;
    public static final byte RESULT = 62;

    // restart <-> coordinator
    public static final byte RESTART_JOIN = 63;
    public static final byte RESTART_SHARE = 64;
    public static final byte RESTART_END = 65;

    // agent <-> coordinator, of a job that heals itself
    public static final byte WATCH = 80;
    public static final byte ALIVE = 81;
    public static final byte END_PROCESSES = 82;
    public static final byte PROCESSES_ENDED = 83;
    public static final byte RECOVER = 84;
    public static final byte RECOVERING = 85;
    public static final byte PROGRAM_ENDED = 86;
    public static final byte LAUNCHERS = 87;
    public static final byte USER_ASKS = 88;
    public static final byte JOB_ENDED = 89;

    // launching command <-> agent
    public static final byte STAND_IN = 90;
    public static final byte STANDING_IN = 91;
    public static final byte LAUNCH_ENDED = 92;
    public static final byte LAUNCH_SIGNAL = 93;
    public static final byte OUTPUT = 94;
    public static final byte OUTPUT_TAKEN = 95;

    // agent <-> coordinator, of images that are kept at several levels
    public static final byte COPY_IMAGES = 96;
    public static final byte IMAGES_COPIED = 97;
    public static final byte COPY_PROGRESS = 98;
    public static final byte RETAIN_IMAGES = 99;
    public static final byte IMAGES_AT = 100;
    public static final byte LEVEL_LOST = 101;

    // agent <-> coordinator, of connections between hosts that nobody has accepted
    public static final byte HOLD_SOCKETS = 104;
    public static final byte SOCKETS_HELD = 105;
    public static final byte ACCEPT = 106;
    public static final byte ACCEPTED = 107;
    public static final byte MAKE_AGAIN = 108;

    // agent <-> agent
    public static final byte FETCH = 102;
    public static final byte PIECE = 103;

    private FrameType() {
    }
}
