// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.ids.IdMasks;

/**
 * The shadow driver of one process. The preload library calls {@link #main} on a thread of its own in the JVM that it
 * has made; when that returns, the service threads take requests.
 *
 * <p>On the way to the first request every class and every method handle shape counts: no lambdas, streams, formats.
 */
public final class Rank {
    private Rank() {
    }

    /** @param args none; {@code --train} walks the boot path without a preload library, for the AOT cache */
    public static void main(final String[] args) {
        if (args.length > 0 && args[0].equals("--train")) {
            Training.run();
            return;
        }
        boot();
    }

    private static void boot() {
        final Native library;
        try {
            library = new NativeLibrary();
            if (library.abiVersion() != shadowverbs_h.SV_ABI_VERSION()) {
                library.say("the driver and libshadowverbs.so are of different versions ("
                        + shadowverbs_h.SV_ABI_VERSION() + ", " + library.abiVersion() + ")");
                library.driverReady(VerbsErrno.EIO);
                return;
            }
        } catch (Throwable t) {
            // Without the library there is nobody to tell; the first verb will report that no driver came up.
            System.err.println("shadowverbs: the driver cannot start: " + Trouble.describe(t));
            return;
        }
        try {
            final IdMasks masks = "scrambled".equals(System.getenv("SHADOWVERBS_IDS")) ? IdMasks.SCRAMBLED
                    : IdMasks.IDENTITY;
            library.setMasks(masks.qpNum(), masks.key(), masks.lid(), masks.gid());
            final Model model = new Model(masks);
            final Backend backend = new ChosenBackend(library, System.getenv("SHADOWVERBS_BACKEND"));
            final KeyMaps keyMaps = new KeyMaps(library);
            final CheckpointThread checkpoints = new CheckpointThread(library, backend, model, keyMaps);
            final Verbs verbs = new Verbs(library, backend, model, keyMaps, checkpoints);
            checkpoints.start(verbs.queuePairs());
            ServiceThread.startPool(library, verbs);
            library.driverReady(0);
        } catch (Throwable t) {
            library.say("the driver cannot start: " + Trouble.describe(t));
            library.driverReady(VerbsErrno.EIO);
        }
    }
}
