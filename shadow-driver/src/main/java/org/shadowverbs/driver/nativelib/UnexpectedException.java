// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

/** One line about an exception that should not have been. */
public final class UnexpectedException {
    private UnexpectedException() {
    }

    public static String describe(final Throwable thrown) {
        final StringBuilder b = new StringBuilder(160);
        for (Throwable t = thrown; t != null && b.length() < 400; t = t.getCause()) {
            if (b.length() > 0) {
                b.append("; cause: ");
            }
            b.append(t.getClass().getSimpleName());
            if (t.getMessage() != null) {
                b.append(": ").append(t.getMessage().replace('\n', ' '));
            }
            final StackTraceElement[] trace = t.getStackTrace();
            for (int i = 0; i < trace.length; i++) {
                if (trace[i].getClassName().startsWith("org.shadowverbs")) {
                    b.append(" at ").append(trace[i].getFileName()).append(':').append(trace[i].getLineNumber());
                    break;
                }
            }
        }
        return b.toString();
    }
}
