// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Predicate;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.ProtocolException;

/**
 * Who is in the job and where each is: the agents of its hosts, their ranks, and the programs that were launched. Guarded by
 * the job's lock, which whoever calls it holds.
 */
final class Members {
    private final Map<String, Rank> ranks = new LinkedHashMap<>();
    /** A process keeps its number also when its link broke and it came back. */
    private final Map<String, Integer> numbers = new HashMap<>();
    private final Map<String, AgentSession> agents = new LinkedHashMap<>();
    /** The ids of all that have come to this coordinator, of those, too, that are lost again. */
    private final Set<String> haveJoined = new HashSet<>();
    private final Set<AgentSession> lostAgents = new LinkedHashSet<>();
    /** Ranks that ran when their agent was lost for good, by uid: they may be connected to the others. */
    private final Map<String, Rank> withoutAgent = new LinkedHashMap<>();
    /** Hosts whose agents were lost for good with processes that the job has gone on without. */
    private final Set<String> writtenOff = new HashSet<>();
    /** Those of {@link #numbers}. */
    private final Set<Integer> given = new HashSet<>();
    /** By number. */
    private final Map<Integer, Rank> byNumber = new HashMap<>();
    private int nextNumber;
    private boolean hadTrees;

    /** By uid, in the order in which they came. */
    Collection<Rank> ranks() {
        return ranks.values();
    }

    /** Those that are connected. */
    Collection<AgentSession> agents() {
        return agents.values();
    }

    /** Whether the agents of these ids have all come, though some may be lost again. */
    boolean haveJoined(final Set<String> ids) {
        return haveJoined.containsAll(ids);
    }

    /** Ranks that may live on a host whose agent was lost for good. */
    Collection<Rank> withoutAgent() {
        return withoutAgent.values();
    }

    /** The rank of that uid, or null when it is none of the job, or none any more. */
    Rank rank(final String uid) {
        return ranks.get(uid);
    }

    /** The rank of that number, or null. */
    Rank rank(final int number) {
        return byNumber.get(number);
    }

    /** The last number that was given, if its rank is none of the job any more. */
    OptionalInt lastIfGone() {
        final boolean here = nextNumber == 0 || byNumber.containsKey(nextNumber - 1);
        return here ? OptionalInt.empty() : OptionalInt.of(nextNumber - 1);
    }

    /** Whether no rank has left the job yet. */
    boolean hasAllItsRanks() {
        return nextNumber == ranks.size();
    }

    /** Whether the job's last program has ended: there was one, none is left, and no lost agent can bring one back. */
    boolean haveAllEnded() {
        return hadTrees && ranks.isEmpty() && lostAgents.isEmpty()
                && agents.values().stream().allMatch(a -> a.trees.isEmpty());
    }

    // ---- agents ----

    /**
     * Whether an agent that comes, with nothing, had ranks before: of this one as it was connected, or of one that is waited for.
     * So an agent comes that was cut off and has ended them.
     */
    boolean comesBackWithNothing(final AgentSession session, final AgentHello hello) {
        return hello.members().isEmpty() && hello.trees().isEmpty() && ranks.values().stream().map(rank -> rank.agent)
                .anyMatch(before -> before == agents.get(session.id())
                        || lostAgents.contains(before) && before.host().equals(session.host()));
    }

    /** An agent has come, with its ranks. One of the same id that was connected is closed. */
    void joined(final AgentSession session, final AgentHello hello) throws ProtocolException {
        haveJoined.add(session.id());
        final AgentSession before = agents.put(session.id(), session);
        if (before != null) {
            before.close();
            before.lost = true;
        }
        hadTrees |= !hello.trees().isEmpty() || hello.restored();
        for (final Member member : hello.members()) {
            adopt(member, session).state = MemberState.of(member.state());
        }
        lostAgents.removeIf(lost -> lost.host().equals(session.host()));
    }

    /**
     * The connection of an agent is gone. Its ranks stay until {@link #giveUp}.
     *
     * @return false when it has joined again already
     */
    boolean lost(final AgentSession session) {
        if (!agents.remove(session.id(), session)) {
            return false;
        }
        ranks.values().stream().filter(r -> r.agent == session && r.state == MemberState.RUNNING)
                .forEach(r -> session.leftRunning.add(r.uid));
        return true;
    }

    /** Whether another agent can bring back what the lost one had; then the job is not over before {@link #giveUp}. */
    boolean mayReturn(final AgentSession session) {
        final boolean mayReturn = !session.command().isEmpty() && !session.bound
                && (!session.trees.isEmpty() || ranks.values().stream().anyMatch(r -> r.agent == session));
        if (mayReturn) {
            lostAgents.add(session);
        }
        return mayReturn;
    }

    /** What that host has of the job is none of it any more. */
    void writeOff(final String host) {
        writtenOff.add(host);
    }

    /** The host had processes of the job before anybody here had joined. */
    void lostBefore(final String host) {
        hadTrees = true;
        if (agents.values().stream().noneMatch(agent -> agent.host().equals(host))) {
            writeOff(host);
        }
    }

    /** Whether that was said of the host; once, when an agent joins from there. */
    boolean wasWrittenOff(final String host) {
        return writtenOff.remove(host);
    }

    /** Whether the lost agent had any process of the job. */
    boolean hadProcesses(final AgentSession session) {
        return !session.trees.isEmpty() || ranks.values().stream().anyMatch(r -> r.agent == session);
    }

    /** Whether the lost agent is still waited for. */
    boolean mayStillReturn(final AgentSession session) {
        return lostAgents.contains(session);
    }

    /** Removes the ranks that the lost agent had, and that no other agent has brought back, and returns them. */
    List<Rank> giveUp(final AgentSession session) {
        lostAgents.remove(session);
        final List<Rank> given = ranks.values().stream().filter(r -> r.agent == session).toList();
        for (final Rank rank : given) {
            remove(rank.uid);
            if (session.leftRunning.contains(rank.uid) && !session.command().isEmpty()) {
                withoutAgent.put(rank.uid, rank);
            }
        }
        return given;
    }

    /** Whether an agent is there, and none is lost that may come back. */
    boolean haveAgentsBack() {
        return lostAgents.isEmpty() && !agents.isEmpty();
    }

    /** Whether some process of the job may live. */
    boolean haveProcesses() {
        return !ranks.isEmpty() || agents.values().stream().anyMatch(a -> !a.trees.isEmpty());
    }

    /** These agents have ended all that they had; what agents had that are lost for good is none of the job any more, either. */
    void forgetProcesses(final Collection<AgentSession> ofAgents) {
        ofAgents.forEach(agent -> {
            agent.trees.clear();
            agent.bound = false;
        });
        List.copyOf(ranks.values()).stream()
                .filter(rank -> ofAgents.contains(rank.agent) || rank.agent.lost && !lostAgents.contains(rank.agent))
                .forEach(rank -> remove(rank.uid));
        withoutAgent.clear();
        if (ranks.isEmpty()) {
            numbers.clear();
            given.clear();
            nextNumber = 0;
        }
    }

    // ---- programs ----

    void launched(final AgentSession from, final Tree tree) {
        from.trees.put(tree.hostPid(), tree);
        hadTrees = true;
    }

    /** Returns whether it was there. */
    boolean ended(final AgentSession from, final Tree tree) {
        return from.trees.remove(tree.hostPid()) != null;
    }

    // ---- ranks ----

    /** The rank that the agent speaks of: a new one, with a number of its own, or one that is known, where it is now. */
    Rank adopt(final Member member, final AgentSession session) {
        withoutAgent.remove(member.uid());
        Rank rank = ranks.get(member.uid());
        if (rank == null) {
            final int number = numbers.computeIfAbsent(member.uid(),
                    uid -> member.rank() >= 0 && !given.contains(member.rank()) ? member.rank() : nextNumber);
            given.add(number);
            nextNumber = Math.max(nextNumber, number + 1);
            rank = new Rank(member, number, session);
            ranks.put(rank.uid, rank);
            byNumber.put(number, rank);
        } else {
            rank.update(member, session);
        }
        return rank;
    }

    /** Removes ranks whose agent was lost and that have ended, and returns them. */
    List<Rank> endWithoutAgent(final Predicate<Rank> which) {
        final List<Rank> ended = withoutAgent.values().stream().filter(which).toList();
        ended.forEach(rank -> withoutAgent.remove(rank.uid));
        return ended;
    }

    /** Returns the rank that was removed, or null. */
    Rank remove(final String uid) {
        final Rank rank = ranks.remove(uid);
        if (rank != null) {
            byNumber.remove(rank.number, rank);
        }
        return rank;
    }
}
