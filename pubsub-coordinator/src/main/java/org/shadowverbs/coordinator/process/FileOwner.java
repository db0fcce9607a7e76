// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Map;

/** Owner, group and mode of files that are made again. */
final class FileOwner {
    private static final int GROUP = 0070;

    private FileOwner() {
    }

    /**
     * Gives them to a file that this process has made. Where the user may not, as he is not in its group, the file stays his own, and
     * its group gets no right to it.
     */
    static void give(final Path file, final int mode, final int uid, final int gid) throws IOException {
        Files.setAttribute(file, "unix:mode", isGivenAway(file, uid, gid) ? mode : mode & ~GROUP);
    }

    private static boolean isGivenAway(final Path file, final int uid, final int gid) throws IOException {
        final Map<String, Object> a = Files.readAttributes(file, "unix:uid,gid", LinkOption.NOFOLLOW_LINKS);
        try {
            if (!a.get("gid").equals(gid)) {
                Files.setAttribute(file, "unix:gid", gid, LinkOption.NOFOLLOW_LINKS);
            }
            if (!a.get("uid").equals(uid)) {
                Files.setAttribute(file, "unix:uid", uid, LinkOption.NOFOLLOW_LINKS);
            }
            return true;
        } catch (FileSystemException e) {
            return false;
        }
    }
}
