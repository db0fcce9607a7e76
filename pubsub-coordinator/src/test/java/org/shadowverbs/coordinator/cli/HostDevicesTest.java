// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.client.Needs;

final class HostDevicesTest {
    private static final Needs NEEDS = new Needs(0, "mlx5_0", true, Map.of("max_qp_rd_atom", 16L), Map.of("max_qp_rd_atom", 16L));
    private static final Map<String, Long> ENOUGH = Map.of("max_qp_rd_atom", 16L);
    private static final Map<String, Long> FEW = Map.of("max_qp_rd_atom", 8L);

    @Test
    void theDeviceOfTheSameNameCounts() {
        assertEquals("max_qp_rd_atom 16 was used on device mlx5_0, and mlx5_0 has 8",
                HostDevices.beyond(NEEDS, Map.of("mlx5_0", FEW, "mlx5_1", ENOUGH)));
        assertEquals("", HostDevices.beyond(NEEDS, Map.of("mlx5_0", ENOUGH, "mlx5_1", FEW)));
    }

    @Test
    void withoutItAnyOtherMayDo() {
        assertEquals("", HostDevices.beyond(NEEDS, Map.of("mlx4_0", FEW, "mlx5_1", ENOUGH)));
        assertEquals("max_qp_rd_atom 16 was used on device mlx5_0, and mlx4_0 has 8",
                HostDevices.beyond(NEEDS, Map.of("mlx4_0", FEW)));
    }
}
