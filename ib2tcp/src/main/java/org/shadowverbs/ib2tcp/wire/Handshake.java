// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.wire;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import org.shadowverbs.ib2tcp.system.Memory;

/**
 * The first three records of a connection: who I am and whom I look for; a challenge with proof of the job's secret; proof
 * of it from the other side. Numbers are in network order.
 * <pre>
 *   HELLO      0: magic  4: version  6: 0         8: own GID   24: GID looked for  40: nonce (24)
 *   CHALLENGE  0: magic  4: version  6: refusal   8: nonce (24)                    32: HMAC (32)
 *   PROOF      0: magic  4: version  6: 0         8: HMAC (32)
 * </pre>
 * HMAC is HMAC-SHA256, keyed with the secret, of "accept" or "connect", the HELLO and the challenge's nonce.
 */
public final class Handshake {
    public static final int HELLO = 64;
    public static final int CHALLENGE = 64;
    public static final int PROOF = 40;
    static final int REFUSED_VERSION = 1;
    /** Another process listens there now. */
    static final int REFUSED_ADDRESS = 2;

    private static final int MAGIC = 'S' << 24 | 'V' << 16 | 'T' << 8 | 'P';
    private static final int VERSION = 4;
    private static final int NONCE = 24;

    private final Mac mac;

    public Handshake(final String secret) {
        mac = new Mac(secret);
    }

    private static void start(final long at, final int size, final int code) {
        Memory.zero(at, size);
        Memory.net32(at, MAGIC);
        Memory.net32(at + 4, VERSION << 16 | code);
    }

    public void hello(final long at, final long prefix, final long id, final long peerPrefix, final long peerId,
            final byte[] nonce) {
        start(at, HELLO, 0);
        Memory.net64(at + 8, prefix);
        Memory.net64(at + 16, id);
        Memory.net64(at + 24, peerPrefix);
        Memory.net64(at + 32, peerId);
        Memory.put(at + 40, Arrays.copyOf(nonce, NONCE));
    }

    /** Writes the answer to a hello. @return what is wrong with it, or null: the peer's GID is at 8 */
    public String challenge(final long hello, final long at, final long prefix, final long id, final byte[] nonce)
            throws ProtocolException {
        if (Memory.net32(hello) != MAGIC) {
            throw new ProtocolException("the first bytes are not those of a peer");
        }
        if (Memory.net32(hello + 4) != VERSION << 16) {
            start(at, CHALLENGE, REFUSED_VERSION);
            return "version " + (Memory.net32(hello + 4) >>> 16) + " of the protocol, here is " + VERSION;
        }
        if (Memory.net64(hello + 24) != prefix || Memory.net64(hello + 32) != id) {
            start(at, CHALLENGE, REFUSED_ADDRESS);
            return "it looks for another process";
        }
        start(at, CHALLENGE, 0);
        Memory.put(at + 8, Arrays.copyOf(nonce, NONCE));
        Memory.put(at + 32, mac("accept", hello, at));
        return null;
    }

    public void proof(final long hello, final long challenge, final long at) throws ProtocolException {
        if (Memory.net32(challenge) != MAGIC || Memory.net32(challenge + 4) >>> 16 != VERSION) {
            throw new ProtocolException("the answer is not that of a peer of version " + VERSION);
        }
        final int refusal = Memory.net32(challenge + 4) & 0xffff;
        if (refusal != 0) {
            throw new ProtocolException(refusal == REFUSED_ADDRESS ? "another process listens there now"
                    : "it refuses version " + VERSION);
        }
        if (!MessageDigest.isEqual(Memory.bytes(challenge + 32, Mac.SIZE), mac("accept", hello, challenge))) {
            throw new ProtocolException("it does not know the job's secret (SHADOWVERBS_SECRET)");
        }
        start(at, PROOF, 0);
        Memory.put(at + 8, mac("connect", hello, challenge));
    }

    public void check(final long hello, final long challenge, final long proof) throws ProtocolException {
        if (Memory.net32(proof) != MAGIC || Memory.net32(proof + 4) != VERSION << 16
                || !MessageDigest.isEqual(Memory.bytes(proof + 8, Mac.SIZE), mac("connect", hello, challenge))) {
            throw new ProtocolException("it does not know the job's secret (SHADOWVERBS_SECRET)");
        }
    }

    /** Valid until the next. */
    private byte[] mac(final String role, final long hello, final long challenge) {
        mac.start(role.getBytes(StandardCharsets.US_ASCII));
        mac.add(hello, HELLO);
        mac.add(challenge + 8, NONCE);
        return mac.end();
    }
}
