// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** The errno values that the driver itself gives; Linux's numbers, the same on every architecture we run on. */
final class VerbsErrno {
    static final int ENOENT = 2;
    static final int EIO = 5;
    static final int EAGAIN = 11;
    static final int ENOMEM = 12;
    static final int EBUSY = 16;
    static final int ENODEV = 19;
    static final int EINVAL = 22;
    static final int ENOSYS = 38;
    static final int ENODATA = 61;
    static final int EOPNOTSUPP = 95;
    static final int ETIMEDOUT = 110;

    private VerbsErrno() {
    }

    static String name(final int errno) {
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
