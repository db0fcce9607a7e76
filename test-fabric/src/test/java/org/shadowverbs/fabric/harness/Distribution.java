// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** What the system tests run: the built distribution. Process images need root, and a test without it fails here. */
public final class Distribution {
    public static final Path DIST = Path.of(System.getProperty("shadowverbs.dist"));

    private Distribution() {
    }

    public static Job start(final Map<String, String> environment) throws IOException {
        if (!Files.isWritable(Path.of("/proc/1/oom_score_adj"))) {
            throw new IOException("the system tests save and restore processes with CRIU: run them as root");
        }
        return Job.start(DIST, environment);
    }

    public static Job start() throws IOException {
        return start(Map.of());
    }

    /** All its launches are into a job root, as under mpirun or srun. */
    public static Job startInJobRoot(final Map<String, String> environment) throws IOException {
        final Map<String, String> all = new HashMap<>(environment);
        all.put("PMI_RANK", "0");
        return start(all);
    }
}
