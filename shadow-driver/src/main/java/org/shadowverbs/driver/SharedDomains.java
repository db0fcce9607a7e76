// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * XRC domains that have a file are shared by all processes that open it. A message to a receive queue pair of one may then be
 * for a shared receive queue of another, and neither could say what has arrived: such a job is refused before anything of
 * it is touched.
 */
final class SharedDomains {
    private final int rank;
    /** What each domain with a file is known by in the job, and the file's name. */
    private final Map<String, String> files = new LinkedHashMap<String, String>();

    SharedDomains(final Model model, final int rank) throws Refusal {
        this.rank = rank;
        for (final Xrcd xrcd : model.xrcds.inOrder()) {
            if (xrcd.fd >= 0) {
                final Path file = Path.of("/proc/self/fd", Integer.toString(xrcd.fd));
                try {
                    final Map<String, Object> found = Files.readAttributes(file, "unix:dev,ino");
                    files.put("x/" + Long.toHexString(xrcd.context.nodeGuid) + "/" + found.get("dev") + ":"
                            + found.get("ino"), Files.readSymbolicLink(file).toString());
                } catch (IOException e) {
                    throw new Refusal("the file of an XRC domain cannot be read: " + e.getMessage());
                }
            }
        }
    }

    /** Adds a key for each of them. Of those who publish the same one the last is found, by all. */
    void publish(final Map<String, byte[]> values) {
        for (final String key : files.keySet()) {
            values.put(key, ByteBuffer.allocate(Integer.BYTES).putInt(rank).array());
        }
    }

    Iterable<String> wanted() {
        return files.keySet();
    }

    void check(final Map<String, byte[]> found) throws Refusal {
        for (final Map.Entry<String, String> file : files.entrySet()) {
            final byte[] value = found.get(file.getKey());
            if (value != null && ByteBuffer.wrap(value).getInt() != rank) {
                throw new Refusal("the XRC domain of " + file.getValue() + " is shared with rank "
                        + ByteBuffer.wrap(value).getInt() + ", which cannot be checkpointed");
            }
        }
    }
}
