// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/** Debian's ibv_devices and ibv_devinfo show under the preload what they show without it. */
final class DeviceInfoSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    @Test
    void theDeviceLooksAsItIs() throws Exception {
        try (Job job = Distribution.start()) {
            final Running bare = job.runNative("devinfo", "ibv_devinfo", "-v");
            bare.succeed(ENDING);
            final Running under = job.launch("devinfo-launched", "ibv_devinfo", "-v");
            under.succeed(ENDING);
            assertEquals(withoutIds(bare.output()), withoutIds(under.output()));
            final Running devices = job.launch("devices", "ibv_devices");
            devices.succeed(ENDING);
            assertTrue(devices.output().contains("shadow0"), devices.output() + devices.errors());
        }
    }

    /** What ibv_devices has from ibv_get_device_guid(3), and ibv_devinfo from ibv_query_device(3). */
    @Test
    void theGuidOfIb2tcpIsOne() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Running devices = job.launch("devices", "ibv_devices");
            devices.succeed(ENDING);
            final Running info = job.launch("devinfo", "ibv_devinfo");
            info.succeed(ENDING);
            final Matcher guid = Pattern.compile("tcp0\\s+([0-9a-f]{16})\\s").matcher(devices.output());
            assertTrue(guid.find(), devices.output() + devices.errors());
            final String inFours = String.join(":", guid.group(1).split("(?<=\\G.{4})"));
            assertTrue(info.output().matches("(?s).*\\snode_guid:\\s+" + inFours + "\\s.*"), guid.group() + info.output());
            assertTrue(info.output().matches("(?s).*\\ssys_image_guid:\\s+" + inFours + "\\s.*"), guid.group() + info.output());
        }
    }

    /**
     * Lids and GUIDs differ at each open; a send request is the drain's, and some entries of a completion queue; QPs cannot
     * be made larger.
     */
    private static String withoutIds(final String output) {
        return output.replaceAll("(guid|port_lid|GID\\[ *[0-9]+\\]|max_qp_wr|max_cqe):.*", "$1")
                .replaceAll("(device_cap_flags(_ex)?):.*", "$1");
    }
}
