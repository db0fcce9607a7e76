// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.io.IOException;
import org.shadowverbs.coordinator.client.CheckpointRequest;
import org.shadowverbs.coordinator.client.ProgramAnswer;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;

/**
 * The checkpoint that the program waits for (shadowverbs_checkpoint), if it does: asks the coordinator for it, and answers the call
 * when that is safe, or the process has been restarted from it. A call is ended only by a checkpoint in whose image the process is in
 * that call: so what the program does after a restart is what it would have done after the call.
 *
 * <p>For any thread. Nobody waits here.
 */
class ProgramCall {
    /** In shadowverbs_program.h. */
    static final int RESUMED = 1;
    static final int RESTARTED = 2;
    static final int GIVEN_UP = 3;

    private static final long SILENCE_SECONDS = 60;

    private final Native library;
    private long call;
    private int processes;
    private boolean waits;
    /** When the coordinator was last known to have heard of it. */
    private long heard;
    /** A checkpoint goes on, which may end it: nothing is asked meanwhile. */
    private CheckpointRequest current;
    /** It will be in the image that the checkpoint makes. */
    private boolean inImage;
    /** The last epoch in whose image it is, by what the verdict says; 0: none. Whether that is safe the coordinator says. */
    private long written;

    /** By which the coordinator is asked. */
    interface Link {
        /**
         * Asks.
         *
         * @param written the epoch in whose image the process is in that call, or 0
         * @throws IOException when there is none now
         */
        void ask(long call, int processes, long written) throws IOException;
    }

    ProgramCall(final Native library) {
        this.library = library;
    }

    /** In nanoseconds. Tests have another one. */
    long now() {
        return System.nanoTime();
    }

    /** The program waits, or still waits. */
    synchronized void wants(final long number, final int together, final Link link) {
        if (number != call) {
            call = number;
            processes = together;
            waits = true;
            written = 0;
            heard = now();
        }
        if (!waits || current != null) {
            return;
        }
        if (now() - heard > SILENCE_SECONDS * 1_000_000_000L) {
            fail(VerbsErrno.ETIMEDOUT, "the job's coordinator has not answered for " + SILENCE_SECONDS + " s");
            return;
        }
        ask(link);
    }

    /** There is another link: what was asked by the one before may be lost. */
    synchronized void again(final Link link) {
        if (waits && current == null) {
            ask(link);
        }
    }

    private void ask(final Link link) {
        try {
            link.ask(call, processes, written);
        } catch (IOException e) {
            return; // it is asked again by the next link, and until then by the program
        }
    }

    /** There is no agent, and there will be none. */
    synchronized void nobodyServes(final String why) {
        if (waits) {
            fail(VerbsErrno.ENOTCONN, why);
        }
    }

    /** The coordinator has answered. */
    synchronized void answered(final ProgramAnswer answer) {
        if (!waits || answer.call() != call) {
            return;
        }
        heard = now();
        if (answer.safe() != 0 && answer.safe() == written) {
            end(RESUMED);
        } else if (!answer.problem().isEmpty()) {
            fail(VerbsErrno.EIO, answer.problem());
        }
    }

    /** A checkpoint begins in this process. */
    synchronized void begins(final CheckpointRequest request) {
        current = request;
        inImage = false;
    }

    /** From here on the image may be made. Who calls later asks for another checkpoint. */
    synchronized void detaches() {
        inImage = waits && (processes == 0 || current.together());
    }

    /** The program runs again, and that has become of it. */
    synchronized void ends(final int outcome) {
        if (inImage && waits && outcome == RESTARTED) {
            end(RESTARTED);
        } else if (inImage && outcome == RESUMED) {
            written = current.epoch();
        }
        current = null;
        heard = now();
        inImage = false;
    }

    private void end(final int outcome) {
        waits = false;
        library.programAnswer(call, outcome, 0, "");
    }

    private void fail(final int err, final String why) {
        waits = false;
        library.programAnswer(call, -1, err, why);
    }
}
