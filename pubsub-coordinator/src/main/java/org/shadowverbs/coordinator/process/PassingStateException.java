// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/** Something was in a state that it leaves by itself as soon as the processes run on: what was tried may be tried again. */
public final class PassingStateException extends CheckpointException {
    private static final long serialVersionUID = 1L;

    /** The message is one line for the user. */
    public PassingStateException(final String message) {
        super(message);
    }
}
