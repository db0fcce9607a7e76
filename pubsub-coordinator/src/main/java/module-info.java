// SPDX-License-Identifier: Apache-2.0
/** Coordinator, node agent, the ranks' client of both, and the command line. */
@SuppressWarnings("requires-automatic") // Chronicle Map has no module descriptor.
module org.shadowverbs.coordinator {
    requires com.fasterxml.jackson.databind;
    requires chronicle.map;

    exports org.shadowverbs.coordinator.client;
}
