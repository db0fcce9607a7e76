// SPDX-License-Identifier: Apache-2.0
/** The control plane in a rank: model of every resource, drain policy, replay, backends. */
module org.shadowverbs.driver {
    requires org.shadowverbs.bindings;
    requires org.shadowverbs.ib2tcp;
    requires org.shadowverbs.ids;
    requires org.shadowverbs.coordinator;
}
