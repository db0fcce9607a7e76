// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.Command;
import org.shadowverbs.coordinator.protocol.HostMessages.Line;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;

/** Asks a coordinator for something. */
public final class CoordinatorClient {
    private static final int CONNECT_MILLIS = 5_000;

    private CoordinatorClient() {
    }

    /** No coordinator listens there. */
    public static final class Unreachable extends Exception {
        private static final long serialVersionUID = 1L;

        Unreachable(final String message) {
            super(message);
        }
    }

    /** It has ended before it has answered. */
    private static final class Lost extends CommandException {
        private static final long serialVersionUID = 1L;

        Lost(final String message) {
            super(message);
        }
    }

    /**
     * Sends the command and waits for its result.
     *
     * @param deadlineMillis 0: as long as it takes (the coordinator has deadlines of its own)
     */
    public static Result call(final Address address, final String name, final Map<String, String> arguments,
            final long deadlineMillis, final Consumer<String> lines) throws CommandException, Unreachable {
        final FrameChannel channel;
        try {
            channel = FrameChannel.connect(new InetSocketAddress(address.host(), address.port()), CONNECT_MILLIS);
        } catch (IOException | RuntimeException e) {
            throw new Unreachable(address.nobodyAnswers() + " ("
                    + (e instanceof java.nio.channels.UnresolvedAddressException
                    || e instanceof java.net.UnknownHostException ? "unknown host" : e.getMessage()) + ")");
        }
        final Thread guard = deadlineMillis == 0 ? null : Thread.ofVirtual().start(() -> {
            try {
                Thread.sleep(deadlineMillis);
                channel.close();
            } catch (InterruptedException e) {
                return; // answered in time
            }
        });
        try (channel) {
            channel.write(new Command(FrameType.VERSION, address.secret(), name, arguments));
            for (;;) {
                final Message message = channel.read();
                switch (message) {
                    case Line line -> lines.accept(line.text());
                    case Result result -> {
                        return result;
                    }
                    case Refused refused -> throw new CommandException("the coordinator at " + address + " refuses: "
                            + refused.reason());
                    default -> throw new CommandException("what listens at " + address + " is no coordinator");
                }
            }
        } catch (EOFException e) {
            throw new Lost("the coordinator at " + address + " was lost before " + name + " was done");
        } catch (java.nio.channels.ClosedChannelException e) {
            throw new CommandException("no answer to " + name + " from the coordinator at " + address + " within "
                    + deadlineMillis / 1000 + " s");
        } catch (IOException e) {
            throw new CommandException("connection to " + address + ": " + e.getMessage()
                    + " (is it a coordinator that listens there?)");
        } finally {
            if (guard != null) {
                guard.interrupt();
            }
        }
    }

    /** The name of the job there, or an empty string when nobody listens, or whoever does is just ending. */
    static String ping(final Address address) throws CommandException {
        return pinged(address).text();
    }

    /** What a coordinator says of its job when it is pinged, all of one moment; empty when nobody listens there. */
    static String said(final Address address) throws CommandException {
        return pinged(address).json();
    }

    private static Result pinged(final Address address) throws CommandException {
        try {
            return call(address, "ping", Map.of(), 10_000, line -> { });
        } catch (Unreachable | Lost e) {
            return new Result(0, "", "");
        }
    }

    /**
     * A number in what it has said; 0 when it has not said it. It is looked for in the text: a command that becomes a program does not
     * load what reads JSON.
     */
    static int number(final String said, final String name) {
        final Matcher found = Pattern.compile('"' + name + "\":(\\d{1,9})").matcher(said);
        return found.find() ? Integer.parseInt(found.group(1)) : 0;
    }
}
