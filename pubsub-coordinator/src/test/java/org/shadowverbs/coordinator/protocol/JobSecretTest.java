// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JobSecretTest {
    private static final Map<String, String> GIVEN = Map.of(JobSecret.VARIABLE, "given");

    @TempDir
    private Path run;

    @Test
    void oneThatWasMadeCountsForMoreThanTheEnvironment() throws Exception {
        assertEquals("", JobSecret.of(Map.of(), run));
        assertEquals("given", JobSecret.of(GIVEN, run));
        final String made = JobSecret.random();
        JobSecret.keep(run, JobSecret.random());
        JobSecret.keep(run, made);
        assertEquals(made, JobSecret.of(GIVEN, run));
        assertEquals(made, JobSecret.of(Map.of(), run));
        JobSecret.forget(run);
        assertEquals("given", JobSecret.of(GIVEN, run));
    }

    @Test
    void isForItsUserAlone() throws Exception {
        final String secret = JobSecret.random();
        assertEquals(64, secret.length());
        assertNotEquals(secret, JobSecret.random());
        JobSecret.keep(run, secret);
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(run.resolve("secret"))));
    }
}
