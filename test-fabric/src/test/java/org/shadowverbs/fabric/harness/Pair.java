// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/** A program that runs as a server and a client, which meet at a TCP port of this host. */
public record Pair(Running server, Running client) {
    /**
     * Launches both, the client when the server listens.
     *
     * @param name begins their names
     * @param command with its options, but for {@code -p PORT}, and the server's address, which the client is given
     */
    public static Pair launch(final Job job, final String name, final String... command)
            throws IOException, InterruptedException {
        final int port = LocalPort.free();
        final List<String> words = new ArrayList<>(List.of(command));
        words.addAll(List.of("-p", Integer.toString(port)));
        final Running server = job.launch(name + "-server", words.toArray(new String[0]));
        job.await("the server to listen", LocalPort.listens(port), server);
        words.add("127.0.0.1");
        return new Pair(server, job.launch(name + "-client", words.toArray(new String[0])));
    }

    public List<Running> both() {
        return List.of(server, client);
    }

    /** The programs of all, the server before the client. */
    public static Running[] programs(final Collection<Pair> pairs) {
        return pairs.stream().flatMap(pair -> pair.both().stream()).toArray(Running[]::new);
    }
}
