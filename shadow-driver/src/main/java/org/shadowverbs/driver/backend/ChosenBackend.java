// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** Which backend is in use: another one may be from a restart on, when no real object is left of the one before. */
public final class ChosenBackend {
    private final Native library;
    private volatile Backend chosen;
    private boolean restored;
    private String secret = "";
    private String address = "";

    /** @param name see {@link BackendName}; null or empty: the HCA */
    public ChosenBackend(final Native library, final String name) {
        this.library = library;
        choose(name == null || name.isEmpty() ? BackendName.HCA : name);
    }

    /** For tests: one that stays. */
    public ChosenBackend(final Backend only) {
        library = null;
        chosen = only;
    }

    /** To be asked for with each verb. */
    public Backend now() {
        return chosen;
    }

    /**
     * Gate closed and no real object left, or no device opened yet.
     *
     * @throws VerbsException there is no such backend
     */
    public void choose(final String name) {
        if (chosen != null && chosen.name().equals(name)) {
            return;
        }
        switch (name) {
            case BackendName.HCA:
                select(false, false);
                chosen = new HcaBackend();
                break;
            case BackendName.TCP:
            case BackendName.TCP_INFINIBAND:
                final boolean infiniband = name.equals(BackendName.TCP_INFINIBAND);
                select(true, infiniband);
                chosen = new Ib2TcpBackend(library, infiniband);
                if (restored) {
                    chosen.restored(secret, address);
                }
                break;
            default:
                throw new VerbsException(VerbsErrno.EINVAL, "there is no backend " + name);
        }
    }

    /** See {@link Backend#restored}; one that is chosen later hears it, too. */
    public void restored(final String secretNow, final String addressNow) {
        restored = true;
        secret = secretNow;
        address = addressNow;
        chosen.restored(secretNow, addressNow);
    }

    /** At the start the library has read the same environment. */
    private void select(final boolean tcp, final boolean lids) {
        if (chosen != null) {
            library.tcpSelect(tcp, lids);
        }
    }
}
