// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

/** Of a store whose words nobody needs. */
public final class SilentListener implements JobStore.Listener {
    @Override
    public void line(final String line) {
    }

    @Override
    public void superseded(final String why) {
    }
}
