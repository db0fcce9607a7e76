// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.manifest.Manifest;
import picocli.CommandLine;

final class BackendsTest {
    private static Backends parsed(final String options) {
        final CliCommand command = new CliCommand("restart") {
            @Override
            public Integer call() {
                return 0;
            }
        };
        final Backends backends = new Backends(command, "", "");
        new CommandLine(command.complete()).parseArgs(options.isEmpty() ? new String[0] : options.split(" "));
        return backends;
    }

    /** SAVED is what the checkpoint says of its backend: nothing, if no restart has chosen one. */
    @ParameterizedTest
    @CsvSource({
        "'', '', true, same",
        "'', ib2tcp, true, ib2tcp",
        "'', ib2tcp+infiniband, false, ib2tcp+infiniband",
        "--backend hca, ib2tcp+infiniband, true, hca",
        "--backend ib2tcp, '', false, ib2tcp",
        "--backend ib2tcp, '', true, ib2tcp+infiniband",
        "--backend ib2tcp --link ethernet, '', true, ib2tcp",
        "--backend ib2tcp --link infiniband, '', false, ib2tcp+infiniband"})
    void aJobFromInfinibandGoesOnAsOne(final String options, final String saved, final boolean infiniband,
            final String backend) throws UsageException {
        final Manifest manifest = new Manifest(Manifest.SCHEMA, "job", 1, 0L, saved.isEmpty() ? null : saved, "", false, 0,
                Map.of(), 2, 0, List.of(), List.of(new Needs(0, "shadow0", infiniband, Map.of(), Map.of()),
                        new Needs(1, "tcp0", false, Map.of(), Map.of())), null, "");
        final Backends backends = parsed(options);
        assertEquals(backend, backends.ofRestart(backends.ofRestart(), manifest));
    }

    @ParameterizedTest
    @CsvSource({
        "--backend ib2tcp --link infiniband, '', ib2tcp+infiniband",
        "--link infiniband, ib2tcp, ib2tcp+infiniband",
        "'', ib2tcp+infiniband, ib2tcp+infiniband",
        "--link ethernet, ib2tcp+infiniband, ib2tcp",
        "--backend ib2tcp, ib2tcp+infiniband, ib2tcp"})
    void aLaunchWithinALaunchHasItsLinkLayer(final String options, final String around, final String backend)
            throws UsageException {
        assertEquals(backend, parsed(options).ofLaunch(false,
                around.isEmpty() ? Map.of() : Map.of("SHADOWVERBS_BACKEND", around)));
    }
}
