// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataOutput;
import java.io.IOException;

/** One message: it becomes one frame. Each record also has a static {@code read}, the inverse of {@link #write}. */
public interface Message {
    byte type();

    void write(DataOutput out) throws IOException;
}
