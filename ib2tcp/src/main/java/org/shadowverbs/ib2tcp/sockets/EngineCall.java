// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Posix;

/**
 * A control verb's work on its way to the engine's thread ({@link TcpDevice#submit}), and its result on the way back. The
 * fields of the result are guarded by the object itself.
 */
public final class EngineCall implements Runnable {
    private static final long REPORT_NANOS = 30_000_000_000L;

    /** What is to be done; what it returns is the verb's. */
    public interface Work {
        long run();
    }

    private final Work work;
    private long result;
    private RuntimeException failure;
    private boolean done;

    public EngineCall(final Work work) {
        this.work = work;
    }

    @Override
    public void run() {
        RuntimeException thrown = null;
        long value = 0;
        try {
            value = work.run();
        } catch (RuntimeException e) {
            thrown = e;
        }
        synchronized (this) {
            result = value;
            failure = thrown;
            done = true;
            notifyAll();
        }
    }

    /**
     * Waits on the thread that asked, for as long as it takes; after 30 s it says on stderr which verb is not answered.
     *
     * @return what the work returned
     * @throws DeviceException as the work did; EINVAL: the device has failed; EINTR: the thread was interrupted
     */
    public synchronized long await(final Host host, final TcpDevice device, final String verb) {
        final long begun = System.nanoTime();
        boolean said = false;
        while (!done) {
            try {
                wait(1000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new DeviceException(Posix.EINTR, verb);
            }
            if (!done && device.failure() != null) {
                throw new DeviceException(Posix.EINVAL, verb + ": the TCP device has failed");
            }
            if (!done && !said && System.nanoTime() - begun > REPORT_NANOS) {
                said = true;
                host.say("the TCP device has not answered '" + verb + "' for 30 s");
            }
        }
        if (failure != null) {
            throw failure;
        }
        return result;
    }
}
