// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.RunDirectory;

/**
 * Which coordinator a command means.
 *
 * @param named whether the user named it, by flags or environment; else it is the default one of this host
 * @param environment the command's
 */
public record Address(String host, int port, boolean named, Map<String, String> environment) {
    static final int DEFAULT_PORT = 7790;

    static Address of(final String command, final Arguments arguments, final Map<String, String> environment)
            throws UsageException {
        final String envHost = environment.getOrDefault("SHADOWVERBS_COORD_HOST", "");
        final String envPort = environment.getOrDefault("SHADOWVERBS_COORD_PORT", "");
        final String host = arguments.value("-h", envHost.isEmpty() ? "localhost" : envHost);
        if (host.isEmpty()) {
            throw new UsageException(command + ": -h needs the name of a host");
        }
        final int port = arguments.has("-p") ? arguments.number(command, "-p", 0, 1, 65535)
                : envPort.isEmpty() ? DEFAULT_PORT : Arguments.number("SHADOWVERBS_COORD_PORT", envPort, 1, 65535);
        return new Address(host, port,
                arguments.has("-h") || arguments.has("-p") || !envHost.isEmpty() || !envPort.isEmpty(),
                environment);
    }

    /** Where the agent of this host that belongs to that coordinator lives. */
    Path runDirectory() throws IOException {
        return RunDirectory.of(RunDirectory.root(environment), host, port);
    }

    /** What that coordinator is to be shown. */
    String secret() throws CommandException {
        try {
            return JobSecret.of(environment, runDirectory());
        } catch (IOException e) {
            throw new CommandException("the secret of the job at " + this + " can't be read: " + e.getMessage());
        }
    }

    @Override
    public String toString() {
        return host + ":" + port;
    }
}
