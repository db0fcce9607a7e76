// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

/** One message: it becomes one frame, whose body is the record's components ({@link RecordCodec}). */
public interface Message {
    /** The type byte of its frame. */
    default byte type() {
        return Codec.type(getClass());
    }
}
