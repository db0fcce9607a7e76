// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

/**
 * The link that turns read without asking epoll: the one that something came over last. Once it has brought something again
 * and again epoll does not watch it either: to be told of each segment costs whoever sends it. It does so again before
 * anybody relies on epoll for it, that is before a turn sleeps, when the engine's own thread is back, when the link is full,
 * and when turns read another.
 */
final class RecentLink {
    /** It is not recent any more after so many looks in vain. */
    private static final int FORGOTTEN = 128;
    /** Epoll is not asked to watch it after so many that were not. */
    private static final int USUAL = 16;

    private final TcpDevice engine;
    private TcpLink link;
    private int misses;
    private int hits;
    private boolean unwatched;

    RecentLink(final TcpDevice engine) {
        this.engine = engine;
    }

    /** @return null: none */
    TcpLink link() {
        return link;
    }

    /** Something came over that link, as epoll says. */
    void is(final TcpLink found) {
        if (link != found) {
            watch();
            link = found;
            hits = 0;
        }
        misses = 0;
    }

    /** The link has brought something, and may be at an end by that. */
    void brought() {
        misses = 0;
        if (link != null && !unwatched && ++hits >= USUAL && !link.blocked()) {
            engine.unwatch(link);
            unwatched = true;
        }
    }

    /** It has not. */
    void missed() {
        if (++misses == FORGOTTEN) {
            watch();
            link = null;
        }
    }

    /** Lets epoll watch it again. */
    void watch() {
        if (unwatched) {
            engine.watch(link, false);
        }
    }

    /** Epoll watches that link again, or nobody does. @return whether epoll has watched it */
    boolean watched(final TcpLink again) {
        if (link != again) {
            return true;
        }
        final boolean was = !unwatched;
        unwatched = false;
        hits = 0;
        return was;
    }

    /** Before its descriptor is closed. */
    void ends(final TcpLink ending) {
        if (link == ending) {
            watched(ending);
            link = null;
        }
    }
}
