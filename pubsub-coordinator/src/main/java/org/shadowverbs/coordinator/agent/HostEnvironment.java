// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.process.RemoteShell;
import org.shadowverbs.coordinator.protocol.JobSecret;

/**
 * What of a process's environment holds on other hosts too. As srun does it, and not as ssh does, a command that runs elsewhere has
 * its variables from the one that asks for it.
 */
final class HostEnvironment {
    private static final String MCA = "PMIX_MCA_";
    /** Of one host, login, launcher or rank. */
    private static final List<String> BOUND = List.of("SLURM", "PMI_", "PMIX_", "SSH_", "XDG_", "DBUS_", "HYDI_");
    private static final Set<String> BOUND_NAMES = Set.of("HOSTNAME", "HOST", "DISPLAY", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_",
            "SHADOWVERBS_RUN_DIR", "SHADOWVERBS_COORD_HOST", "SHADOWVERBS_COORD_PORT", "SHADOWVERBS_TCP_ADDRESS");
    /** What a launch has put there, and the next one makes anew. */
    private static final List<String> PRELOADED_BY_LAUNCH = List.of("/libshadowverbs.so", "/libjsig.so");
    private static final String PRELOAD = "LD_PRELOAD";
    private static final Set<String> OF_LAUNCH = Set.of("SHADOWVERBS_AGENT", "SHADOWVERBS_JOB", "SHADOWVERBS_TREE",
            "SHADOWVERBS_HOME", "SHADOWVERBS_JVM", AgentPlace.ORIGIN, JobSecret.VARIABLE, RemoteShell.PLACE);

    private HostEnvironment() {
    }

    /**
     * Of a process that was launched, as it was before.
     *
     * @param variables NAME=value
     * @param secret the job's; empty: none
     */
    static Map<String, String> beforeLaunch(final List<String> variables, final String secret) {
        final Map<String, String> all = new TreeMap<>();
        for (final String variable : variables) {
            final int end = variable.indexOf('=');
            if (end > 0) {
                all.put(variable.substring(0, end), variable.substring(end + 1));
            }
        }
        return without(all, secret);
    }

    /** The same of a command that runs on this host, for one on another host. */
    static Map<String, String> here(final List<String> variables, final String secret) {
        final Map<String, String> all = without(new TreeMap<>(System.getenv()), secret);
        beforeLaunch(variables, "").forEach((name, value) -> {
            if (!isBound(name)) {
                all.put(name, value);
            }
        });
        return all;
    }

    private static Map<String, String> without(final Map<String, String> all, final String secret) {
        all.keySet().removeAll(OF_LAUNCH);
        all.computeIfPresent(PRELOAD, (name, libraries) -> ofUser(libraries));
        if (!secret.isEmpty()) {
            all.put(JobSecret.VARIABLE, secret);
        }
        return all;
    }

    /** Null when there is none. */
    private static String ofUser(final String libraries) {
        final String left = Arrays.stream(libraries.split("[: ]+")).filter(library -> !library.isEmpty()
                && PRELOADED_BY_LAUNCH.stream().noneMatch(library::endsWith)).collect(Collectors.joining(":"));
        return left.isEmpty() ? null : left;
    }

    private static boolean isBound(final String name) {
        return BOUND_NAMES.contains(name) || !name.startsWith(MCA) && BOUND.stream().anyMatch(name::startsWith);
    }
}
