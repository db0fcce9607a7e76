// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

/** A verb that failed, with the errno value that its caller is to get. */
public final class VerbsException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int errno;
    private final boolean loud;

    /** An ordinary failure: the application gets errno, nothing is said. */
    public VerbsException(final int errno) {
        this(errno, null);
    }

    /** A failure that is ours to explain: {@code message} goes to stderr as one line. */
    public VerbsException(final int errno, final String message) {
        super(message, null, false, message != null);
        this.errno = errno == 0 ? VerbsErrno.EIO : errno;
        this.loud = message != null;
    }

    public int errno() {
        return errno;
    }

    public boolean loud() {
        return loud;
    }

    public static VerbsException unsupported(final String what) {
        return new VerbsException(VerbsErrno.EOPNOTSUPP, what + " is not virtualized yet (EOPNOTSUPP)");
    }

    /**
     * @param err an errno value, or 0
     * @throws VerbsException unless it is 0
     */
    public static void check(final int err) {
        if (err != 0) {
            throw new VerbsException(err);
        }
    }
}
