// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.Say;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.JobEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.LaunchEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.LaunchSignal;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Launchers;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Output;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.ProgramEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.StandIn;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.StandingIn;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.UserAsks;

/**
 * The launching commands of this host that stand in for their programs and have a line to the agent (attend.h): they say how their
 * programs end and what the user wants, and are told lines for him and the end of the job. For any thread.
 */
final class StandIns {
    private static final int SIGHUP = 1;
    private static final int SIGINT = 2;
    private static final int SIGQUIT = 3;
    private static final int SIGKILL = 9;
    private static final int SIGUSR1 = 10;
    private static final int SIGUSR2 = 12;
    private static final int SIGTERM = 15;
    private static final Set<Integer> ENDING = Set.of(SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM);
    private static final int SIGNAL_BITS = 0x7f;
    private static final int KILLED_BY = 128;
    private static final long SENDING_MILLIS = 2_000;

    private final EventLog log;
    private final List<String> agentCommand;
    private final Consumer<Message> coordinator;
    private final Consumer<Integer> restoredPrograms;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Set<Line> lines = new LinkedHashSet<>();

    /** A launching command. Guarded by the lock. */
    private static final class Line {
        final StandIn command;
        final Outbox out;
        /** Its program has ended, and that has been told to the coordinator or is nobody's concern. */
        boolean told;
        /** It was told of the end, so that its own is no surprise. */
        boolean done;

        Line(final StandIn command, final Outbox out) {
            this.command = command;
            this.out = out;
        }
    }

    /**
     * @param agentCommand starts this agent anew should it be lost
     * @param restoredPrograms passes a signal on to those that a restore has brought to this host
     */
    StandIns(final EventLog log, final List<String> agentCommand, final Consumer<Message> coordinator,
            final Consumer<Integer> restoredPrograms) {
        this.log = log;
        this.agentCommand = agentCommand;
        this.coordinator = coordinator;
        this.restoredPrograms = restoredPrograms;
    }

    /** Serves one until it ends. */
    void serve(final StandIn command, final FrameChannel channel) throws IOException {
        final Line line = new Line(command, new Outbox(channel, "launch " + command.pid()));
        lock.lock();
        try {
            lines.add(line);
            line.out.send(new StandingIn(agentCommand));
            tellHowMany();
        } finally {
            lock.unlock();
        }
        try {
            for (;;) {
                hear(line, channel.read());
            }
        } catch (EOFException e) {
            return; // finally says it
        } finally {
            line.out.close();
            ended(line);
        }
    }

    private void hear(final Line line, final Message message) throws ProtocolException {
        switch (message) {
            case LaunchEnded m -> programEnded(line, m.status());
            case LaunchSignal m -> signalled(line, m.signal());
            default -> throw new ProtocolException("message of type " + message.type() + " from a launching command");
        }
    }

    private void programEnded(final Line line, final int waitStatus) {
        final int signal = waitStatus & SIGNAL_BITS;
        lock.lock();
        try {
            if (!line.told) {
                line.told = true;
                coordinator.accept(new ProgramEnded(line.command.program(), signal != 0 ? KILLED_BY + signal : waitStatus >> 8 & 0xff));
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void signalled(final Line line, final int signal) {
        if (signal == SIGUSR1 || signal == SIGUSR2) {
            coordinator.accept(new UserAsks(signal == SIGUSR1 ? UserAsks.CHECKPOINT : UserAsks.LAST_CHECKPOINT, signal));
        } else if (ENDING.contains(signal)) {
            log.add("signal " + signal + " to the launching command " + line.command.pid());
            coordinator.accept(new UserAsks(UserAsks.END, signal));
        } else {
            restoredPrograms.accept(signal);
        }
    }

    /** Who kills it wants its program to end: so does the job root. */
    private void ended(final Line line) {
        lock.lock();
        try {
            lines.remove(line);
            if (line.command.stays() && !line.done) {
                coordinator.accept(new UserAsks(UserAsks.END, SIGKILL));
            }
            tellHowMany();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void tellHowMany() {
        coordinator.accept(new Launchers((int) lines.stream().filter(line -> line.command.stays()).count()));
    }

    /** A coordinator has come, which knows of none. */
    void coordinatorCame() {
        lock.lock();
        try {
            if (!lines.isEmpty()) {
                tellHowMany();
            }
        } finally {
            lock.unlock();
        }
    }

    /** The agent ends the programs itself: how they end says nothing. */
    void endedByAgent() {
        lock.lock();
        try {
            lines.forEach(line -> line.told = true);
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Waits until each has said how its program has ended, for at most so long: the job root, which they are from, has ended. */
    void awaitStatuses(final Duration time) {
        final long end = System.nanoTime() + time.toNanos();
        lock.lock();
        try {
            long left = time.toNanos();
            while (left > 0 && lines.stream().anyMatch(line -> !line.told)) {
                changed.awaitNanos(left);
                left = end - System.nanoTime();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            lock.unlock();
        }
    }

    /** Writes a line to the standard error of the first one. @return false: there is none */
    boolean say(final String text) {
        lock.lock();
        try {
            if (lines.isEmpty()) {
                return false;
            }
            lines.iterator().next().out.send(new Say(text));
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** The first one writes it. */
    void output(final Output output) {
        lock.lock();
        try {
            if (!lines.isEmpty()) {
                lines.iterator().next().out.send(output);
            }
        } finally {
            lock.unlock();
        }
    }

    /** All are told that the job is over, and what they are to end with, or that nobody looks after it any more. */
    void jobEnded(final int status) {
        final List<Line> all;
        lock.lock();
        try {
            all = List.copyOf(lines);
            for (final Line line : all) {
                if (!line.done) {
                    line.done = true;
                    line.out.send(new JobEnded(status));
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** Waits until what was said last has been sent. */
    void flush() {
        final List<Line> all;
        lock.lock();
        try {
            all = List.copyOf(lines);
        } finally {
            lock.unlock();
        }
        try {
            for (final Line line : all) {
                line.out.closeAfterSending();
                line.out.join(SENDING_MILLIS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * What takes the place of a descriptor that led out of the job: that of the launching command that has the same open, else one
     * of that number of the first. Null: there is none on this host.
     *
     * @param target as the kernel called it when the image was made
     */
    Path descriptor(final int number, final String target) {
        final List<Line> all;
        lock.lock();
        try {
            all = List.copyOf(lines);
        } finally {
            lock.unlock();
        }
        for (final Line line : all) {
            for (int fd = 0; fd <= 2; fd++) {
                final Path path = path(line, fd);
                if (target.equals(link(path)) && (fd == 0) == (number == 0)) {
                    return path;
                }
            }
        }
        return all.isEmpty() ? null : path(all.getFirst(), Math.min(number, 2));
    }

    private static Path path(final Line line, final int fd) {
        return Path.of("/proc", Long.toString(line.command.pid()), "fd", Integer.toString(fd));
    }

    private static String link(final Path path) {
        try {
            return Files.readSymbolicLink(path).toString();
        } catch (IOException e) {
            return ""; // it is closed, or the command has just ended
        }
    }
}
