// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ImageFile;
import org.shadowverbs.coordinator.process.ProcessImage;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.process.TreeImage;

class PortionsTest {
    private static final TcpConnection ONE_END = new TcpConnection("127.0.0.1", 1000, "127.0.0.1", 2000);
    private static final TcpConnection OTHER_END = new TcpConnection("127.0.0.1", 2000, "127.0.0.1", 1000);

    private static TreeImage tree(final int rank, final TcpConnection... connections) {
        return tree(rank, 0, connections);
    }

    private static TreeImage tree(final int rank, final long memory, final TcpConnection... connections) {
        return new TreeImage("rank " + rank, "tree-" + rank, List.of(new ProcessImage("rank " + rank, 100 + rank, 0,
                "app", 1, List.of())), List.of(new ImageFile("pages.img", 10 + rank, "sum")), List.of(), List.of(), List.of(),
                false, List.of(connections), List.of(), List.of(), List.of(), memory, 1, List.of(), null);
    }

    /** One rank in each tree, numbered as the trees are. */
    private static Manifest.HostPart part(final String host, final int first, final TreeImage... trees) {
        final List<Manifest.RankPart> ranks = new ArrayList<>();
        final List<Manifest.TreePart> programs = new ArrayList<>();
        for (int i = 0; i < trees.length; i++) {
            final int rank = first + i;
            ranks.add(new Manifest.RankPart(rank, "uid-" + rank, 100 + rank, "rank " + rank, "app", 100 + rank, rank));
            programs.add(new Manifest.TreePart(100 + rank, "rank " + rank, List.of("app"), "/", null, null));
        }
        return new Manifest.HostPart(host, "host-" + host, ranks, programs, new HostImages("fake", host, "0", "cpu",
                List.of(), List.of(trees), 1000, 1, 1), List.of());
    }

    private static Manifest manifest(final Manifest.HostPart... hosts) {
        return new Manifest(Manifest.SCHEMA, "job", 3, 2L, "same", "now", false, 1, Map.of(), 4, 4000, List.of(hosts), List.of(),
                new Manifest.History(5, 6), "sum");
    }

    private static List<List<Integer>> ranks(final List<Manifest.HostPart> portions) {
        return portions.stream().map(p -> p.ranks().stream().map(Manifest.RankPart::number).toList()).toList();
    }

    @Test
    void programsThatAreConnectedStayTogether() {
        final Manifest m = manifest(part("a", 0, tree(0, ONE_END), tree(1), tree(2, OTHER_END)), part("b", 3, tree(3)));
        assertEquals(List.of(List.of(1), List.of(0, 2), List.of(3)), ranks(Portions.of(m)));
    }

    @Test
    void connectedProgramsThatCameFromSeveralHostsCanBeDivided() {
        final TcpConnection end = new TcpConnection("10.0.0.1", 1000, "10.0.0.1", 2000);
        final Manifest m = manifest(part("a", 0, tree(0, 7, end), tree(1, 8, end.mirrored()), tree(2, 8, end.mirrored())),
                part("b", 3, tree(3, 7, ONE_END), tree(4, 8, OTHER_END)));
        assertEquals(List.of(List.of(0), List.of(1), List.of(2), List.of(3, 4)), ranks(Portions.of(m)));
        assertEquals(List.of(List.of("tree-0"), List.of("tree-1", "tree-2")), m.hosts().getFirst().images().together().stream()
                .map(images -> images.trees().stream().map(TreeImage::directory).toList()).toList());
    }

    @Test
    void aShareHasItsRanksProgramsAndBytesAlone() {
        final Manifest m = manifest(part("a", 0, tree(0), tree(1), tree(2)), part("b", 3, tree(3)));
        final List<Manifest.HostPart> portions = Portions.of(m);
        final Manifest share = Portions.only(m, List.of(portions.get(2), portions.get(0)));
        assertEquals(List.of(List.of(0, 2)), ranks(share.hosts()));
        assertEquals(List.of("tree-0", "tree-2"),
                share.hosts().getFirst().images().trees().stream().map(TreeImage::directory).toList());
        assertEquals(List.of(100L, 102L),
                share.hosts().getFirst().trees().stream().map(Manifest.TreePart::pid).toList());
        assertEquals(2, share.ranks());
        assertEquals(10 + 12, share.bytes());
        assertEquals(m.epoch(), share.epoch());
        assertEquals(m.job(), share.job());
    }
}
