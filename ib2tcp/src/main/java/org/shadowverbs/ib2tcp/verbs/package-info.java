// SPDX-License-Identifier: Apache-2.0
/**
 * Control verbs of the device: each makes, changes or ends an object; {@link
 * org.shadowverbs.ib2tcp.verbs.TcpVerbs} first. Uses all other rooms but the transports.
 */
package org.shadowverbs.ib2tcp.verbs;
