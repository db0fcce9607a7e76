// SPDX-License-Identifier: Apache-2.0
/**
 * What a rank uses to take part in checkpoints. It runs inside the application's process: only java.base, few classes,
 * one thread while a link is open and none while the rank is detached.
 *
 * <p>The life of a rank:
 * <pre>
 *   link = RankLink.connect(socket, new RankHello(uid, pid, tree, program, epoch, FRESH), deadline, hearer)
 *   for (;;) switch (link.next()) {
 *     CheckpointRequest r: exchange ANNOUNCE, CLOSE, PAIRED (unless Phase.pairs said so of CLOSE),
 *                          DRAIN (rounds until reply.unanimous()), DETACH
 *                          open link.verdictPipe() for reading; destroy the real objects
 *                          link.detached(epoch); link.close(); Verdict.parse(line read from the pipe)
 *                          connect again (REATTACHING) at verdict.agent()
 *                          exchange PUBLISHED, CONNECTED, RECEIVES_POSTED, REPLAYED; link.done(epoch)
 *     LinkLost:            the agent is gone: connect again in the background, the application runs on
 *     Shutdown:            the job is over
 *   }
 * </pre>
 * {@link org.shadowverbs.coordinator.client.CheckpointAborted} out of an exchange: with {@code reattach()} every rank
 * goes through PUBLISHED to REPLAYED (again, if it was on that way) and then calls {@code done}; without it
 * the rank opens its gate and calls {@code done}.
 */
package org.shadowverbs.coordinator.client;
