// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * What has become of a detached rank: one line, {@code v3 OUTCOME EPOCH BACKEND AGENT SECRET ADDRESS REASON...}, that the
 * agent writes into the rank's verdict pipe. BACKEND, AGENT, SECRET and ADDRESS have bytes up to space, and '%', as %XX.
 *
 * @param backend the backend to reattach with: see {@link BackendName}; or "same", the one that it had
 * @param agent the agent's socket; after a restart it is another one than {@code SHADOWVERBS_AGENT} says
 * @param secret the job's from now on; empty: what the rank knows
 * @param address at which ib2tcp is to be reached from now on; empty: not given
 * @param reason of an abort; may be empty
 */
public record Verdict(Outcome outcome, long epoch, String backend, Path agent, String secret, String address,
        String reason) {
    public static final String SAME_BACKEND = "same";

    public enum Outcome {
        /** The checkpoint is safe and the process simply runs on. */
        RESUMED,
        /** The checkpoint failed; the process runs on. */
        ABORTED,
        /** The process was restored from an image: other device, other host perhaps. */
        RESTORED
    }

    /** @throws IllegalArgumentException when the line is no verdict; the message quotes it */
    public static Verdict parse(final String line) {
        final String text = line.endsWith("\n") ? line.substring(0, line.length() - 1) : line;
        final String[] words = text.split(" ", 8);
        if (words.length < 7 || !words[0].equals("v3")) {
            throw new IllegalArgumentException("not a verdict: \"" + text + '"');
        }
        final Outcome outcome;
        switch (words[1]) {
            case "resumed" -> outcome = Outcome.RESUMED;
            case "aborted" -> outcome = Outcome.ABORTED;
            case "restored" -> outcome = Outcome.RESTORED;
            default -> throw new IllegalArgumentException("no such outcome in verdict: \"" + text + '"');
        }
        final long epoch;
        try {
            epoch = Long.parseLong(words[2]);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("no epoch in verdict: \"" + text + '"', e);
        }
        return new Verdict(outcome, epoch, decode(words[3]), Path.of(decode(words[4])), decode(words[5]),
                decode(words[6]), words.length > 7 ? words[7] : "");
    }

    /** The line, newline included. It is short enough for one atomic write to a pipe: a long reason is cut. */
    public String line() {
        final String name = switch (outcome) {
            case RESUMED -> "resumed";
            case ABORTED -> "aborted";
            case RESTORED -> "restored";
        };
        final String oneLine = reason.replace('\n', ' ');
        return "v3 " + name + ' ' + epoch + ' ' + encode(backend) + ' ' + encode(agent.toString()) + ' '
                + encode(secret) + ' ' + encode(address) + ' '
                + (oneLine.length() > 1000 ? oneLine.substring(0, 1000) : oneLine) + '\n';
    }

    private static String encode(final String s) {
        final StringBuilder b = new StringBuilder(s.length());
        for (final byte c : s.getBytes(StandardCharsets.UTF_8)) {
            if (c > ' ' && c != '%' && c != 127) {
                b.append((char) c);
            } else {
                b.append('%').append(Character.forDigit(c >> 4 & 15, 16)).append(Character.forDigit(c & 15, 16));
            }
        }
        return b.toString();
    }

    private static String decode(final String s) {
        final byte[] from = s.getBytes(StandardCharsets.UTF_8);
        final byte[] to = new byte[from.length];
        int n = 0;
        for (int i = 0; i < from.length; i++) {
            if (from[i] == '%' && i + 2 < from.length && Character.digit(from[i + 1], 16) >= 0
                    && Character.digit(from[i + 2], 16) >= 0) {
                to[n++] = (byte) (Character.digit(from[i + 1], 16) << 4 | Character.digit(from[i + 2], 16));
                i += 2;
            } else {
                to[n++] = from[i];
            }
        }
        return new String(to, 0, n, StandardCharsets.UTF_8);
    }
}
