// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.driver.backend.Backend;

/** What a process has used of its devices, as it will have to be made anew; for the manifest, and for messages. */
public final class Used {
    private final Map<String, Long> largest = new HashMap<String, Long>();

    private Used() {
    }

    private void atLeast(final String name, final long value) {
        if (value > 0) {
            largest.merge(name, value, Math::max);
        }
    }

    private void one(final String name) {
        largest.merge(name, 1L, Long::sum);
    }

    /** Of all devices that are open. */
    public static List<Needs> all(final Model model, final int rank) {
        final List<Needs> needs = new ArrayList<Needs>();
        for (final Context context : model.contexts.inOrder()) {
            needs.add(of(model, context, rank));
        }
        return needs;
    }

    public static Needs of(final Model model, final Context context, final int rank) {
        final Used used = new Used();
        for (final Pd pd : model.pds.inOrder()) {
            used.count(pd.context == context && pd.below == null, "max_pd");
        }
        for (final Mr mr : model.mrs.inOrder()) {
            if (mr.pd.context == context) {
                used.one("max_mr");
                used.atLeast("max_mr_size", mr.what.length);
            }
        }
        for (final Mw mw : model.mws.inOrder()) {
            used.count(mw.pd.context == context, "max_mw");
        }
        for (final Dm dm : model.dms.inOrder()) {
            used.atLeast("max_dm_size", dm.context == context ? dm.length : 0);
        }
        for (final Ah ah : model.ahs.inOrder()) {
            used.count(ah.pd.context == context, "max_ah");
        }
        for (final Cq cq : model.cqs.inOrder()) {
            if (cq.context == context) {
                used.one("max_cq");
                used.atLeast("max_cqe", cq.cqe + (long) Backend.CQ_ROOM);
            }
        }
        for (final Srq srq : model.srqs.inOrder()) {
            if (srq.pd.context == context) {
                used.one("max_srq");
                used.atLeast("max_srq_wr", srq.maxWr);
                used.atLeast("max_srq_sge", srq.maxSge);
            }
        }
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.context() == context && qp.home) {
                used.queuePair(qp);
            }
        }
        final Map<String, Long> had = new HashMap<String, Long>(context.limits);
        had.keySet().retainAll(used.largest.keySet());
        return new Needs(rank, context.deviceName, infiniband(context), used.largest, had);
    }

    private void count(final boolean belongs, final String name) {
        if (belongs) {
            one(name);
        }
    }

    private void queuePair(final Qp qp) {
        one("max_qp");
        atLeast("max_qp_wr", Math.max(qp.maxSendWr == 0 ? 0 : qp.maxSendWr + 1L, qp.maxRecvWr));
        atLeast("max_sge", Math.max(qp.maxSendSge, qp.maxRecvSge));
        atLeast("max_inline_data", qp.maxInlineData);
        atLeast("max_qp_init_rd_atom", qp.attributes.maxReads());
        atLeast("max_qp_rd_atom", qp.attributes.maxPeerReads());
        atLeast("pkey_tbl_len", qp.attributes.pkeyIndex() + 1L);
        atLeast("phys_port_cnt", qp.attributes.port());
    }

    /** As the program sees it. */
    public static boolean infiniband(final Context context) {
        return context.virtualLinkLayers != null && context.virtualLinkLayers.length > 0
                && context.virtualLinkLayers[0] == verbs_h.IBV_LINK_LAYER_INFINIBAND();
    }
}
