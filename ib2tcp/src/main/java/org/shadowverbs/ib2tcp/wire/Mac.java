// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.wire;

import java.nio.charset.StandardCharsets;
import java.security.DigestException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import org.shadowverbs.ib2tcp.system.Memory;

/**
 * HMAC-SHA256 (RFC 2104), keyed with the job's secret; javax.crypto would load more classes than all else here. Allocates
 * nothing after it was made. One at a time: {@link #start}, {@link #add} what it is of, {@link #end}.
 */
public final class Mac {
    public static final int SIZE = 32;
    private static final int BLOCK = 64;

    private final byte[] key;
    private final boolean secret;
    private final MessageDigest sha;
    private final byte[] piece = new byte[4096];
    private final byte[] result = new byte[SIZE];

    public Mac(final String secret) {
        try {
            sha = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
        this.secret = !secret.isEmpty();
        final byte[] given = secret.getBytes(StandardCharsets.UTF_8);
        key = Arrays.copyOf(given.length > BLOCK ? sha.digest(given) : given, BLOCK);
    }

    /** Whether there is a secret; without, anybody makes the same. */
    public boolean secret() {
        return secret;
    }

    /** @param role what it is for: one made for something else does not do */
    public void start(final byte[] role) {
        pad(0x36);
        sha.update(role);
    }

    public void add(final long at, final int bytes) {
        for (int done = 0; done < bytes; done += piece.length) {
            final int part = Math.min(piece.length, bytes - done);
            Memory.get(at + done, piece, part);
            sha.update(piece, 0, part);
        }
    }

    /** @return the code, valid until the next one is made */
    public byte[] end() {
        digest();
        pad(0x5c);
        sha.update(result);
        digest();
        return result;
    }

    private void digest() {
        try {
            sha.digest(result, 0, SIZE);
        } catch (DigestException e) {
            throw new IllegalStateException(e);
        }
    }

    private void pad(final int value) {
        for (int i = 0; i < BLOCK; i++) {
            piece[i] = (byte) (key[i] ^ value);
        }
        sha.update(piece, 0, BLOCK);
    }
}
