// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import org.shadowverbs.driver.nativelib.Native;

/** Takes control verbs out of the mailbox and serves them, one after the other, for the life of the process. */
public final class ServiceThread implements Runnable {
    /** Several, so that one long registration holds up nobody else. */
    static final int POOL = 3;
    private static final long STACK = 256 << 10;

    private final Native library;
    private final Verbs verbs;
    private final Request request;

    private ServiceThread(final Native library, final Verbs verbs) {
        this.library = library;
        this.verbs = verbs;
        this.request = new Request(library.mailbox());
    }

    public static void startPool(final Native library, final Verbs verbs) {
        for (int i = 0; i < POOL; i++) {
            final Thread thread = new Thread(null, new ServiceThread(library, verbs), "shadowverbs-" + i, STACK);
            thread.setDaemon(true);
            thread.start();
        }
    }

    @Override
    public void run() {
        for (;;) {
            final int slot = library.mailboxTake(-1);
            if (slot >= 0) {
                verbs.serve(request.at(slot));
                library.mailboxAnswer(slot);
            }
        }
    }
}
