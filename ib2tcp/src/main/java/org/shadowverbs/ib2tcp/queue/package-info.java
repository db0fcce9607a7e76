// SPDX-License-Identifier: Apache-2.0
/**
 * The engine's end of rings and completion queues that it shares with C. Uses system.
 */
package org.shadowverbs.ib2tcp.queue;
