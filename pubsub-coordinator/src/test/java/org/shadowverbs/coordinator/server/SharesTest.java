// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.RestartMessages.Portion;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartJoin;

class SharesTest {
    /** @param sources the source host of each portion; with a "-" behind it, this host does not have its images */
    private static RestartJoin host(final String name, final List<String> from, final String... sources) {
        return new RestartJoin(FrameType.VERSION, "", name, 1, 2, "ckpt-j-1", "sum", Arrays.stream(sources)
                .map(s -> new Portion(s.replace("-", ""), List.of(), !s.endsWith("-"))).toList(), from, List.of());
    }

    private static List<List<Integer>> deal(final RestartJoin... hosts) throws Stopped {
        return Shares.deal(List.of(hosts));
    }

    private static String refusal(final RestartJoin... hosts) {
        return assertThrows(Stopped.class, () -> deal(hosts)).getMessage();
    }

    @Test
    void eachGetsWhatRanThere() throws Exception {
        assertEquals(List.of(List.of(1), List.of(0)), deal(host("b", List.of(), "a", "b"),
                host("a", List.of(), "a", "b")));
    }

    @Test
    void aHostThatIsNewGetsWhatIsLeft() throws Exception {
        assertEquals(List.of(List.of(1), List.of(0)), deal(host("b", List.of(), "a", "b"),
                host("c", List.of(), "a", "b")));
    }

    @Test
    void whatWasAskedForComesFirst() throws Exception {
        assertEquals(List.of(List.of(1), List.of(0)), deal(host("a", List.of("b"), "a", "b"),
                host("b", List.of("a"), "a", "b")));
        assertEquals(List.of(List.of(1), List.of(0)), deal(host("a", List.of("b"), "a", "b"),
                host("c", List.of(), "a", "b")));
    }

    @Test
    void programsOfOneHostStayTogetherWhileThereAreEnoughSourceHosts() throws Exception {
        assertEquals(List.of(List.of(0, 1), List.of(2)), deal(host("a", List.of(), "a", "a", "b"),
                host("x", List.of(), "a", "a", "b")));
        assertEquals(List.of(List.of(0), List.of(1)), deal(host("x", List.of(), "a", "a"),
                host("y", List.of(), "a", "a")));
    }

    @Test
    void imagesAreRestoredWhereTheyAre() throws Exception {
        assertEquals(List.of(List.of(1), List.of(0)), deal(host("x", List.of(), "a-", "b"),
                host("y", List.of(), "a", "b-")));
        assertEquals("the images of host a are on none of the hosts x, y", refusal(host("x", List.of(), "a-", "b"),
                host("y", List.of(), "a-", "b")));
    }

    @Test
    void whatCannotBeIsRefusedByName() {
        assertEquals("2 hosts are to share what can be divided among 1 at most: programs that are connected, or that one"
                + " launch started, stay together", refusal(host("x", List.of(), "a"), host("y", List.of(), "a")));
        assertEquals("host x is to take over what ran on host z, which has no part in this checkpoint; those that have:"
                + " a, b", refusal(host("x", List.of("z"), "a", "b"), host("y", List.of(), "a", "b")));
        assertEquals("nothing is left for host y: name fewer hosts, or what each is to take over (--from)",
                refusal(host("x", List.of("a", "b"), "a", "b"), host("y", List.of(), "a", "b")));
        assertEquals("nobody takes over what ran on host b and has its images, of the hosts x, y",
                refusal(host("x", List.of("a"), "a", "a", "b"), host("y", List.of("a"), "a", "a", "b")));
    }

    /** Whoever comes from wherever: each portion goes to exactly one host, and no host is left without. */
    @Property
    void everyPortionGoesToOneHost(@ForAll @Size(min = 1, max = 12) final List<@IntRange(max = 5) Integer> sources,
            @ForAll @IntRange(min = 1, max = 6) final int hosts) throws Exception {
        final String[] names = sources.stream().sorted().map(s -> "h" + s).toArray(String[]::new);
        final List<RestartJoin> joined = IntStream.range(0, Math.min(hosts, names.length))
                .mapToObj(i -> host("h" + 2 * i, List.of(), names)).toList();
        final List<Integer> dealt = new ArrayList<>();
        for (final List<Integer> share : Shares.deal(joined)) {
            assertTrue(!share.isEmpty());
            dealt.addAll(share);
        }
        assertEquals(IntStream.range(0, names.length).boxed().toList(), dealt.stream().sorted().toList());
    }
}
