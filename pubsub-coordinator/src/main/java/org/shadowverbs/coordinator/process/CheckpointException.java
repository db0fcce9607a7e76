// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.List;

/** Processes could not be saved or restored. The message is one line for the user. */
public sealed class CheckpointException extends Exception permits PassingStateException {
    private static final long serialVersionUID = 1L;

    /** What stands in the way, one by one. */
    private final transient List<Finding> findings;

    /**
     * Makes one.
     *
     * @param message one line for the user
     */
    public CheckpointException(final String message) {
        this(message, null);
    }

    /**
     * Makes one with its cause.
     *
     * @param message one line for the user
     * @param cause   what happened, may be null
     */
    public CheckpointException(final String message, final Throwable cause) {
        super(message, cause);
        findings = List.of();
    }

    /**
     * Makes one of findings; the first is the message, and the others are counted.
     *
     * @param findings what stands in the way, at least one
     */
    public CheckpointException(final List<Finding> findings) {
        super(findings.size() == 1
                ? findings.getFirst().toString()
                : findings.getFirst() + " (and " + (findings.size() - 1) + " more)");
        this.findings = List.copyOf(findings);
    }

    /**
     * What stands in the way.
     *
     * @return one by one; empty when something failed that was not foreseen
     */
    public List<Finding> findings() {
        return findings;
    }
}
