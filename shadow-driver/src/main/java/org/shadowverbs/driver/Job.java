// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.nio.file.Path;

/** What the control verbs need of the job that this process belongs to. */
interface Job {
    /**
     * Returns when {@link Model#book} is good for connecting a queue pair. That is at once, but for a process that has
     * joined a job which was re-attached before: its peers' ids may be carried over, and it must hear of them first.
     */
    void awaitAddressBook();

    /** A folder that all processes of the job on this host have; null: there is none, for the process is alone. */
    Path hostFolder();

    /** A connection of librdmacm's that a restart has lost is over, see {@link Disconnections}. */
    void disconnect(long token);

    /** The process is about to end normally. */
    void exit(int status);
}
