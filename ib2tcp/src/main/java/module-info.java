// SPDX-License-Identifier: Apache-2.0
/** A verbs device over TCP: the protocol engine and the control verbs. */
@SuppressWarnings("module") // Those that it exports to are built later.
module org.shadowverbs.ib2tcp {
    requires org.shadowverbs.bindings;

    exports org.shadowverbs.ib2tcp.system to org.shadowverbs.coordinator, org.shadowverbs.driver;
    exports org.shadowverbs.ib2tcp.verbs to org.shadowverbs.driver;
}
