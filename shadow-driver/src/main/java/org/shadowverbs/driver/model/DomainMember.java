// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/** An XRC domain as one process has it. Immutable. */
public record DomainMember(int rank, int domain) {
    /** Among all of a domain, for keys. */
    public String name() {
        return rank + "/" + domain;
    }

    public byte[] encode() {
        return new RecordWriter(8).i32(rank).i32(domain).toByteArray();
    }

    public static DomainMember read(final RecordReader in) {
        return new DomainMember(in.i32(), in.i32());
    }
}
