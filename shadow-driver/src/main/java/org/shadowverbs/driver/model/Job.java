// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.nio.file.Path;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.Gid;

/** What the control verbs need of the job that this process belongs to. */
public interface Job {
    /**
     * Returns when {@link Model#book} is good for opening a device and for connecting a queue pair. That is at once, but for a process that has
     * joined a job which was re-attached before: its peers' ids may be carried over, and it must hear of them first.
     */
    void awaitAddressBook();

    /**
     * Gives this process a lid that is its own in the job, and tells all which GID it stands for; for backends whose lids are ours.
     *
     * @param has the lid that the port has already; 0: none
     * @throws VerbsException EIO: the coordinator cannot be reached
     */
    int publishLid(Gid gid, int has);

    /**
     * What {@link #publishLid} of any process has told. Null: nobody has told of that lid.
     *
     * @throws VerbsException EIO: the coordinator cannot be reached
     */
    Gid gidOf(int lid);

    /** A folder that all processes of the job on this host have; null: there is none, for the process is alone. */
    Path hostFolder();

    /** A connection of librdmacm's that a restart has lost is over, see {@link org.shadowverbs.driver.checkpoint.Disconnections}. */
    void disconnect(long token);

    /**
     * The program waits for a checkpoint, and is answered by {@link org.shadowverbs.driver.nativelib.Native#programAnswer}. Until then
     * it says so again now and then.
     *
     * @param call its number, above those before
     * @param processes how many ask together; 0: this one by itself
     */
    void wantsCheckpoint(long call, int processes);

    /** The process is about to end normally. */
    void exit(int status);
}
