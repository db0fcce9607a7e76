// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.nio.file.Path;
import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.client.JobBackend;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.checkpoint.CheckpointThread;
import org.shadowverbs.driver.model.KeyMaps;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.NativeLibrary;
import org.shadowverbs.driver.nativelib.UnexpectedException;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.verbs.ServiceThread;
import org.shadowverbs.driver.verbs.Verbs;
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

    /** @param args none; {@code --train} and a FIFO: walks what a rank does, without a program, for the AOT cache */
    public static void main(final String[] args) {
        if (args.length > 1 && args[0].equals("--train")) {
            Training.run(Path.of(args[1]));
            return;
        }
        boot();
    }

    /** The backend is the job's: the one that a restart has chosen counts for more than what the launch had said. */
    private static void followJob(final Native library, final ChosenBackend backend) {
        try {
            final Path agent = AgentPlace.ofThisProcess();
            final JobBackend jobs = agent == null ? null : JobBackend.read(agent);
            if (jobs != null) {
                backend.restored(jobs.secret(), jobs.address());
                if (!jobs.name().equals(Verdict.SAME_BACKEND)) {
                    backend.choose(jobs.name());
                }
            }
        } catch (IOException | VerbsException e) {
            library.say("the backend of the job is not known: " + e.getMessage() + "; " + backend.now().name()
                    + " is used");
        }
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
            System.err.println("shadowverbs: the driver cannot start: " + UnexpectedException.describe(t));
            return;
        }
        try {
            final IdMasks masks = "scrambled".equals(System.getenv("SHADOWVERBS_IDS")) ? IdMasks.SCRAMBLED
                    : IdMasks.IDENTITY;
            library.setMasks(masks.qpNum(), masks.key(), masks.lid(), masks.gid());
            final Model model = new Model(masks);
            final ChosenBackend backend = new ChosenBackend(library, System.getenv("SHADOWVERBS_BACKEND"));
            followJob(library, backend);
            final KeyMaps keyMaps = new KeyMaps(library);
            final CheckpointThread checkpoints = new CheckpointThread(library, backend, model, keyMaps);
            final Verbs verbs = new Verbs(library, backend, model, keyMaps, checkpoints);
            checkpoints.start(verbs.queuePairs());
            ServiceThread.startPool(library, verbs);
            library.driverReady(0);
        } catch (Throwable t) {
            library.say("the driver cannot start: " + UnexpectedException.describe(t));
            library.driverReady(VerbsErrno.EIO);
        }
    }
}
