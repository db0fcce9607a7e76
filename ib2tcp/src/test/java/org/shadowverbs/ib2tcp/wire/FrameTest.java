// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;

class FrameTest {
    private final Posix posix = new Posix();
    private final long at = posix.allocate(Frame.SIZE);

    private void request(final int opcode, final long length, final long offset, final int payload) {
        Frame.start(at, Frame.REQUEST, opcode, 7, 0x123456, 0xabcdef, 0x89abcdef);
        Frame.length(at, length);
        Frame.offset(at, offset);
        Frame.payload(at, payload);
    }

    private void refused(final String why) {
        final ProtocolException e = assertThrows(ProtocolException.class, () -> Frame.check(at));
        assertTrue(e.getMessage().contains(why), e.getMessage());
    }

    @Test
    void aHeaderIsWhatTheDocumentSays() throws ProtocolException {
        request(Frame.WRITE_IMM, 0x1_0000, 0x8000, 0x4000);
        Frame.flags(at, Frame.SOLICITED);
        Frame.address(at, 0x1122334455667788L);
        Frame.rkey(at, 0x55667788);
        Frame.sharedQueue(at, 0xfedcba);
        Frame.check(at);
        assertEquals("01010701" + "00004000" + "00123456" + "00abcdef" + "89abcdef" + "00000000" + "1122334455667788"
                + "55667788" + "00fedcba" + "0000000000010000" + "0000000000008000" + "0000000000000000",
                java.util.HexFormat.of().formatHex(Memory.bytes(at, Frame.SIZE)));
    }

    @Test
    void aRequestTakesAnAcknowledgementWithIt() throws ProtocolException {
        request(Frame.SEND, 8, 0, 8);
        Frame.flags(at, Frame.SOLICITED);
        Frame.acknowledge(at, 0xfe, 0x89abcdef);
        Frame.check(at);
        assertTrue(Frame.acknowledges(at));
        assertEquals(0xfe, Frame.acknowledgedAttempt(at));
        assertEquals(0x89abcdef, Frame.acknowledgedSequence(at));
        assertEquals("03", java.util.HexFormat.of().formatHex(Memory.bytes(at + 3, 1)));
        assertEquals("000000fe" + "89abcdef", java.util.HexFormat.of().formatHex(Memory.bytes(at + 56, 8)));
    }

    @Test
    void whatIsOutOfBoundsIsRefused() {
        request(Frame.SEND, 100, 0, Frame.MAX_PAYLOAD + 1);
        refused("length beyond bounds");
        request(Frame.SEND, Frame.MAX_MESSAGE + 1, 0, 1);
        refused("length beyond bounds");
        request(Frame.SEND, -1, 0, 1);
        refused("length beyond bounds");
        request(Frame.SEND, 100, 90, 11);
        refused("outside of its message");
        request(Frame.SEND, 100, -1, 1);
        refused("outside of its message");
        request(Frame.SEND, 100, Long.MAX_VALUE, 100);
        refused("outside of its message");
        request(Frame.SEND, 100, 0, 0);
        refused("outside of its message");
        request(Frame.READ, 100, 0, 1);
        refused("payload where none belongs");
        request(Frame.FETCH_ADD, 9, 0, 0);
        refused("atomic of 9 bytes");
        request(7, 0, 0, 0);
        refused("opcode 7");
        Frame.start(at, Frame.UNACKNOWLEDGED, Frame.READ, 0, 2, 2, 0);
        refused("unacknowledged request with opcode 4");
        Frame.start(at, Frame.DATAGRAM, Frame.SEND, 0, 2, 2, 0);
        Frame.length(at, Frame.MAX_DATAGRAM + 1);
        Frame.payload(at, Frame.MAX_DATAGRAM + 1);
        refused("a datagram that is none");
        Frame.start(at, 9, 0, 0, 2, 2, 0);
        refused("type 9");
        Frame.start(at, Frame.ACK, 0, 0, 1 << 24, 2, 0);
        refused("24 bits");
        Frame.start(at, Frame.REQUEST, Frame.SEND, 0, 2, 2, 0);
        Frame.sharedQueue(at, 1 << 24);
        refused("24 bits");
        Frame.start(at, Frame.ACK, 0, 0, 2, 2, 0);
        Frame.sharedQueue(at, 1);
        refused("must be zero");
        Frame.start(at, Frame.NAK, 5, 0, 2, 2, 0);
        refused("kind 5");
        request(Frame.FETCH_ADD, 8, 0, 0);
        Frame.acknowledge(at, 1, 1);
        refused("must be zero");
        request(Frame.SEND, 8, 0, 8);
        Frame.sharedQueue(at, 3);
        Frame.acknowledge(at, 1, 1);
        refused("must be zero");
        Frame.start(at, Frame.READY, 0, 0, 2, 2, 0);
        Frame.acknowledge(at, 1, 1);
        refused("must be zero");
    }

    /** Whatever comes: what passes the check is within all bounds that its use relies upon. */
    @Property(tries = 20_000)
    void randomBytesNeverPassOutOfBounds(@ForAll @Size(Frame.SIZE) final byte[] bytes) {
        bytes[0] = (byte) (bytes[0] & 15);
        if ((bytes[1] & 1) != 0) { // so that some come further than the first check
            bytes[8] = 0;
            bytes[12] = 0;
            bytes[36] = 0;
            java.util.Arrays.fill(bytes, bytes[0] == Frame.REQUEST ? 40 : 36, 45, (byte) 0);
            java.util.Arrays.fill(bytes, 48, 53, (byte) 0);
            bytes[3] &= 3;
            bytes[4] = 0;
            bytes[5] &= 7;
        }
        Memory.put(at, bytes);
        try {
            Frame.check(at);
        } catch (ProtocolException e) {
            return;
        }
        assertTrue(Frame.payload(at) >= 0 && Frame.payload(at) <= Frame.MAX_PAYLOAD);
        assertTrue(Frame.length(at) >= 0 && Frame.length(at) <= Frame.MAX_MESSAGE);
        assertTrue(Frame.destination(at) >= 0 && Frame.destination(at) < 1 << 24);
        assertTrue(Frame.sharedQueue(at) >= 0 && Frame.sharedQueue(at) < 1 << 24);
        if (Frame.payload(at) > 0) {
            assertTrue(Frame.type(at) == Frame.REQUEST && !Frame.reads(Frame.opcode(at))
                    || Frame.type(at) == Frame.READ_RESPONSE || Frame.type(at) == Frame.UNACKNOWLEDGED
                    || Frame.type(at) == Frame.DATAGRAM && Frame.payload(at) <= Frame.MAX_DATAGRAM);
            assertTrue(Frame.offset(at) >= 0 && Frame.offset(at) + Frame.payload(at) <= Frame.length(at));
        }
    }
}
