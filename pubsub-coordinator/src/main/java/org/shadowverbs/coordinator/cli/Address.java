// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.RunDirectory;

/**
 * Which coordinator a command means.
 *
 * @param named whether the user named it, by options or environment; else it is the default one of this host
 * @param environment the command's
 */
public record Address(String host, int port, boolean named, Map<String, String> environment) {
    static final int DEFAULT_PORT = 7790;

    /** That nobody answers there; and why that may be, where it is another host. */
    String nobodyAnswers() {
        return "no coordinator answers at " + this + (isLocalhost() ? ""
                : "; one that was started without --address 0.0.0.0 can be reached on its own host alone");
    }

    /** The command that starts a coordinator there. */
    String start() {
        return "shadowverbs coordinator --daemon" + (isLocalhost() ? "" : " --address 0.0.0.0") + " --port " + port;
    }

    /** Where a coordinator listens that is not told otherwise. */
    private boolean isLocalhost() {
        try {
            return InetAddress.getByName(host).equals(InetAddress.getByName("localhost"));
        } catch (UnknownHostException e) {
            return true; // then the name is what is wrong
        }
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
