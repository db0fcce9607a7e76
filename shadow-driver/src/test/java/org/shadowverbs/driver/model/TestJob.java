// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.ids.Gid;

/** The job of a process that has no coordinator: it notes what it is asked for. */
public class TestJob implements Job {
    public static final int LID = 0x4007;

    public final Map<Integer, Gid> published = new HashMap<>();
    private final List<String> calls;
    private final Path folder;

    public TestJob(final List<String> calls, final Path folder) {
        this.calls = calls;
        this.folder = folder;
    }

    @Override
    public void awaitAddressBook() {
        calls.add("awaitAddressBook");
    }

    @Override
    public int publishLid(final Gid gid, final int has) {
        final int lid = has != 0 ? has : LID;
        published.put(lid, gid);
        return lid;
    }

    @Override
    public Gid gidOf(final int lid) {
        return published.get(lid);
    }

    @Override
    public Path hostFolder() {
        return folder;
    }

    @Override
    public void disconnect(final long token) {
        throw new AssertionError();
    }

    @Override
    public void wantsCheckpoint(final long call, final int processes) {
        calls.add("wantsCheckpoint " + call + " " + processes);
    }

    @Override
    public void exit(final int status) {
        calls.add("exit " + status);
    }
}
