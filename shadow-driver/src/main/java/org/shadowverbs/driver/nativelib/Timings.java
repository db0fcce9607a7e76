// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

/** With SHADOWVERBS_VERBOSE=1, a line for each phase with its duration. */
public final class Timings {
    private final Native library;
    private final boolean verbose;
    private long since;

    public Timings(final Native library, final boolean verbose) {
        this.library = library;
        this.verbose = verbose;
    }

    public void begin() {
        since = System.nanoTime();
    }

    /** A line about what goes on, when wanted. */
    public void note(final String line) {
        if (verbose) {
            library.say(line);
        }
    }

    public void end(final String phase) {
        final long now = System.nanoTime();
        if (verbose) {
            library.say(phase + ": " + (now - since) / 1000 + " us");
        }
        since = now;
    }
}
