// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.util.Map;
import java.util.Set;

/**
 * What a rank brings to an exchange.
 *
 * @param publish values by key, for all ranks; a later value replaces an earlier one
 * @param want the keys, or wishes for many ({@link NumberedKeys}), whose values the reply is to hold, where it does not
 *        go on with a round ({@link Phase#continues}); else those that it is to hold besides, from now on
 * @param agree whether this rank is done with the phase: a drain ends with the round in which all agree
 * @param note what this rank still waits for (object and peer), for the message of a deadline; may be empty
 */
public record Contribution(Map<String, byte[]> publish, Set<String> want, boolean agree, String note) {
    public static final Contribution AGREED = new Contribution(Map.of(), Set.of(), true, "");
}
