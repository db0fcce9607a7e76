// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.util.Collection;
import org.shadowverbs.coordinator.protocol.ShellMessages.ShellFailed;
import org.shadowverbs.coordinator.protocol.ShellMessages.StartShell;

/** Passes on what hosts ask each other to run. Guarded by the job's lock, which whoever calls it holds. */
final class Shells {
    private final Reachable reachable;

    /** Has the coordinator listen where agents of other hosts reach it. */
    interface Reachable {
        /**
         * @param address of the coordinator's host, if it listens at the loopback only
         * @return the address; empty: it listens where all know
         */
        String at(String address) throws IOException;
    }

    Shells(final Reachable reachable) {
        this.reachable = reachable;
    }

    /** To the agent of that host; or back, when there is none. */
    void start(final AgentSession from, final StartShell m, final Collection<AgentSession> agents) {
        final AgentSession there = agents.stream().filter(agent -> isHost(agent, m)).findFirst().orElse(null);
        if (there != null) {
            there.send(m);
            return;
        }
        String coordinator = "";
        String problem = "host " + m.host() + " has no agent of this job";
        boolean noAgent = true;
        try {
            coordinator = m.callers().isEmpty() ? "" : reachable.at(m.callers().getFirst());
        } catch (IOException e) {
            problem = "an agent on host " + m.host() + " can't reach the coordinator: " + e.getMessage();
            noAgent = false;
        }
        from.send(new ShellFailed(m.id(), m.origin(), problem, noAgent, coordinator));
    }

    /** To the agent that has asked, if it is still there. */
    static void failed(final ShellFailed m, final Collection<AgentSession> agents) {
        agents.stream().filter(agent -> agent.id().equals(m.origin())).forEach(agent -> agent.send(m));
    }

    private static boolean isHost(final AgentSession agent, final StartShell m) {
        return isName(agent.host(), m.host()) || agent.addresses().stream().anyMatch(address -> m.hostAddresses().contains(address.address()));
    }

    /** Whether both are names of one host, with or without a domain. */
    static boolean isName(final String one, final String other) {
        return one.equals(other) || isShortOf(one, other) || isShortOf(other, one);
    }

    private static boolean isShortOf(final String name, final String longer) {
        // Not for addresses: of these each number is needed.
        return longer.startsWith(name + ".") && !longer.matches("[0-9.]+");
    }
}
