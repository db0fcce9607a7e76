// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ProcessImage;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.process.TreeImage;

/**
 * What of a checkpoint can be restored by itself, on a host of its own: each launched program, but programs with a TCP
 * connection between them only together. Those that had come to one host from several can be divided again.
 */
public final class Portions {
    private Portions() {
    }

    /** The parts of all hosts, divided as far as they can be; in the manifest's order. */
    public static List<Manifest.HostPart> of(final Manifest manifest) {
        final List<Manifest.HostPart> portions = new ArrayList<>();
        for (final Manifest.HostPart part : manifest.hosts()) {
            final List<Set<TreeImage>> groups = connected(part.images().trees());
            if (groups.size() < 2) {
                portions.add(part);
            } else {
                groups.forEach(group -> portions.add(only(part, group)));
            }
        }
        return portions;
    }

    /** The checkpoint as if it had these portions alone; those of one source host come in one part again. */
    public static Manifest only(final Manifest manifest, final Collection<Manifest.HostPart> chosen) {
        final List<Manifest.HostPart> hosts = new ArrayList<>();
        for (final Manifest.HostPart part : manifest.hosts()) {
            final Set<TreeImage> trees = new HashSet<>();
            chosen.stream().filter(c -> c.directory().equals(part.directory()))
                    .forEach(c -> trees.addAll(c.images().trees()));
            if (!trees.isEmpty()) {
                hosts.add(only(part, trees));
            }
        }
        final Set<Integer> numbers = new HashSet<>();
        hosts.forEach(h -> h.ranks().forEach(r -> numbers.add(r.number())));
        return new Manifest(manifest.schema(), manifest.job(), manifest.epoch(), manifest.parent(),
                manifest.backend(), manifest.created(), manifest.killed(),
                manifest.millis(), manifest.phaseMillis(), hosts.stream().mapToInt(h -> h.ranks().size()).sum(),
                hosts.stream().mapToLong(h -> h.images().bytes()).sum(), hosts,
                manifest.needs().stream().filter(n -> numbers.contains(n.rank())).toList(), manifest.history(),
                manifest.checksum());
    }

    private static Manifest.HostPart only(final Manifest.HostPart part, final Set<TreeImage> trees) {
        final Set<String> roots = new HashSet<>();
        trees.forEach(t -> t.processes().stream().map(ProcessImage::root).forEach(roots::add));
        final HostImages all = part.images();
        final List<TreeImage> inOrder = all.trees().stream().filter(trees::contains).toList();
        return new Manifest.HostPart(part.host(), part.directory(),
                part.ranks().stream().filter(r -> roots.contains(r.root())).toList(),
                part.trees().stream().filter(t -> roots.contains(t.root())).toList(),
                new HostImages(all.implementation(), all.host(), all.kernel(), all.cpuModel(), all.cpuFlags(), inOrder,
                        inOrder.stream().mapToLong(TreeImage::bytes).sum(),
                        all.freezeNanos(), all.saveNanos(), all.commands()), part.origins());
    }

    private static List<Set<TreeImage>> connected(final List<TreeImage> trees) {
        final List<Set<TreeImage>> groups = new ArrayList<>();
        for (final TreeImage tree : trees) {
            final Set<TreeImage> group = new HashSet<>(Set.of(tree));
            for (final Set<TreeImage> other : List.copyOf(groups)) {
                if (other.stream().anyMatch(o -> areConnected(tree, o))) {
                    group.addAll(other);
                    groups.remove(other);
                }
            }
            groups.add(group);
        }
        return groups;
    }

    private static boolean areConnected(final TreeImage one, final TreeImage other) {
        return one.connections().stream().map(TcpConnection::mirrored)
                .anyMatch(c -> (one.memory() == other.memory() || isLoopback(c)) && other.connections().contains(c));
    }

    private static boolean isLoopback(final TcpConnection connection) {
        try {
            return InetAddress.getByName(connection.localAddress()).isLoopbackAddress();
        } catch (final UnknownHostException e) {
            throw new IllegalArgumentException("not a numeric address: " + connection.localAddress(), e);
        }
    }
}
