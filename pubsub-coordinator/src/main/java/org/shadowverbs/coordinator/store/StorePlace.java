// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Where a store is that several hosts reach, and what it wants to be shown.
 *
 * @param tls whether the connection is encrypted, and the store's certificate verified
 * @param user empty: the default one
 * @param password empty: none
 * @param database its number
 * @param ca a file with the certificates, in PEM, that the store's is to come from, at the same path on all hosts; empty: those
 *     that the JDK trusts
 */
public record StorePlace(boolean tls, String host, int port, String user, String password, int database, String ca) {
    /** Name the place and its secrets in the environment of a command. */
    public static final String VARIABLE = "SHADOWVERBS_STORE";
    public static final String PASSWORD_VARIABLE = "SHADOWVERBS_STORE_PASSWORD";
    public static final String CA_VARIABLE = "SHADOWVERBS_STORE_CA";

    private static final int DEFAULT_PORT = 6379;
    private static final int HIGHEST_PORT = 65_535;
    private static final String USAGE = "a store is redis://[USER@]HOST[:PORT][/DATABASE], or rediss:// for TLS";

    /**
     * What a user gives.
     *
     * @param uri may have user and password
     * @param password counts for more than the one in the URI; empty: none
     * @param ca may be empty
     * @throws IllegalArgumentException says what is wrong with it, without the password
     */
    public static StorePlace of(final String uri, final String password, final String ca) {
        final URI parsed;
        try {
            parsed = new URI(uri);
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException(USAGE + "; this is no URI: " + hidden(uri), e);
        }
        final boolean tls = "rediss".equals(parsed.getScheme());
        if (!tls && !"redis".equals(parsed.getScheme()) || parsed.getHost() == null || parsed.getPort() > HIGHEST_PORT
                || parsed.getQuery() != null || parsed.getFragment() != null) {
            throw new IllegalArgumentException(USAGE + ", not " + hidden(uri));
        }
        final String path = parsed.getPath() == null ? "" : parsed.getPath().replaceFirst("^/", "");
        if (!path.matches("\\d{0,4}")) {
            throw new IllegalArgumentException(USAGE + "; a database is a number, not " + path);
        }
        if (!tls && !ca.isEmpty()) {
            throw new IllegalArgumentException("certificates are for a store with TLS: rediss://" + parsed.getHost());
        }
        final String info = parsed.getUserInfo() == null ? "" : parsed.getUserInfo();
        final int colon = info.indexOf(':');
        final String given = colon < 0 ? "" : info.substring(colon + 1);
        return new StorePlace(tls, parsed.getHost(), parsed.getPort() < 0 ? DEFAULT_PORT : parsed.getPort(),
                colon < 0 ? info : info.substring(0, colon), password.isEmpty() ? given : password,
                path.isEmpty() ? 0 : Integer.parseInt(path), ca);
    }

    private static String hidden(final String uri) {
        return uri.replaceFirst("//.*@", "//...@");
    }

    /** What {@link #environment} says; null when it names no store. */
    public static StorePlace of(final Map<String, String> environment) {
        final String uri = environment.getOrDefault(VARIABLE, "");
        return uri.isEmpty() ? null : of(uri, environment.getOrDefault(PASSWORD_VARIABLE, ""),
                environment.getOrDefault(CA_VARIABLE, ""));
    }

    /** For a command that is to find it: no argument shows the password to other users. */
    public Map<String, String> environment() {
        return new HashMap<>(Map.of(VARIABLE, toString(), PASSWORD_VARIABLE, password, CA_VARIABLE, ca));
    }

    /** As one text, with the password, for those who are of the job. */
    public String text() {
        return String.join("\n", toString(), password, ca);
    }

    /** @param text of {@link #text()} */
    public static StorePlace ofText(final String text) {
        final List<String> lines = List.of(text.split("\n", -1));
        return of(lines.get(0), lines.get(1), lines.get(2));
    }

    /** As a URI, without the password. */
    @Override
    public String toString() {
        return (tls ? "rediss://" : "redis://") + (user.isEmpty() ? "" : user + "@") + host + ":" + port
                + (database == 0 ? "" : "/" + database);
    }
}
