// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.Line;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartEnd;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartJoin;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartShare;
import org.shadowverbs.coordinator.protocol.RestartMessages.Share;

/**
 * A restart on several hosts, from the first that comes to the job running. All or nothing: a host that can't do its
 * share, or is lost, ends it for all, and each ends what it has restored.
 */
final class RestartGathering {
    private final String checkpoint;
    private final String checksum;
    private final int hosts;
    private final Map<Outbox, RestartJoin> joined = new LinkedHashMap<>();
    private final Set<Process> arrived = new HashSet<>();
    private boolean dealt;
    private String problem;

    /** One that restarts: it first joins, and then says hello as the agent of what it has restored. */
    private record Process(String host, long pid) {
        static Process of(final RestartJoin join) {
            return new Process(join.host(), join.pid());
        }

        static Process of(final AgentHello hello) {
            return new Process(hello.host(), hello.pid());
        }
    }

    RestartGathering(final RestartJoin first) {
        checkpoint = first.checkpoint();
        checksum = first.checksum();
        hosts = first.hosts();
    }

    /** Another host; with the last of them the shares are dealt out. */
    synchronized void join(final RestartJoin join, final Outbox link) throws ProtocolException {
        if (problem != null) {
            throw new ProtocolException("the restart that this host was to be part of has failed: " + problem);
        }
        if (dealt) {
            throw new ProtocolException("a restart of " + checkpoint + " on " + names() + " is under way here");
        }
        if (!join.checkpoint().equals(checkpoint) || !join.checksum().equals(checksum) || join.hosts() != hosts) {
            throw new ProtocolException("here " + names() + " waits to restart " + checkpoint + " on " + hosts
                    + " hosts, not " + (join.checkpoint().equals(checkpoint) && join.hosts() == hosts
                            ? "another checkpoint of the same name" : join.checkpoint() + " on " + join.hosts()));
        }
        joined.put(link, join);
        if (joined.size() < hosts) {
            final int more = hosts - joined.size();
            link.send(new Line("host " + join.host() + " has come; waiting for " + more + " more of " + hosts
                    + " hosts"));
            return;
        }
        deal();
    }

    private void deal() {
        dealt = true;
        final List<Map.Entry<Outbox, RestartJoin>> inOrder = new ArrayList<>(joined.entrySet());
        inOrder.sort(Comparator.comparing(e -> e.getValue().host()));
        try {
            final List<List<Integer>> shares = Shares.deal(inOrder.stream().map(Map.Entry::getValue).toList());
            final List<Share> all = new ArrayList<>();
            for (int i = 0; i < shares.size(); i++) {
                all.add(new Share(inOrder.get(i).getValue().host(), shares.get(i), inOrder.get(i).getValue().addresses()));
            }
            for (int i = 0; i < shares.size(); i++) {
                inOrder.get(i).getKey().send(new RestartShare(i, all));
            }
        } catch (Stopped e) {
            end(e.getMessage());
        }
    }

    /** An agent with restored members, ready to bring them to life. */
    synchronized void arrived(final AgentHello hello) {
        arrived.add(Process.of(hello));
    }

    synchronized boolean haveAllArrived() {
        return dealt && joined.values().stream().map(Process::of).allMatch(arrived::contains);
    }

    synchronized boolean expects(final AgentHello hello) {
        return dealt && problem == null && joined.values().stream().map(Process::of).anyMatch(Process.of(hello)::equals);
    }

    /** That host's connection has ended. Before the shares are dealt out another may come in its place. */
    synchronized void left(final Outbox link, final String why) {
        if (dealt) {
            end("host " + joined.get(link).host() + ": " + why);
        } else {
            joined.remove(link);
        }
    }

    synchronized boolean isOver() {
        return problem != null || joined.isEmpty();
    }

    synchronized boolean isDealt() {
        return dealt;
    }

    /** Tells all hosts, once. An empty text: the job runs. */
    synchronized void end(final String why) {
        if (problem == null) {
            problem = why;
            joined.keySet().forEach(link -> {
                link.send(new RestartEnd(why));
                link.closeAfterSending();
            });
        }
    }

    /** Who is waited for, as far as that is known. */
    synchronized String waitingFor() {
        if (!dealt) {
            return "of the " + hosts + " hosts that are to restart " + checkpoint + " only " + names()
                    + (joined.size() == 1 ? " has come" : " have come");
        }
        return String.join(", ", joined.values().stream().map(Process::of).filter(p -> !arrived.contains(p))
                .map(p -> "host " + p.host()).toList()) + " did not verify its images";
    }

    private String names() {
        return String.join(", ", joined.values().stream().map(RestartJoin::host).sorted().toList());
    }
}
