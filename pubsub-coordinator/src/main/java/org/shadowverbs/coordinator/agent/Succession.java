// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.store.CoordinatorSearch;
import org.shadowverbs.coordinator.store.StoreException;
import org.shadowverbs.coordinator.store.StorePlace;
import org.shadowverbs.coordinator.store.Whereabouts;

/**
 * Finds the job's coordinator in the job's store when it is not where it was, and starts one on this host when there is none. Which
 * of several that are started at once becomes it the store decides. Knows nothing before a coordinator has said where the store is,
 * to this agent or the one before it in this run directory. For the thread of the connection.
 */
final class Succession implements AutoCloseable {
    /** A coordinator has answered in whose place another is. */
    static final class Superseded extends IOException {
        private static final long serialVersionUID = 1L;

        Superseded(final String message) {
            super(message);
        }
    }

    private static final String FILE = "store";
    private static final long START_NANOS = TimeUnit.SECONDS.toNanos(15);
    /** Not all hosts start one at the same moment, and a spare one does when nobody else has. */
    private static final int LONGEST_PAUSE_MILLIS = 400;
    private static final int SPARE_MILLIS = 1_000;

    private final AgentOptions options;
    private final EventLog log;
    private StorePlace place;
    private String key = "";
    /** The highest of the coordinators' that this host has had. */
    private long number;
    private CoordinatorSearch search;
    /** The address that this host has for the others; null: none is known. */
    private String own;
    /** Since when nobody is the job's coordinator, by System.nanoTime; 0: somebody is. */
    private long vacantSince;
    private long pause;
    private Process started;
    private long startedAt;
    private String said = "";

    Succession(final AgentOptions options, final EventLog log) throws IOException {
        this.options = options;
        this.log = log;
        try {
            final String[] lines = Files.readString(file()).split("\n", 2);
            key = lines[0];
            place = StorePlace.ofText(lines[1]);
        } catch (NoSuchFileException e) {
            return; // most jobs have none
        }
    }

    private Path file() {
        return options.runDirectory().resolve(FILE);
    }

    /** Whether there is a store to look in. */
    boolean isKnown() {
        return place != null;
    }

    /**
     * A coordinator has answered.
     *
     * @param local the address of this host's end of the connection
     * @throws Superseded when it is one in whose place another is
     */
    void welcomed(final AgentWelcome m, final InetSocketAddress local) throws IOException {
        if (m.number() < number && m.key().equals(key)) {
            throw new Superseded("this is coordinator " + m.number() + " of the job, and there has been number " + number);
        }
        number = m.number();
        if (local != null && !local.getAddress().isLoopbackAddress()) {
            own = local.getAddress().getHostAddress().replaceFirst("%.*", "");
        }
        vacantSince = 0;
        closeSearch();
        if (m.store().isEmpty()) {
            forget();
        } else if (place == null || !m.key().equals(key) || !place.text().equals(m.store())) {
            key = m.key();
            place = StorePlace.ofText(m.store());
            PrivateFiles.replace(file(), (key + "\n" + m.store()).getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Where the coordinator may be reached; none: nowhere at present, and one may have been started; null: the store can't be asked. */
    List<InetSocketAddress> look() {
        try {
            if (search == null) {
                search = new CoordinatorSearch(place);
            }
            final Whereabouts where = search.look(key);
            say(where == null ? "the store at " + place + " knows no job " + key : "");
            if (where == null || where.seat() == null || where.number() < number) {
                return List.of();
            }
            if (where.held()) {
                vacantSince = 0;
                final List<InetSocketAddress> addresses = new ArrayList<>();
                where.seat().addresses().forEach(a -> addresses.add(new InetSocketAddress(a, where.seat().port())));
                return addresses;
            }
            succeed(where);
            return List.of();
        } catch (StoreException e) {
            say(e.getMessage());
            return null;
        }
    }

    /** Once for each time that it is so. */
    private void say(final String what) {
        if (!what.equals(said) && !what.isEmpty()) {
            log.add(what);
        }
        said = what;
    }

    private void succeed(final Whereabouts where) {
        final long now = System.nanoTime();
        if (vacantSince == 0) {
            vacantSince = now;
            pause = TimeUnit.MILLISECONDS.toNanos(ThreadLocalRandom.current().nextInt(LONGEST_PAUSE_MILLIS)
                    + (options.spare() ? SPARE_MILLIS : 0));
        }
        final boolean busy = started != null && now - startedAt < START_NANOS;
        if (options.successorCommand().isEmpty() || busy || now - vacantSince < pause) {
            return;
        }
        final List<String> command = new ArrayList<>(options.successorCommand());
        final boolean others = where.seat().addresses().stream().anyMatch(a -> !a.equals("localhost") && !a.startsWith("127."));
        command.addAll(List.of("--takeover", key, "--address", own != null ? own : others ? "0.0.0.0" : "localhost",
                "--port", Integer.toString(where.seat().port())));
        try {
            log.add("nobody coordinates the job any more; starting a coordinator: " + String.join(" ", command));
            final ProcessBuilder builder = new ProcessBuilder(command)
                    .redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")))
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(ProcessBuilder.Redirect.appendTo(options.runDirectory().resolve("coordinator.err").toFile()));
            builder.environment().putAll(place.environment());
            builder.environment().put("SHADOWVERBS_RUN_DIR", options.runDirectory().getParent().toString());
            if (options.secretGiven()) {
                builder.environment().put(JobSecret.VARIABLE, options.secret());
            }
            started = builder.start();
            startedAt = now;
        } catch (IOException e) {
            log.add("the coordinator can't be started: " + e);
        }
    }

    /** For an agent that ends with nothing left to look after. */
    void forget() {
        try {
            Files.deleteIfExists(file());
        } catch (IOException e) {
            log.add("at the end: " + e);
        }
        place = null;
    }

    private void closeSearch() {
        if (search != null) {
            search.close();
            search = null;
        }
    }

    @Override
    public void close() {
        closeSearch();
    }
}
