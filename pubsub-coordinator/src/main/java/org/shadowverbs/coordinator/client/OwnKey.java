// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/** What each rank says of itself for the whole job; the coordinator forgets it when the rank's process has ended. */
public enum OwnKey {
    /** The last epoch that it has begun. */
    BEGUN,
    /** The last epoch that it has come back to work from. */
    BACK,
    /** What has become of its ids. */
    IDS;

    public String of(final int rank) {
        return prefix() + rank;
    }

    /** What those of all ranks begin with. */
    public String prefix() {
        return name().toLowerCase(java.util.Locale.ROOT) + '/';
    }
}
