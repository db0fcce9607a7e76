// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class HostEnvironmentTest {
    private static final List<String> LAUNCHED = List.of("SHADOWVERBS_AGENT=/run/agent.sock", "SHADOWVERBS_TREE=7", "LD_PRELOAD=/a/libshadowverbs.so:/b/libjsig.so:/x.so",
            "SHADOWVERBS_SECRET=old", "SLURM_JOB_ID=12", "UCX_TLS=rc,self", "EMPTY=", "EQUALS=a=b", "no variable");

    @Test
    void whatALaunchHasAddedIsTakenAway() {
        assertEquals(Map.of("LD_PRELOAD", "/x.so", "SHADOWVERBS_SECRET", "new", "SLURM_JOB_ID", "12", "UCX_TLS", "rc,self", "EMPTY", "", "EQUALS", "a=b"),
                HostEnvironment.beforeLaunch(LAUNCHED, "new"));
    }

    @Test
    void whoPreloadsNothingHasNoSuchVariable() {
        assertEquals(Map.of(), HostEnvironment.beforeLaunch(List.of("LD_PRELOAD=/a/libshadowverbs.so:/b/libjsig.so"), ""));
    }

    @Test
    void whatBelongsToAHostStaysThere() {
        final Map<String, String> here = HostEnvironment.here(List.of("HOSTNAME=there", "PMIX_RANK=3", "PMIX_MCA_gds=hash", "PATH=/there",
                "SLURM_NODEID=1"), "");
        assertEquals("/there", here.get("PATH"));
        assertEquals("hash", here.get("PMIX_MCA_gds"));
        assertEquals(System.getenv("HOSTNAME"), here.get("HOSTNAME"));
        assertFalse(here.containsKey("PMIX_RANK") || here.containsKey("SLURM_NODEID"), here.toString());
    }
}
