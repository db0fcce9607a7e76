// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.coordinator.client.HcaLimits;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.MappedFile;
import org.shadowverbs.coordinator.system.NativeFunction;

/** What the devices of this host have, as the verbs library says that a job's processes have loaded. */
final class HostDevices {
    private static final ValueLayout.OfLong POINTER = ValueLayout.JAVA_LONG;

    private HostDevices() {
    }

    /** The first need that no device of this host meets, or an empty string. Where no device can be asked, the ranks find out. */
    static String problem(final Manifest manifest) {
        final Path library = library(manifest);
        final Map<String, Map<String, Long>> devices = library == null ? Map.of() : limits(library);
        for (final Needs needs : manifest.needs()) {
            final String beyond = devices.isEmpty() ? "" : beyond(needs, devices);
            if (!beyond.isEmpty()) {
                return "rank " + needs.rank() + ": " + beyond;
            }
        }
        return "";
    }

    /** A device of the same name is the one that a rank takes; else it may be any. */
    static String beyond(final Needs needs, final Map<String, Map<String, Long>> devices) {
        String first = "";
        for (final Map.Entry<String, Map<String, Long>> device : devices.entrySet()) {
            if (devices.containsKey(needs.device()) && !device.getKey().equals(needs.device())) {
                continue;
            }
            final String beyond = needs.beyond(device.getValue(), device.getKey(), true);
            if (beyond.isEmpty()) {
                return "";
            }
            first = first.isEmpty() ? beyond : first;
        }
        return first;
    }

    private static Path library(final Manifest manifest) {
        return manifest.hosts().stream().flatMap(host -> host.images().trees().stream())
                .flatMap(tree -> tree.mapped().stream()).map(MappedFile::path).map(Path::of)
                .filter(path -> path.getFileName().toString().startsWith("libibverbs.so.")).findFirst().orElse(null);
    }

    @SuppressWarnings("restricted")
    private static Map<String, Map<String, Long>> limits(final Path library) {
        final Map<String, Map<String, Long>> limits = new LinkedHashMap<>();
        try (Arena arena = Arena.ofConfined()) {
            final Functions verbs = new Functions(SymbolLookup.libraryLookup(library, Arena.global()));
            final MemorySegment count = arena.allocate(ValueLayout.JAVA_INT);
            final long list = verbs.call("ibv_get_device_list", count.address());
            for (int i = 0; list != 0 && i < count.get(ValueLayout.JAVA_INT, 0); i++) {
                final long device = MemorySegment.ofAddress(list).reinterpret((i + 1) * 8L).getAtIndex(POINTER, i);
                final long context = verbs.call("ibv_open_device", device);
                if (context != 0) {
                    final MemorySegment attr = ibv_device_attr.allocate(arena);
                    if ((int) verbs.call("ibv_query_device", context, attr.address()) == 0) {
                        limits.put(MemorySegment.ofAddress(verbs.call("ibv_get_device_name", device))
                                .reinterpret(Long.MAX_VALUE).getString(0), HcaLimits.of(attr));
                    }
                    verbs.call("ibv_close_device", context);
                }
            }
            if (list != 0) {
                verbs.call("ibv_free_device_list", list);
            }
        } catch (IllegalArgumentException e) {
            return Map.of(); // the library is not there, which the check of the images says
        }
        return limits;
    }

    /** Of libibverbs; all have pointers as arguments. */
    private record Functions(SymbolLookup library) {
        long call(final String name, final long... arguments) {
            return new NativeFunction(library.find(name).orElseThrow(
                    () -> new IllegalArgumentException("the verbs library has no " + name))).callLong(arguments);
        }
    }
}
