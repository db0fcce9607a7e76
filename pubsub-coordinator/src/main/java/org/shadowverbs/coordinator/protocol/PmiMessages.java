// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * How the trees of a restarted job answer in their launcher's place what ranks ask by PMI: each tree (native/restore-init/pmi.c)
 * tells its agent, which passes it on, and has the coordinator's last answer from it.
 */
public final class PmiMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.ofEntries(
            Map.entry(FrameType.PMI_STATE, PmiState.class),
            Map.entry(FrameType.PMI_NEWS, PmiNews.class));

    private PmiMessages() {
    }

    /** How many barriers a rank has entered, and how many it has passed. Who does nothing any more has entered all. */
    public record PmiRank(int rank, long entered, long passed) {
    }

    /**
     * First and only message of a tree to its agent, and from there to the coordinator.
     *
     * @param space the launcher's name for the ranks that belong together
     * @param size how many they are, on all hosts
     * @param number grows with each state of the tree
     * @param ranks those of the tree; the first one names it
     * @param put what they have put and the agent has not heard yet
     * @param wanted keys that others may have put
     * @param abort why the whole job is to end; empty: it is not
     */
    public record PmiState(int version, String space, int size, long number, List<PmiRank> ranks, Map<String, byte[]> put,
            Set<String> wanted, String abort) implements Message {
        /** The rank that names the tree; -1: it has none. */
        public int first() {
            return ranks.isEmpty() ? -1 : ranks.getFirst().rank();
        }
    }

    /**
     * The coordinator's answer to an agent, and the agent's to a tree.
     *
     * @param first the rank that names the tree
     * @param number of the state that is answered; 0: none has been answered yet
     * @param passed so many barriers are over
     * @param all whether all ranks of the space have been heard of, so that a key that is not found was not put
     * @param found of the keys that were wanted
     */
    public record PmiNews(String space, int first, long number, long passed, boolean all, Map<String, byte[]> found)
            implements Message {
    }
}
