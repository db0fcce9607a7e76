// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.ArrayList;
import java.util.List;

/**
 * An XRC receive queue pair in a domain that the processes of a host share, as each that has it open needs to know it.
 * Immutable.
 *
 * @param realQpNum the number that the device knows it by
 * @param mixed it was reset while several had it open: what came before and after cannot be told apart
 * @param holders the processes that have it open, in the order in which they came; the one that has made it is the first, as
 *        long as it has it open
 * @param ports those of the process that has made it, by whose addresses (the virtual ones) its peer knows it
 * @param attributes what modify_qp has set, by whomever; opaque
 */
public record SharedReceiver(int realQpNum, boolean mixed, List<Long> holders, List<PortIds> ports, byte[] attributes) {
    private static final int VERSION = 2;

    public SharedReceiver {
        holders = List.copyOf(holders);
        ports = List.copyOf(ports);
    }

    public SharedReceiver withHolders(final List<Long> now) {
        return new SharedReceiver(realQpNum, mixed, now, ports, attributes);
    }

    public SharedReceiver withAttributes(final byte[] now, final boolean nowMixed) {
        return new SharedReceiver(realQpNum, nowMixed, holders, ports, now);
    }

    public byte[] encode() {
        final RecordWriter out = new RecordWriter(512).i8(VERSION).i32(realQpNum).i8(mixed ? 1 : 0).i32(holders.size());
        holders.forEach(out::i64);
        out.i32(ports.size());
        ports.forEach(port -> port.write(out));
        return out.bytes(attributes).toByteArray();
    }

    public static SharedReceiver decode(final byte[] bytes) {
        final RecordReader in = new RecordReader(bytes).version(VERSION);
        final int realQpNum = in.i32();
        final boolean mixed = in.i8() != 0;
        final List<Long> holders = new ArrayList<Long>();
        for (int left = in.count(8); left > 0; left--) {
            holders.add(in.i64());
        }
        final List<PortIds> ports = new ArrayList<PortIds>();
        for (int left = in.count(13); left > 0; left--) {
            ports.add(PortIds.read(in));
        }
        final SharedReceiver receiver = new SharedReceiver(realQpNum, mixed, holders, ports, in.bytes());
        in.end();
        return receiver;
    }
}
