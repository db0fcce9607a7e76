// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class LaunchersTest {
    @Test
    void allLaunchersAreToldOfTheRemoteShell() {
        final Map<String, String> environment = new TreeMap<>();
        Launchers.prepare(environment, "/x/rsh");
        assertEquals(Map.of("OMPI_MCA_plm", "rsh", "OMPI_MCA_plm_rsh_agent", "/x/rsh", "PRTE_MCA_plm", "ssh", "PRTE_MCA_plm_ssh_agent",
                "/x/rsh", "HYDRA_LAUNCHER", "ssh", "HYDRA_LAUNCHER_EXEC", "/x/rsh", "HYDRA_ENV", "none",
                "PMIX_MCA_gds", "hash", "OMPI_MCA_rtc_hwloc_vmhole", "none"), environment);
    }

    @Test
    void whatTheUserHasSaidOfALauncherStays() {
        final Map<String, String> environment = new TreeMap<>(Map.of("OMPI_MCA_orte_rsh_agent", "mine", "HYDRA_LAUNCHER", "slurm",
                "HYDRA_ENV", "all", "PMIX_MCA_gds", "ds21", "OMPI_MCA_rtc_hwloc_vmhole", "biggest"));
        Launchers.prepare(environment, "/x/rsh");
        assertEquals(Map.of("OMPI_MCA_orte_rsh_agent", "mine", "PRTE_MCA_plm", "ssh", "PRTE_MCA_plm_ssh_agent", "/x/rsh", "HYDRA_LAUNCHER",
                "slurm", "HYDRA_ENV", "all", "PMIX_MCA_gds", "ds21", "OMPI_MCA_rtc_hwloc_vmhole", "biggest"), environment);
    }
}
