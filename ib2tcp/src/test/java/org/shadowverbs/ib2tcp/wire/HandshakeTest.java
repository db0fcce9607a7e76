// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.security.GeneralSecurityException;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;

class HandshakeTest {
    private static final byte[] NONCE = new byte[24];
    private final Posix posix = new Posix();
    private final long hello = posix.allocate(Handshake.HELLO);
    private final long challenge = posix.allocate(Handshake.CHALLENGE);
    private final long proof = posix.allocate(Handshake.PROOF);

    private String greet(final Handshake from, final Handshake to, final long wanted) throws ProtocolException {
        from.hello(hello, 1, 2, Address.PREFIX, wanted, NONCE);
        return to.challenge(hello, challenge, Address.PREFIX, 4, NONCE);
    }

    @Test
    void thoseWhoShareTheSecretMeet() throws ProtocolException {
        final Handshake a = new Handshake("secret");
        final Handshake b = new Handshake("secret");
        assertNull(greet(a, b, 4));
        a.proof(hello, challenge, proof);
        b.check(hello, challenge, proof);
    }

    @Test
    void thoseWhoDoNotAreRefusedByBothSides() throws ProtocolException {
        final Handshake a = new Handshake("secret");
        final Handshake b = new Handshake("another");
        assertNull(greet(a, b, 4));
        assertTrue(assertThrows(ProtocolException.class, () -> a.proof(hello, challenge, proof)).getMessage()
                .contains("secret"));
        assertNull(greet(a, a, 4));
        a.proof(hello, challenge, proof);
        assertThrows(ProtocolException.class, () -> b.check(hello, challenge, proof));
    }

    @Test
    void anotherVersionAndAnotherProcessAreNamed() throws ProtocolException {
        final Handshake a = new Handshake("");
        assertNotNull(greet(a, a, 5));
        assertTrue(assertThrows(ProtocolException.class, () -> a.proof(hello, challenge, proof)).getMessage()
                .contains("another process"));
        a.hello(hello, 1, 2, Address.PREFIX, 4, NONCE);
        Memory.u8(hello + 5, 9);
        assertTrue(a.challenge(hello, challenge, Address.PREFIX, 4, NONCE).contains("version 9"));
        assertTrue(assertThrows(ProtocolException.class, () -> a.proof(hello, challenge, proof)).getMessage()
                .contains("version"));
    }

    @Property(tries = 2000)
    void randomBytesAreNoPeer(@ForAll @Size(Handshake.HELLO) final byte[] bytes) {
        Memory.put(hello, bytes);
        assertThrows(ProtocolException.class,
                () -> new Handshake("").challenge(hello, challenge, Address.PREFIX, 4, NONCE));
    }

    @Property(tries = 500)
    void oneFlippedBitIsFoundOut(@ForAll final int bit) throws ProtocolException {
        final Handshake a = new Handshake("secret");
        greet(a, a, 4);
        a.proof(hello, challenge, proof);
        final long at = proof + Math.floorMod(bit, Handshake.PROOF * 8) / 8;
        Memory.u8(at, Memory.u8(at) ^ 1 << (bit & 7));
        assertThrows(ProtocolException.class, () -> a.check(hello, challenge, proof));
    }

    /** Against the JDK's own HMAC. */
    @Test
    void theProofIsHmacSha256() throws ProtocolException, GeneralSecurityException {
        final String secret = "a secret that is longer than one block of the hash, which then is hashed first, as RFC 2104 says";
        final Handshake a = new Handshake(secret);
        greet(a, a, 4);
        a.proof(hello, challenge, proof);
        final Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret.getBytes(), "HmacSHA256"));
        mac.update("connect".getBytes());
        mac.update(Memory.bytes(hello, Handshake.HELLO));
        mac.update(Memory.bytes(challenge + 8, 24));
        assertArrayEquals(mac.doFinal(), Memory.bytes(proof + 8, 32));
        assertFalse(java.util.Arrays.equals(Memory.bytes(challenge + 32, 32), Memory.bytes(proof + 8, 32)));
        assertEquals(0, Memory.net32(proof + 4) & 0xffff);
    }
}
