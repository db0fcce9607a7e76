// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.nio.charset.StandardCharsets;

/** A GID: 128 bits, as two numbers in big-endian order. */
public final class Gid {
    public static final Gid ZERO = new Gid(0, 0);

    private final long prefix;
    private final long interfaceId;
    /** What {@link #toString} returns; null: nobody has asked. */
    private String text;

    public Gid(final long prefix, final long interfaceId) {
        this.prefix = prefix;
        this.interfaceId = interfaceId;
    }

    public long prefix() {
        return prefix;
    }

    public long interfaceId() {
        return interfaceId;
    }

    public boolean isZero() {
        return prefix == 0 && interfaceId == 0;
    }

    /** fe80::/64 */
    public boolean isLinkLocal() {
        return prefix == 0xfe80_0000_0000_0000L;
    }

    /** ff00::/8, or made from the IPv4 address of a group: ::ffff:224.0.0.0/100. */
    public boolean isMulticast() {
        return prefix >>> 56 == 0xff || isIpv4Mapped() && (interfaceId >>> 28 & 0xf) == 0xe;
    }

    /** ::ffff:a.b.c.d: a RoCE GID made from an IPv4 address. */
    public boolean isIpv4Mapped() {
        return prefix == 0 && interfaceId >>> 32 == 0xffff;
    }

    @Override
    public boolean equals(final Object other) {
        return other instanceof Gid && ((Gid) other).prefix == prefix && ((Gid) other).interfaceId == interfaceId;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(prefix * 31 + interfaceId);
    }

    /** 32 hexadecimal digits. */
    @Override
    public String toString() {
        if (text == null) {
            final byte[] digits = new byte[32];
            hex(digits, 0, prefix);
            hex(digits, 16, interfaceId);
            text = new String(digits, StandardCharsets.ISO_8859_1);
        }
        return text;
    }

    private static void hex(final byte[] to, final int at, final long value) {
        for (int i = 0; i < 16; i++) {
            final int digit = (int) (value >>> 60 - 4 * i) & 15;
            to[at + i] = (byte) (digit < 10 ? '0' + digit : 'a' - 10 + digit);
        }
    }
}
