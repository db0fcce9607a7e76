// SPDX-License-Identifier: Apache-2.0
/** Coordinator, node agent, the ranks' client of both, and the command line. */
@SuppressWarnings("requires-automatic") // Chronicle Map has no module descriptor.
module org.shadowverbs.coordinator {
    requires com.fasterxml.jackson.databind;
    requires com.google.protobuf;
    requires info.picocli;
    requires chronicle.map;
    requires lettuce.core;
    requires java.logging;
    requires com.github.luben.zstd_jni;
    requires org.lz4.java;
    requires org.shadowverbs.bindings;
    requires org.shadowverbs.ib2tcp;

    exports org.shadowverbs.coordinator.client;
}
