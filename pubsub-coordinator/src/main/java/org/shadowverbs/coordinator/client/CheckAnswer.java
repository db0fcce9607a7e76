// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a rank knows of a checkpoint that would be made now.
 *
 * @param problems what it would be refused for
 * @param own keys that its queue pairs would be published under
 * @param peers queue pairs that need a peer in the job, each with the keys of which one is to be published
 * @param listener address and port at which its device over TCP listens; empty: it has none
 */
public record CheckAnswer(List<String> problems, Set<String> own, Map<String, List<String>> peers, String listener) {
}
