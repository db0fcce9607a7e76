// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.lang.reflect.InvocationTargetException;
import java.util.List;

/** demo and bench: they live with the test fabric, which is no part of a bare installation. */
final class FabricCommand extends CliCommand {
    private final String className;

    private FabricCommand(final String className, final String... description) {
        super(description);
        this.className = className;
        json();
    }

    static FabricCommand demo() {
        return new FabricCommand("org.shadowverbs.fabric.Demo", "shows checkpoint, kill and restart on the software HCA",
                "Verbs programs are saved, killed and brought back there, and from there over TCP.");
    }

    static FabricCommand bench() {
        final FabricCommand bench = new FabricCommand("org.shadowverbs.fabric.bench.Bench",
                "measures what the preload adds to each operation");
        bench.flag("--ib2tcp", "measure verbs over TCP beside plain sockets (iperf3 for throughput) and UCX over TCP");
        bench.flag("--checkpoint", "measure checkpoints of 16 MiB to 4 GiB in several ways, beside CRIU alone");
        bench.flag("--job", "measure how a coordinator bears many ranks, with simulated hosts");
        bench.text(List.of("--ranks"), "N,...", null, "of --job: how many ranks (64,2048,16384)");
        bench.text(List.of("--store"), "URI", null, "of --job: where the coordinator keeps what the job must not lose with its host");
        return bench;
    }

    /** Hands over its arguments as they were given. */
    @Override
    public Integer call() throws CommandException {
        try {
            Class.forName(className).getMethod("main", String[].class).invoke(null,
                    (Object) arguments().toArray(new String[0]));
            return 0;
        } catch (ClassNotFoundException e) {
            throw new CommandException(name() + " needs the test fabric, which this installation does not have (class "
                    + className + ")");
        } catch (InvocationTargetException e) {
            throw new CommandException(name() + ": " + e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new CommandException(name() + ": " + e);
        }
    }
}
