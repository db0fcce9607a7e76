// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.IdSpace;
import org.shadowverbs.ids.PortIds;

/** An open device. */
final class Context extends Resource {
    final long vdevice;
    final String deviceName;
    final int portCount;
    /** That of the virtual device, also where it is opened after a restart. In network order, as in the attributes. */
    final long nodeGuid;
    /** As when it was opened: what the application may have told others. In network order. */
    final long systemImageGuid;
    /** To what ibv_modify_srq may grow a queue; 0: the device cannot do it. */
    int maxSrqWr;
    /** Completion vectors of the real device. */
    int completionVectors;
    final IdSpace qpNums;
    final IdSpace srqNums;
    final IdSpace localKeys;
    final IdSpace remoteKeys;
    /** Addresses of ports 1 to portCount. Null until they are first needed; from REATTACH on kept for good. */
    PortIds[] ports;
    /** The GID table's length and the link layer that the application sees, by port. */
    int[] gidTableLengths;
    int[] virtualLinkLayers;
    /** Real objects have been made anew: ids translate by exceptions, and the port's addresses no longer change. */
    boolean reattached;
    /** The native table of {@link #localKeys}' exceptions, or 0. */
    long localKeyMap;
    /** The native tables of senders of datagrams, and of the GIDs in their route headers, or 0. */
    long sourceMap;
    long routeMap;

    Context(final long virtual, final long real, final long vdevice, final String deviceName, final int portCount,
            final long nodeGuid, final long systemImageGuid, final IdMasks masks) {
        super(virtual, real);
        this.vdevice = vdevice;
        this.deviceName = deviceName;
        this.portCount = portCount;
        this.nodeGuid = nodeGuid;
        this.systemImageGuid = systemImageGuid;
        qpNums = new IdSpace(masks.qpNum(), 2);
        srqNums = new IdSpace(masks.qpNum(), 1);
        localKeys = new IdSpace(masks.key(), 0);
        remoteKeys = new IdSpace(masks.key(), 0);
    }

    /** @throws VerbsException EINVAL: there is no such port */
    PortIds port(final int number) {
        if (number < 1 || number > portCount) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return ports[number - 1];
    }
}
