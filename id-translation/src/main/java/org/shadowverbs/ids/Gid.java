// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

/** A GID: 128 bits, as two numbers in big-endian order. */
public final class Gid {
    public static final Gid ZERO = new Gid(0, 0);

    private final long prefix;
    private final long interfaceId;

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
        final StringBuilder b = new StringBuilder(32);
        hex(b, prefix);
        hex(b, interfaceId);
        return b.toString();
    }

    private static void hex(final StringBuilder b, final long value) {
        for (int shift = 60; shift >= 0; shift -= 4) {
            b.append(Character.forDigit((int) (value >>> shift) & 15, 16));
        }
    }
}
