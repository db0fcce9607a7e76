// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

/** What is at the other end of a queue pair. */
public enum Pairing {
    /** The queue pair itself has no destination yet. */
    UNCONNECTED,
    /** The peer exists and is connected back. */
    CONNECTED,
    /** The peer exists, in RESET or INIT: nothing that was sent to it has taken effect. */
    UNREADY,
    /** The peer was destroyed, or its process ended, or the number is another queue pair's by now. */
    GONE,
    /** Nobody in the job has, or had, that address and number. */
    OUTSIDE
}
