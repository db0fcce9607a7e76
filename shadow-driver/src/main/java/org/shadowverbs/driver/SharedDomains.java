// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * XRC domains that have a file are shared by all processes that open it on one device. A message to a receive queue pair of one may then be
 * for a shared receive queue of another, and neither could say what has arrived: such a job is refused before anything of
 * it is touched. So is a process that has one open through two device contexts, which are two processes to the device.
 */
final class SharedDomains {
    private static final Path BOOT = Path.of("/proc/sys/kernel/random/boot_id");

    private final int rank;
    /** What each domain with a file is known by in the job, and the file's name. */
    private final Map<String, String> files = new LinkedHashMap<String, String>();

    /** @param device the name on this host of the device that a context has open */
    SharedDomains(final Model model, final int rank, final Function<Context, String> device) throws Refusal {
        this.rank = rank;
        final Map<String, Context> openers = new LinkedHashMap<String, Context>();
        for (final Xrcd xrcd : model.xrcds.inOrder()) {
            if (xrcd.fd >= 0) {
                final Path file = Path.of("/proc/self/fd", Integer.toString(xrcd.fd));
                try {
                    final Map<String, Object> found = Files.readAttributes(file, "unix:dev,ino");
                    // The virtual GUIDs may be of devices that one stands for now, or the other way round.
                    final String key = "x/" + Files.readString(BOOT).strip() + "/" + device.apply(xrcd.context) + "/"
                            + found.get("dev") + ":" + found.get("ino");
                    final String name = Files.readSymbolicLink(file).toString();
                    files.put(key, name);
                    final Context other = openers.put(key, xrcd.context);
                    if (other != null && other != xrcd.context) {
                        throw new Refusal("the XRC domain of " + name + " is open in two device contexts, which cannot be"
                                + " checkpointed");
                    }
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
