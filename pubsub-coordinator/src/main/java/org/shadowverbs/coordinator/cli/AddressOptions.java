// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import picocli.CommandLine.TypeConversionException;

/** The options of every command that has to do with a coordinator: which one. */
final class AddressOptions {
    private static final int MOST = 65535;

    private final CliCommand command;
    private final Supplier<String> host;
    private final Supplier<Integer> port;

    AddressOptions(final CliCommand command) {
        this.command = command;
        host = command.text(List.of("-h", "--host"), "HOST", null,
                "the coordinator's host (SHADOWVERBS_COORD_HOST; localhost)");
        port = command.number(List.of("-p", "--port"), "PORT", 1, MOST, null,
                "the coordinator's port (SHADOWVERBS_COORD_PORT; 7790)");
    }

    /** What they name, else what the environment does, else the default one of this host. */
    Address address(final Map<String, String> environment) throws UsageException {
        final String envHost = environment.getOrDefault("SHADOWVERBS_COORD_HOST", "");
        final String envPort = environment.getOrDefault("SHADOWVERBS_COORD_PORT", "");
        final String name = host.get() != null ? host.get() : envHost.isEmpty() ? "localhost" : envHost;
        if (name.isEmpty()) {
            throw new UsageException(command.name() + ": -h needs the name of a host");
        }
        final int number = port.get() != null ? port.get() : envPort.isEmpty() ? Address.DEFAULT_PORT : number(envPort);
        return new Address(name, number,
                host.get() != null || port.get() != null || !envHost.isEmpty() || !envPort.isEmpty(), environment);
    }

    private static int number(final String envPort) throws UsageException {
        try {
            return CliCommand.number(envPort, 1, MOST);
        } catch (TypeConversionException e) {
            throw new UsageException("SHADOWVERBS_COORD_PORT " + e.getMessage());
        }
    }
}
