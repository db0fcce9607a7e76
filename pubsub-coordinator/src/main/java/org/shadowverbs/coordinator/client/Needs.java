// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What a rank has made use of on a device that it has open: a device that it is to go on with must have as much. It is published
 * with a checkpoint and stands in the manifest, so that a restart is refused before anything is restored.
 *
 * @param rank its number
 * @param device by its name
 * @param infiniband whether the link layer that the program sees is InfiniBand
 * @param limits the largest values, by the names of struct ibv_device_attr, ibv_port_attr, and ibv_qp_cap
 * @param had of these names what the device had, as far as it says; none in checkpoints of versions that did not say
 */
public record Needs(int rank, String device, boolean infiniband, Map<String, Long> limits, Map<String, Long> had) {
    private static final String INFINIBAND = "InfiniBand";
    private static final String ETHERNET = "Ethernet";
    private static final Set<String> ROUNDED = Set.of("max_qp_wr", "max_sge", "max_cqe", "max_srq_wr", "max_srq_sge");

    public Needs {
        had = had == null ? Map.of() : had;
    }

    /** Of what is published. */
    public static String key(final int rank) {
        return "needs/" + rank;
    }

    /** Those of one rank: for each device a line, "DEVICE LINK NAME=VALUE...", or "NAME=VALUE/HAD". */
    public static byte[] encode(final List<Needs> all) {
        final StringBuilder text = new StringBuilder();
        for (final Needs needs : all) {
            text.append(needs.device).append(' ').append(needs.infiniband ? INFINIBAND : ETHERNET);
            new TreeMap<>(needs.limits).forEach((name, value) -> text.append(' ').append(name).append('=').append(value)
                    .append(needs.had.containsKey(name) ? "/" + needs.had.get(name) : ""));
            text.append('\n');
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    /** @throws IllegalArgumentException it is none of {@link #encode}'s */
    public static List<Needs> decode(final int rank, final byte[] bytes) {
        final List<Needs> all = new ArrayList<>();
        for (final String line : new String(bytes, StandardCharsets.UTF_8).lines().toList()) {
            final String[] words = line.split(" ");
            if (words.length < 2 || !words[1].equals(INFINIBAND) && !words[1].equals(ETHERNET)) {
                throw new IllegalArgumentException("rank " + rank + " needs what nobody understands: " + line);
            }
            final Map<String, Long> limits = new TreeMap<>();
            final Map<String, Long> had = new TreeMap<>();
            for (int i = 2; i < words.length; i++) {
                final int equals = words[i].indexOf('=');
                final String name = words[i].substring(0, Math.max(0, equals));
                final String[] values = words[i].substring(equals + 1).split("/", 2);
                limits.put(name, Long.parseLong(values[0]));
                if (values.length > 1) {
                    had.put(name, Long.parseLong(values[1]));
                }
            }
            all.add(new Needs(rank, words[0], words[1].equals(INFINIBAND), limits, had));
        }
        return all;
    }

    /**
     * The first limit that is not enough, with both values, or an empty string.
     *
     * @param has of a device that it is to go on with; what is not in it is not known
     * @param of its name
     * @param rounds its driver may give larger queues than it was asked for, and than it says that there are: what was given by a
     *     device that says no more is no reason to refuse
     */
    public String beyond(final Map<String, Long> has, final String of, final boolean rounds) {
        for (final Map.Entry<String, Long> need : new TreeMap<>(limits).entrySet()) {
            final Long limit = has.get(need.getKey());
            final Long before = had.get(need.getKey());
            if (limit != null && need.getValue() > limit && !(rounds && ROUNDED.contains(need.getKey())
                    && (before == null || limit >= before))) {
                return need.getKey() + " " + need.getValue() + " was used on device " + device + ", and " + of + " has " + limit;
            }
        }
        return "";
    }
}
