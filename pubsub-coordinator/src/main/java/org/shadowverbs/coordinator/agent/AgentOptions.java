// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.nio.file.Path;
import java.util.List;

/**
 * How an agent runs.
 *
 * @param coordinatorHost where the coordinator listens
 * @param coordinatorPort its port
 * @param host this host's name
 * @param runDirectory for socket, FIFOs and log
 * @param socket for ranks
 * @param secret to be shown to the coordinator, and to be the restored ranks' from then on; empty: none
 * @param secretGiven by the user, so that ranks and launches must show it, too; one that the coordinator has made is for the
 *     network: who reaches the socket, in a folder of one user's, has nothing to prove
 * @param backend as in a verdict
 * @param tcpAddress at which restored ranks are to be reached over TCP ({@code SHADOWVERBS_TCP_ADDRESS}); empty: not given
 * @param ownCommand starts this agent anew should it be lost; empty where the processes of the job end with it
 * @param spare whether this host is kept for when another is lost
 * @param coordinatorCommand starts the coordinator anew when it is lost; empty: somebody else does
 * @param successorCommand starts, with more arguments, a coordinator on this host in the place of one that was lost with its host;
 *     empty: none is started here
 */
public record AgentOptions(String coordinatorHost, int coordinatorPort, String host, Path runDirectory, Path socket,
        String secret, boolean secretGiven, String backend, String tcpAddress,
        List<String> ownCommand, boolean spare, List<String> coordinatorCommand, List<String> successorCommand) {
}
