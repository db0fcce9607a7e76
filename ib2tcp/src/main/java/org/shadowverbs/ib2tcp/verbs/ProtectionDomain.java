// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

/** A protection domain (ibv_alloc_pd(3)). Used by the engine's thread only. */
final class ProtectionDomain {
    final DeviceContext context;
    /** Objects that are left of it; it is not deallocated before they are gone. */
    int users;

    ProtectionDomain(final DeviceContext context) {
        this.context = context;
    }
}
