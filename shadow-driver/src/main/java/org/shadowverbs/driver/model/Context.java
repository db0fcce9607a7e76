// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.util.Map;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.IdMasks;
import org.shadowverbs.ids.IdSpace;
import org.shadowverbs.ids.PortIds;

/** An open device. */
public final class Context extends Resource {
    public final long vdevice;
    public final String deviceName;
    public final int portCount;
    /** That of the virtual device, also where it is opened after a restart. In network order, as in the attributes. */
    public final long nodeGuid;
    /** As when it was opened: what the application may have told others. In network order. */
    public final long systemImageGuid;
    /** To what ibv_modify_srq may grow a queue; 0: the device cannot do it. */
    public int maxSrqWr;
    /** Completion vectors of the real device. */
    public int completionVectors;
    /** What the real device has, see {@link org.shadowverbs.driver.backend.Backend#limits}. */
    public Map<String, Long> limits = Map.of();
    public final IdSpace qpNums;
    public final IdSpace srqNums;
    public final IdSpace localKeys;
    public final IdSpace remoteKeys;
    /** Addresses of ports 1 to portCount. Null until they are first needed; from REATTACH on kept for good. */
    public PortIds[] ports;
    /** The GID table's length and the link layer that the application sees, by port. */
    public int[] gidTableLengths;
    public int[] virtualLinkLayers;
    /** Real objects have been made anew: ids translate by exceptions, and the port's addresses no longer change. */
    public boolean reattached;
    /** The native table of {@link #localKeys}' exceptions, or 0. */
    public long localKeyMap;
    /** The native tables of senders of datagrams, and of the GIDs in their route headers, or 0. */
    public long sourceMap;
    public long routeMap;

    public Context(final long virtual, final long real, final long vdevice, final String deviceName, final int portCount,
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
    public PortIds port(final int number) {
        if (number < 1 || number > portCount) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return ports[number - 1];
    }
}
