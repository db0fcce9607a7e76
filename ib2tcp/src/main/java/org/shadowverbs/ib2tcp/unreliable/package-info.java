// SPDX-License-Identifier: Apache-2.0
/**
 * The transports of unreliable connections and of datagrams. Uses system, wire, queue and engine.
 */
package org.shadowverbs.ib2tcp.unreliable;
