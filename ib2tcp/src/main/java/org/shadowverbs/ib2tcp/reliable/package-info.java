// SPDX-License-Identifier: Apache-2.0
/**
 * The transport of reliable connections and of XRC. Uses system, wire, queue and engine.
 */
package org.shadowverbs.ib2tcp.reliable;
