// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.GlobalRoute;
import org.shadowverbs.ib2tcp.wire.Mac;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/**
 * Multicast groups: who listens to which, and the datagrams to all of one. In network order:
 * <pre>
 *    0  magic "SVTM"   4  version   6  0
 *    8  GID of the sender (16)     24  GID of the group (16)
 *   40  HMAC-SHA256 (32), keyed with the job's secret, of "multicast", bytes 0 to 39, and all from 72 on; 0 without a secret
 *   72  header of a DATAGRAM frame (64), to queue pair 0xffffff
 *  136  payload
 * </pre>
 * A process gets what it sends itself, as on an HCA. What is wrong is dropped, and said the first few times.
 */
public final class Multicast {
    public static final int HEADERS = 136;
    public static final int LONGEST = HEADERS + Frame.MAX_DATAGRAM;
    /** The queue pair number that means all of a group. */
    public static final int ALL = 0xffffff;

    private static final int MAGIC = 'S' << 24 | 'V' << 16 | 'T' << 8 | 'M';
    private static final int VERSION = 1;
    private static final int SENDER = 8;
    private static final int GROUP = 24;
    private static final int MAC = 40;
    private static final int FRAME = 72;
    private static final byte[] ROLE = "multicast".getBytes(StandardCharsets.US_ASCII);
    /** The first byte of a multicast GID (IBTA volume 1, 4.1.1). */
    private static final int FIRST_BYTE = 0xff;
    private static final int COMPLAINTS = 4;

    private record Membership(QueuePair qp, long prefix, long id, int lid) {
        boolean of(final long groupPrefix, final long groupId) {
            return prefix == groupPrefix && id == groupId;
        }
    }

    private final Device device;
    private final Mac mac;
    private final byte[] noCode = new byte[Mac.SIZE];
    private final byte[] found = new byte[Mac.SIZE];
    private final ArrayList<Membership> memberships = new ArrayList<Membership>();
    private final int[] joined = new int[MulticastWay.CHANNELS];
    private int complaints;
    // Made when the first is attached or sent.
    private MulticastWay way;
    private long outgoing;
    private long route;
    private Vectors target;

    Multicast(final Device device, final String secret) {
        this.device = device;
        this.mac = new Mac(secret);
    }

    public static boolean names(final long prefix) {
        return prefix >>> 56 == FIRST_BYTE;
    }

    private static int channel(final long prefix, final long id) {
        final long hash = (prefix * 31 + id) * 0x9e3779b97f4a7c15L;
        return (int) (hash >>> 32) & MulticastWay.CHANNELS - 1;
    }

    private MulticastWay way() {
        if (way == null) {
            way = device.multicastWay();
            outgoing = device.posix.allocate(LONGEST);
            route = device.posix.allocate(GlobalRoute.SIZE);
            target = new Vectors(device.posix, Limits.MAX_SGE + 2);
        }
        return way;
    }

    /** @param lid no part of the address, but it tells attachments apart */
    public void attach(final QueuePair qp, final long prefix, final long id, final int lid) {
        if (qp.type != QueuePair.UD || !names(prefix)) {
            throw new DeviceException(Posix.EINVAL, "attach a queue pair to what is no multicast group");
        }
        final Membership membership = new Membership(qp, prefix, id, lid);
        if (memberships.contains(membership)) {
            return;
        }
        final int channel = channel(prefix, id);
        if (joined[channel] == 0) {
            way().join(channel);
        }
        joined[channel]++;
        memberships.add(membership);
    }

    public void detach(final QueuePair qp, final long prefix, final long id, final int lid) {
        if (!memberships.remove(new Membership(qp, prefix, id, lid))) {
            throw new DeviceException(Posix.EINVAL, "detach a queue pair from a group that it is not attached to");
        }
        leave(channel(prefix, id));
    }

    private void leave(final int channel) {
        if (--joined[channel] == 0) {
            way.leave(channel);
        }
    }

    public boolean attached(final QueuePair qp) {
        return memberships.stream().anyMatch(m -> m.qp == qp);
    }

    /** A queue pair whose device is closed leaves its groups. */
    public void detachAll(final QueuePair qp) {
        for (int i = memberships.size() - 1; i >= 0; i--) {
            final Membership membership = memberships.get(i);
            if (membership.qp == qp) {
                memberships.remove(i);
                leave(channel(membership.prefix, membership.id));
            }
        }
    }

    /** Sends a datagram, all of whose local checks have been passed. */
    public void send(final QueuePair qp, final long request) {
        try {
            way();
        } catch (DeviceException e) {
            complain("cannot be sent: " + e.getMessage());
            return;
        }
        final long prefix = Memory.i64(request + Layouts.SEND_REMOTE);
        final long id = Memory.i64(request + Layouts.SEND_COMPARE);
        final int payload = (int) Memory.i64(request + Layouts.SEND_LENGTH);
        Memory.net32(outgoing, MAGIC);
        Memory.net32(outgoing + 4, VERSION << 16);
        Memory.net64(outgoing + SENDER, device.gidPrefix());
        Memory.net64(outgoing + SENDER + 8, device.gidInterface());
        Memory.net64(outgoing + GROUP, prefix);
        Memory.net64(outgoing + GROUP + 8, id);
        qp.requester.datagram(outgoing + FRAME, request, ALL);
        qp.requester.copyPayload(outgoing + HEADERS, request, payload);
        Memory.put(outgoing + MAC, code(outgoing, HEADERS + payload));
        final int err = way.send(channel(prefix, id), outgoing, HEADERS + payload);
        if (err != 0 && err != Posix.EAGAIN) {
            complain("cannot be sent: errno " + err);
        }
    }

    /** The code of a datagram, 0 without a secret; valid until the next. */
    private byte[] code(final long at, final int bytes) {
        if (!mac.secret()) {
            return noCode;
        }
        mac.start(ROLE);
        mac.add(at, MAC);
        mac.add(at + FRAME, bytes - FRAME);
        return mac.end();
    }

    /** A datagram has come, from whomever. */
    public void received(final long at, final int bytes) {
        try {
            check(at, bytes);
        } catch (ProtocolException e) {
            complain("was dropped: " + e.getMessage());
            return;
        }
        final long prefix = Memory.net64(at + GROUP);
        final long id = Memory.net64(at + GROUP + 8);
        for (int i = 0; i < memberships.size(); i++) {
            final Membership membership = memberships.get(i);
            if (membership.of(prefix, id) && membership.qp.receives() && first(i)) {
                target.clear();
                membership.qp.responder.deliver(at + FRAME, at + HEADERS, target, route,
                        Memory.net64(at + SENDER), Memory.net64(at + SENDER + 8), prefix, id);
            }
        }
    }

    /** A queue pair that is attached with several lids gets it once. */
    private boolean first(final int index) {
        final Membership membership = memberships.get(index);
        for (int i = 0; i < index; i++) {
            if (memberships.get(i).qp == membership.qp && memberships.get(i).of(membership.prefix, membership.id)) {
                return false;
            }
        }
        return true;
    }

    /** Nothing in a datagram is used before this has passed it. */
    private void check(final long at, final int bytes) throws ProtocolException {
        if (bytes < HEADERS || bytes > LONGEST || Memory.net32(at) != MAGIC) {
            throw new ProtocolException("it is none of a peer's");
        }
        if (Memory.net32(at + 4) != VERSION << 16) {
            throw new ProtocolException("version " + (Memory.net32(at + 4) >>> 16) + ", here is " + VERSION);
        }
        if (!MessageDigest.isEqual(code(at, bytes), bytesOf(at + MAC))) {
            throw new ProtocolException("its sender has another secret (SHADOWVERBS_SECRET)");
        }
        final long header = at + FRAME;
        Frame.check(header);
        if (Frame.type(header) != Frame.DATAGRAM || Frame.destination(header) != ALL
                || Frame.payload(header) != bytes - HEADERS || !names(Memory.net64(at + GROUP))
                || names(Memory.net64(at + SENDER))) {
            throw new ProtocolException("it is no datagram to a group");
        }
    }

    private byte[] bytesOf(final long at) {
        Memory.get(at, found, found.length);
        return found;
    }

    private void complain(final String what) {
        if (complaints < COMPLAINTS) {
            device.say("a multicast datagram " + what + (++complaints == COMPLAINTS ? "; no more is said of these" : ""));
        }
    }

    public void free() {
        if (way != null) {
            device.posix.free(outgoing);
            device.posix.free(route);
            target.free(device.posix);
            way = null;
        }
    }
}
