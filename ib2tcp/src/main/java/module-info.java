// SPDX-License-Identifier: Apache-2.0
/** A verbs device over TCP: the protocol engine and the control verbs. */
module org.shadowverbs.ib2tcp {
    requires org.shadowverbs.bindings;

    exports org.shadowverbs.ib2tcp;
}
