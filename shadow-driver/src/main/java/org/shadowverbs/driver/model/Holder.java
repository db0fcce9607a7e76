// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

/** A process that has an XRC receive queue pair open, as of the last closed gate. Immutable. */
public record Holder(long id, int rank) {
}
