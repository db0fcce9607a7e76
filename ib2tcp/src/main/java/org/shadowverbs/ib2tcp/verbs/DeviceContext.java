// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import org.shadowverbs.bindings.verbs.ibv_context;
import org.shadowverbs.ib2tcp.system.Events;

/** An open device (ibv_open_device(3)). Used by the engine's thread only. */
final class DeviceContext {
    /** Address of the struct ibv_context. */
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
