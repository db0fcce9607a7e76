// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

/** The errno values that the driver itself gives; Linux's numbers, the same on every architecture we run on. */
public final class VerbsErrno {
    public static final int ENOENT = 2;
    public static final int EIO = 5;
    static final int EAGAIN = 11;
    public static final int ENOMEM = 12;
    public static final int EBUSY = 16;
    public static final int ENODEV = 19;
    public static final int EINVAL = 22;
    public static final int ENOSYS = 38;
    public static final int ENODATA = 61;
    public static final int EOPNOTSUPP = 95;
    public static final int ENOTCONN = 107;
    public static final int ETIMEDOUT = 110;

    private VerbsErrno() {
    }

    public static String name(final int errno) {
        switch (errno) {
            case ENOENT:
                return "ENOENT";
            case EIO:
                return "EIO";
            case EAGAIN:
                return "EAGAIN";
            case ENOMEM:
                return "ENOMEM";
            case EBUSY:
                return "EBUSY";
            case ENODEV:
                return "ENODEV";
            case EINVAL:
                return "EINVAL";
            case ENOSYS:
                return "ENOSYS";
            case ENODATA:
                return "ENODATA";
            case EOPNOTSUPP:
                return "EOPNOTSUPP";
            case ETIMEDOUT:
                return "ETIMEDOUT";
            default:
                return "errno " + errno;
        }
    }
}
