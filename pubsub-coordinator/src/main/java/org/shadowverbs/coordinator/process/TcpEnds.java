// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.List;

/**
 * The ends of TCP connections on one host whose other ends are on other hosts. Only who knows all hosts of a job can tell which
 * of them are connections within the job.
 *
 * @param leaving those that processes of the job have
 * @param foreign those to hosts of the job that other processes have, or none: closed, or not accepted yet
 * @param waiting those of them that have come to a listener of the job and that nobody has accepted yet; the holder listens
 */
public record TcpEnds(List<TcpEnd> leaving, List<TcpEnd> foreign, List<TcpEnd> waiting) {
    /** Of a host that has none. */
    public static final TcpEnds NONE = new TcpEnds(List.of(), List.of(), List.of());
}
