// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.List;
import java.util.Map;

/**
 * What tells the launchers of MPI to start their daemons on other hosts by {@code shadowverbs rsh}, and to keep nothing where a restart
 * would not find it. Who has said how something of it is to be done keeps his way.
 */
final class Launchers {
    /** Of each launcher the variables by which its user says something about it; the first two are set when none of them is. */
    private static final List<List<String>> VARIABLES = List.of(
            // Open MPI up to 4 (orted).
            List.of("OMPI_MCA_plm", "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_rsh_agent", "OMPI_MCA_pls_rsh_agent"),
            // Open MPI from 5 on (PRRTE).
            List.of("PRTE_MCA_plm", "PRTE_MCA_plm_ssh_agent", "PRTE_MCA_plm_rsh_agent"),
            // MPICH, MVAPICH.
            List.of("HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP", "HYDRA_BOOTSTRAP_EXEC"));
    private static final List<String> WAYS = List.of("rsh", "ssh", "ssh");
    /** Whether Hydra gives all ranks its own environment: then those elsewhere would look for their agent in the wrong place. */
    private static final String HYDRA_ENVIRONMENT = "HYDRA_ENV";
    /** Where PMIx keeps what it tells ranks: by itself in files below /tmp that they map, which another host does not have. */
    private static final String PMIX_STORE = "PMIX_MCA_gds";
    /** Where ranks of Open MPI 4 map a file below /tmp that says what processors there are. With none they look for themselves. */
    private static final String OPEN_MPI_HOLE = "OMPI_MCA_rtc_hwloc_vmhole";

    private Launchers() {
    }

    /**
     * Adds that.
     *
     * @param environment that of the program to be launched
     * @param remoteShell the program that is called as ssh is
     */
    static void prepare(final Map<String, String> environment, final String remoteShell) {
        for (int i = 0; i < VARIABLES.size(); i++) {
            final List<String> names = VARIABLES.get(i);
            if (names.stream().noneMatch(environment::containsKey)) {
                environment.put(names.get(0), WAYS.get(i));
                environment.put(names.get(1), remoteShell);
            }
        }
        // Its proxies have all that they need from the remote shell, and hand it on.
        environment.putIfAbsent(HYDRA_ENVIRONMENT, "none");
        environment.putIfAbsent(PMIX_STORE, "hash");
        environment.putIfAbsent(OPEN_MPI_HOLE, "none");
    }
}
