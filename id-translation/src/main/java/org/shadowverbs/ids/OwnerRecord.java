// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.Map;
import java.util.TreeMap;

/**
 * What a rank publishes after it has made its real objects anew: for each of its device contexts the addresses of the
 * ports, the exceptions of queue pair numbers, SRQ numbers and remote keys, and the XRC domains that others may have open,
 * too. Immutable.
 */
public final class OwnerRecord {
    /** The ids of one open device. */
    public static final class ContextIds {
        private final PortIds[] ports;
        public final ExceptionSet qpNums;
        /** Numbers of shared receive queues of XRC. */
        public final ExceptionSet srqNums;
        public final ExceptionSet remoteKeys;
        /** The name that all sharers know each XRC domain with a file by, by the domain's number in the process. */
        public final Map<Integer, String> domains;

        /**
         * Of a device that gives queue pair numbers from one range to each process: what the numbers of this one have in
         * common, see {@link NumberRanges#of}; {@link NumberRanges#NONE}: of a device that does not.
         */
        public final int range;
        /** Not a device's, but queue pairs that another process has made there: its addresses lead to nothing else here. */
        public final boolean inherited;

        public ContextIds(final PortIds[] ports, final ExceptionSet qpNums, final ExceptionSet srqNums,
                final ExceptionSet remoteKeys, final Map<Integer, String> domains) {
            this(ports, qpNums, srqNums, remoteKeys, domains, NumberRanges.NONE);
        }

        public ContextIds(final PortIds[] ports, final ExceptionSet qpNums, final ExceptionSet srqNums,
                final ExceptionSet remoteKeys, final Map<Integer, String> domains, final int range) {
            this(ports, qpNums, srqNums, remoteKeys, domains, range, false);
        }

        /** Queue pairs of another process' device, under its virtual addresses. */
        public static ContextIds inherited(final PortIds[] ports, final ExceptionSet qpNums,
                final Map<Integer, String> domains) {
            return new ContextIds(ports, qpNums, ExceptionSet.EMPTY, ExceptionSet.EMPTY, domains,
                    NumberRanges.NONE, true);
        }

        private ContextIds(final PortIds[] ports, final ExceptionSet qpNums, final ExceptionSet srqNums,
                final ExceptionSet remoteKeys, final Map<Integer, String> domains, final int range,
                final boolean inherited) {
            this.range = range;
            this.inherited = inherited;
            this.ports = ports.clone();
            this.qpNums = qpNums;
            this.srqNums = srqNums;
            this.remoteKeys = remoteKeys;
            this.domains = Map.copyOf(domains);
        }

        /** Whether both have an XRC domain open: requests to queue pairs of one may name queues and keys of the other. */
        public boolean sharesDomain(final ContextIds other) {
            for (final String domain : domains.values()) {
                if (other.domains.containsValue(domain)) {
                    return true;
                }
            }
            return false;
        }

        public int portCount() {
            return ports.length;
        }

        public PortIds portAt(final int n) {
            return ports[n];
        }

        /** The port that a packet to this virtual address reaches, or null. */
        public PortIds portAnswering(final int lid, final Gid gid) {
            for (final PortIds port : ports) {
                if (port.answersTo(lid, gid)) {
                    return port;
                }
            }
            return null;
        }

        /** Whether both are views of one device as the application knows it: they share a virtual address. */
        public boolean sameDevice(final ContextIds other) {
            for (final PortIds port : ports) {
                if (port.virtualLid != 0 && other.portAnswering(port.virtualLid, null) != null) {
                    return true;
                }
                for (int i = 0; i < port.gidCount(); i++) {
                    if (other.portAnswering(0, port.gidAt(i).virtual) != null) {
                        return true;
                    }
                }
            }
            return false;
        }

        /** Whether both are views of one device as the subnet knows it: they share a real address. */
        public boolean sameRealDevice(final ContextIds other) {
            for (final PortIds port : ports) {
                for (final PortIds another : other.ports) {
                    if (port.sameRealPort(another)) {
                        return true;
                    }
                }
            }
            return false;
        }
    }

    private static final int VERSION = 6;

    public final int rank;
    private final ContextIds[] contexts;

    public OwnerRecord(final int rank, final ContextIds[] contexts) {
        this.rank = rank;
        this.contexts = contexts.clone();
    }

    public int contextCount() {
        return contexts.length;
    }

    public ContextIds contextAt(final int n) {
        return contexts[n];
    }

    public byte[] encode() {
        final RecordWriter out = new RecordWriter(256).i8(VERSION).i32(rank).i32(contexts.length);
        for (final ContextIds context : contexts) {
            out.i8(context.inherited ? 1 : 0).i32(context.range).i32(context.ports.length);
            for (final PortIds port : context.ports) {
                port.write(out);
            }
            context.qpNums.write(out);
            context.srqNums.write(out);
            context.remoteKeys.write(out);
            out.i32(context.domains.size());
            new TreeMap<Integer, String>(context.domains).forEach((number, domain) -> out.i32(number).text(domain));
        }
        return out.toByteArray();
    }

    public static OwnerRecord decode(final byte[] bytes) {
        final RecordReader in = new RecordReader(bytes).version(VERSION);
        final int rank = in.i32();
        final ContextIds[] contexts = new ContextIds[in.count(16)];
        for (int i = 0; i < contexts.length; i++) {
            final boolean inherited = in.i8() != 0;
            final int range = in.i32();
            final PortIds[] ports = new PortIds[in.count(13)];
            for (int k = 0; k < ports.length; k++) {
                ports[k] = PortIds.read(in);
            }
            final ExceptionSet qpNums = ExceptionSet.read(in);
            final ExceptionSet srqNums = ExceptionSet.read(in);
            final ExceptionSet remoteKeys = ExceptionSet.read(in);
            final Map<Integer, String> domains = new TreeMap<Integer, String>();
            for (int left = in.count(8); left > 0; left--) {
                domains.put(in.i32(), in.text());
            }
            contexts[i] = new ContextIds(ports, qpNums, srqNums, remoteKeys, domains, range, inherited);
        }
        in.end();
        return new OwnerRecord(rank, contexts);
    }
}
