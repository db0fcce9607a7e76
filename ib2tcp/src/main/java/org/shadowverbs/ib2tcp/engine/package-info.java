// SPDX-License-Identifier: Apache-2.0
/**
 * The protocol engine: queue pairs and their two halves, links, registered memory by key, multicast groups.
 * {@link org.shadowverbs.ib2tcp.engine.Device} holds them; sockets and transports come from above. Uses system,
 * wire and queue.
 */
package org.shadowverbs.ib2tcp.engine;
