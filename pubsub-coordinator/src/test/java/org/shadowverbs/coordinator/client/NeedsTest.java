// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class NeedsTest {
    private static final Needs MLX5 = new Needs(3, "mlx5_0", true, Map.of("max_sge", 30L, "max_cqe", 4_194_303L),
            Map.of("max_sge", 28L));

    @Test
    void theySurviveTheWire() {
        final List<Needs> all = List.of(MLX5, new Needs(3, "rxe0", false, Map.of(), Map.of()));
        assertEquals(all, Needs.decode(3, Needs.encode(all)));
        assertEquals(List.of(), Needs.decode(3, Needs.encode(List.of())));
        for (final String bad : List.of("mlx5_0", "mlx5_0 Token-Ring", "mlx5_0 Ethernet max_sge", "mlx5_0 Ethernet max_sge=x")) {
            assertThrows(IllegalArgumentException.class, () -> Needs.decode(3, bad.getBytes(StandardCharsets.UTF_8)), bad);
        }
    }

    @Test
    void theLimitIsNamedWithBothValues() {
        assertEquals("", MLX5.beyond(Map.of("max_sge", 30L), "tcp0", false));
        assertEquals("max_sge 30 was used on device mlx5_0, and tcp0 has 16",
                MLX5.beyond(Map.of("max_sge", 16L, "max_cqe", 4_194_303L), "tcp0", false));
    }

    /** mlx5 gives 30 where it says 28: of a device that says as much, so much can be had again. */
    @Test
    void whatADriverHasRoundedUpIsNoReasonToRefuse() {
        assertEquals("", MLX5.beyond(Map.of("max_sge", 28L), "mlx5_1", true));
        assertEquals("max_sge 30 was used on device mlx5_0, and mlx4_0 has 27", MLX5.beyond(Map.of("max_sge", 27L), "mlx4_0", true));
        assertEquals("", MLX5.beyond(Map.of("max_cqe", 1L), "mlx4_0", true), "an older checkpoint does not say what there was");
        final Needs reads = new Needs(3, "mlx5_0", true, Map.of("max_qp_rd_atom", 16L), Map.of());
        assertEquals("max_qp_rd_atom 16 was used on device mlx5_0, and mlx4_0 has 8",
                reads.beyond(Map.of("max_qp_rd_atom", 8L), "mlx4_0", true));
    }
}
