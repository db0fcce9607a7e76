// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.store.CoordinatorSearch;
import org.shadowverbs.coordinator.store.StoreException;
import org.shadowverbs.coordinator.store.StorePlace;
import org.shadowverbs.coordinator.store.Whereabouts;

/** The options that name a store which several hosts reach. */
final class StoreOptions {
    private final CliCommand command;
    private final Supplier<String> uri;
    private final Supplier<Path> passwordFile;
    private final Supplier<Path> ca;

    StoreOptions(final CliCommand command, final String what) {
        this.command = command;
        uri = command.text(List.of("--store"), "URI", null, what
                + ": redis://[USER@]HOST[:PORT][/DATABASE], or rediss:// for TLS (SHADOWVERBS_STORE)");
        passwordFile = command.path("--store-password-file", "FILE", "the store's password (SHADOWVERBS_STORE_PASSWORD)");
        ca = command.path("--store-ca", "FILE", "the certificates that the store's is to come from, in PEM, at this path on all hosts"
                + " (SHADOWVERBS_STORE_CA)");
    }

    /** What they name, else what the environment does; null: none. */
    StorePlace place(final Map<String, String> environment) throws CommandException {
        final String given = uri.get() != null ? uri.get() : environment.getOrDefault(StorePlace.VARIABLE, "");
        if (given.isEmpty()) {
            if (passwordFile.get() != null || ca.get() != null) {
                throw new UsageException(command.name() + ": " + (ca.get() != null ? "--store-ca" : "--store-password-file")
                        + " is for --store URI");
            }
            return null;
        }
        try {
            return StorePlace.of(given, password(environment), ca.get() != null ? ca.get().toAbsolutePath().toString()
                    : environment.getOrDefault(StorePlace.CA_VARIABLE, ""));
        } catch (IllegalArgumentException e) {
            throw new UsageException(command.name() + ": " + e.getMessage());
        }
    }

    /**
     * Where coordinators are, by the store.
     *
     * @return by the keys of their jobs; none without a store
     */
    Map<String, Whereabouts> all(final Map<String, String> environment) throws CommandException {
        final StorePlace place = place(environment);
        if (place == null) {
            return Map.of();
        }
        try (CoordinatorSearch search = new CoordinatorSearch(place)) {
            return search.all();
        } catch (StoreException e) {
            throw new CommandException(command.name() + ": " + e.getMessage());
        }
    }

    /** Where the user may find the job that he can't find where he looks, as the end of a sentence; empty: nowhere. */
    String hint(final Map<String, String> environment) throws CommandException {
        final String all = all(environment).values().stream().map(where -> "job " + where.seat().job() + " "
                + (where.held() ? "has its coordinator at " : "had its coordinator, which is lost, at ")
                + String.join(" or ", where.seat().addresses()) + ", port " + where.seat().port()).collect(Collectors.joining("; "));
        return all.isEmpty() ? "" : "; by the store, " + all;
    }

    private String password(final Map<String, String> environment) throws CommandException {
        if (passwordFile.get() == null) {
            return environment.getOrDefault(StorePlace.PASSWORD_VARIABLE, "");
        }
        try {
            return Files.readString(passwordFile.get()).strip();
        } catch (IOException e) {
            throw new CommandException(command.name() + ": the store's password can't be read: " + e.getMessage());
        }
    }
}
