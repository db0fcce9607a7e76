// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** This rank cannot go on with the checkpoint or the reattachment; the message names the object and the reason. */
public final class Refusal extends Exception {
    private static final long serialVersionUID = 1L;

    public Refusal(final String message) {
        super(message);
    }
}
