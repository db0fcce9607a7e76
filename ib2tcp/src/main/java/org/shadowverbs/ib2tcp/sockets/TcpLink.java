// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Handshake;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** A link over a TCP connection, from the first SYN or accept to its end. */
final class TcpLink extends Link {
    private static final int READS = 8;
    private static final int BATCHES = 4;

    private enum Stage {
        CONNECTING, AWAITS_CHALLENGE, AWAITS_HELLO, AWAITS_PROOF, ESTABLISHED
    }

    final int fd;
    /** When a handshake must be over. */
    final long deadline;
    /** In the engine's list of links that have something to write. */
    boolean dirty;
    /** In epoll: place in the table, and generation. */
    long key;
    private final TcpDevice engine;
    private Stage stage;
    private boolean blocked;
    /** The records of the handshake. */
    private long hello;
    private int received;

    TcpLink(final TcpDevice engine, final int fd, final boolean accepted, final long deadline) {
        super(engine);
        this.engine = engine;
        this.fd = fd;
        this.deadline = deadline;
        hello = engine.posix.allocate(Handshake.HELLO + Handshake.CHALLENGE + Handshake.PROOF);
        stage = accepted ? Stage.AWAITS_HELLO : Stage.CONNECTING;
    }

    boolean established() {
        return stage == Stage.ESTABLISHED;
    }

    boolean connecting() {
        return stage == Stage.CONNECTING;
    }

    void close() {
        engine.posix.close(fd);
        if (hello != 0) {
            engine.posix.free(hello);
            hello = 0;
        }
        free();
    }

    @Override
    public void wake() {
        if (!dirty && !blocked && stage == Stage.ESTABLISHED) {
            engine.dirty(this);
        }
    }

    @Override
    public boolean waits() {
        return stage != Stage.ESTABLISHED || blocked;
    }

    /** Readable, or writable, as epoll says. @return whether something has come @throws ProtocolException the connection is at an end, with the reason */
    boolean ready(final boolean readable, final boolean writable) throws ProtocolException {
        if (stage == Stage.CONNECTING) {
            final int err = engine.posix.socketError(fd);
            if (err != 0) {
                throw new ProtocolException("connect: errno " + err);
            }
            if (writable) {
                engine.handshake.hello(hello, engine.prefix, engine.id, peerPrefix, peerId, engine.nonce());
                stage = Stage.AWAITS_CHALLENGE;
                engine.watch(this, false);
                put(hello, Handshake.HELLO);
            }
            return true;
        }
        if (writable && blocked) {
            blocked = false;
            engine.watch(this, false);
            wake();
        }
        if (readable) {
            if (stage == Stage.ESTABLISHED) {
                return read();
            }
            greet();
        }
        return true;
    }

    private void put(final long from, final int bytes) throws ProtocolException {
        // The first bytes of a connection: there is room in the socket.
        if (engine.posix.write(fd, from, bytes) != bytes) {
            throw new ProtocolException("the connection broke during the handshake");
        }
    }

    private boolean get(final long to, final int bytes) throws ProtocolException {
        final long got = engine.posix.receive(fd, to + received, bytes - received);
        if (got == 0 || got < 0 && engine.posix.errno() != Posix.EAGAIN && engine.posix.errno() != Posix.EINTR) {
            throw new ProtocolException("the connection was closed during the handshake");
        }
        received += (int) Math.max(0, got);
        if (received < bytes) {
            return false;
        }
        received = 0;
        return true;
    }

    private void greet() throws ProtocolException {
        final long challenge = hello + Handshake.HELLO;
        final long proof = challenge + Handshake.CHALLENGE;
        if (stage == Stage.AWAITS_HELLO && get(hello, Handshake.HELLO)) {
            final String refusal = engine.handshake.challenge(hello, challenge, engine.prefix, engine.id,
                    engine.nonce());
            put(challenge, Handshake.CHALLENGE);
            if (refusal != null) {
                throw new ProtocolException(refusal);
            }
            stage = Stage.AWAITS_PROOF;
        } else if (stage == Stage.AWAITS_CHALLENGE && get(challenge, Handshake.CHALLENGE)) {
            engine.handshake.proof(hello, challenge, proof);
            put(proof, Handshake.PROOF);
            establish();
        } else if (stage == Stage.AWAITS_PROOF && get(proof, Handshake.PROOF)) {
            engine.handshake.check(hello, challenge, proof);
            peerPrefix = Memory.net64(hello + 8);
            peerId = Memory.net64(hello + 16);
            establish();
        }
    }

    private void establish() {
        stage = Stage.ESTABLISHED;
        engine.posix.free(hello);
        hello = 0;
        if (Address.ipv4(peerId) == Address.ipv4(engine.id)) {
            engine.posix.unpace(fd);
        }
        engine.established(this);
        wake();
    }

    private boolean read() throws ProtocolException {
        boolean any = false;
        for (int i = 0; i < READS; i++) {
            final long got;
            final long room;
            if (inbound.direct()) {
                inbound.openTarget();
                room = inbound.target.bytes();
                got = engine.posix.readv(fd, inbound.target.start(), inbound.target.count());
                check(got);
                inbound.readDirectly(Math.max(0, got));
            } else {
                final long to = inbound.space();
                room = inbound.room();
                got = engine.posix.receive(fd, to, room);
                check(got);
                inbound.read((int) Math.max(0, got));
            }
            any |= got > 0;
            if (got < room) {
                break;
            }
        }
        return any;
    }

    private void check(final long got) throws ProtocolException {
        if (got == 0) {
            throw new ProtocolException(null); // closed in good order
        }
        if (got < 0 && engine.posix.errno() != Posix.EAGAIN && engine.posix.errno() != Posix.EINTR) {
            throw failed();
        }
    }

    /** A process that ends with something unread ends in good order, too. Its kernel says so by a reset. */
    private ProtocolException failed() {
        final int errno = engine.posix.errno();
        return new ProtocolException(errno == Posix.ECONNRESET || errno == Posix.EPIPE ? null : "errno " + errno);
    }

    /** Whether the socket was full, and epoll is to say when it is not. */
    boolean blocked() {
        return blocked;
    }

    /** Writes what there is. */
    void write() throws ProtocolException {
        for (int i = 0; i < BATCHES; i++) {
            if (batch.isEmpty() && !fill()) {
                return;
            }
            final Vectors vectors = batch.vectors();
            final long put = engine.posix.send(fd, vectors.start(), vectors.count());
            if (put == vectors.bytes()) {
                batch.clear();
            } else if (put >= 0) {
                vectors.advance(put);
            } else if (engine.posix.errno() == Posix.EAGAIN) {
                blocked = true;
                engine.watch(this, true);
                return;
            } else if (engine.posix.errno() != Posix.EINTR) {
                throw failed();
            }
        }
        if (!idle()) {
            wake();
        }
    }
}
