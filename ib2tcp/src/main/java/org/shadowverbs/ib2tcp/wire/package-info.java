// SPDX-License-Identifier: Apache-2.0
/**
 * What goes over a connection, byte by byte: frames, the handshake and its proof of the job's secret. Uses
 * system.
 */
package org.shadowverbs.ib2tcp.wire;
