// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import org.shadowverbs.bindings.verbs.ibv_context;

/** An open device (ibv_open_device(3)). Of the engine's thread. */
final class DeviceContext {
    /** Of the struct ibv_context. */
    final long address;
    /** Its asynchronous events. */
    final Events async;
    /** Objects that are left of it; it is not closed before they are gone. */
    int users;

    DeviceContext(final long address, final Events async) {
        this.address = address;
        this.async = async;
    }
}
