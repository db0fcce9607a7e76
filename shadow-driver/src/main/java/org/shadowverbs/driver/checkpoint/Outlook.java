// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.CheckAnswer;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Ports;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.ids.QpRecord;

/**
 * What a checkpoint that is made now would be refused for by this rank. The gates are open, the application goes on, and nothing
 * changes: so what can be known at closed gates only, as of XRC domains, is not looked at.
 */
final class Outlook {
    private final Backend backend;
    private final Model model;
    private final int rank;

    Outlook(final Backend backend, final Model model, final int rank) {
        this.backend = backend;
        this.model = model;
        this.rank = rank;
    }

    CheckAnswer look() {
        for (final Context context : model.contexts.inOrder()) {
            Ports.ensure(backend, context, model.masks);
        }
        final PeerTable table = new PeerTable(model, rank);
        table.refresh();
        final List<String> problems = new ArrayList<>();
        final Map<String, List<String>> peers = new LinkedHashMap<>();
        for (final Connection c : table.connections()) {
            if (isSendQueueInError(c.qp)) {
                problems.add(c.name() + ": the send queue is in error (SQE), which cannot be checkpointed; bring it back to RTS");
            }
            if (c.qp.attributes.connected() && !c.qp.wasPaired && !c.qp.peerGone && !c.qp.ofXrc()) {
                final QpRecord own = model.record(c.qp, rank);
                peers.put(c.name(), List.of(own.destKey(QpRecord.Kind.CLOSED), own.destKey(QpRecord.Kind.DESTROYED)));
            }
        }
        return new CheckAnswer(problems, new LinkedHashSet<>(table.published(QpRecord.Kind.CLOSED).keySet()), peers,
                backend.listener());
    }

    /** Only those that are not reliable come into that state. */
    private boolean isSendQueueInError(final Qp qp) {
        if (qp.attributes.state() != verbs_h.IBV_QPS_RTS()
                || qp.type != verbs_h.IBV_QPT_UD() && qp.type != verbs_h.IBV_QPT_UC()) {
            return false;
        }
        try (Arena frame = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(frame);
            synchronized (qp) {
                return qp.real != 0
                        && backend.queryQp(qp.real, attr, verbs_h.IBV_QP_STATE(), ibv_qp_init_attr.allocate(frame)) == 0
                        && ibv_qp_attr.qp_state(attr) == verbs_h.IBV_QPS_SQE();
            }
        }
    }
}
