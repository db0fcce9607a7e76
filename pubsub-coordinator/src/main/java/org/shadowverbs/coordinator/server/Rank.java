// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.MemberState;

/** A rank as the coordinator knows it. Guarded by the job's lock. */
final class Rank {
    final String uid;
    final int number;
    AgentSession agent;
    long hostPid;
    long pid;
    long tree;
    String program;
    MemberState state;
    /** What it last said it waits for. */
    String waitingFor = "";
    /** When it was last heard of, by the epoch's clock. */
    long lastSign;

    Rank(final Member member, final int number, final AgentSession agent) {
        uid = member.uid();
        this.number = number;
        update(member, agent);
    }

    void update(final Member member, final AgentSession from) {
        agent = from;
        hostPid = member.hostPid();
        pid = member.pid();
        tree = member.treeRootPid();
        program = member.program();
    }

    /** As messages name it. */
    @Override
    public String toString() {
        return "rank " + number + " (host " + agent.host() + ", pid " + hostPid + ")";
    }
}
