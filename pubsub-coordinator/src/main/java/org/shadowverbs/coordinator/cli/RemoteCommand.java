// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;
import org.shadowverbs.coordinator.store.Seat;
import org.shadowverbs.coordinator.store.Whereabouts;

/** checkpoint, status, kill, quit: the coordinator does them, this prints what it says. */
final class RemoteCommand extends CliCommand {
    private static final long ANSWER_MILLIS = 30_000;

    private final Map<String, String> environment;
    private final long answerMillis;
    private final Map<String, Supplier<Boolean>> flags;
    private final AddressOptions coordinator = new AddressOptions(this);
    private final StoreOptions store = new StoreOptions(this, "where to look for the coordinator when it is not where it was");
    private final Supplier<Boolean> json = json();

    /**
     * @param flagDescriptions plain options that are passed on as the arguments of their names
     * @param answerMillis how long the answer may take; 0 where only the coordinator's own deadlines count
     */
    private RemoteCommand(final Map<String, String> environment, final long answerMillis,
            final Map<String, String> flagDescriptions, final String... description) {
        super(description);
        this.environment = environment;
        this.answerMillis = answerMillis;
        flags = new TreeMap<>();
        new TreeMap<>(flagDescriptions).forEach((flag, text) -> flags.put(flag, flag("--" + flag, text)));
    }

    static RemoteCommand checkpoint(final Map<String, String> environment) {
        return new RemoteCommand(environment, 0, Map.of(
                "check", "say whether a checkpoint could be made now: status 0 if so, else 1 with a line for each reason; nothing is"
                        + " changed",
                "kill", "end the job once the checkpoint is safe",
                "detached", "close the devices for the checkpoint, also where they could stay open",
                "pre-copy", "copy memory while the programs run, so that they stand still only while what they have written to since is"
                        + " saved"),
                "saves the job; it runs on, or ends with --kill", "Blocks until the checkpoint is safe; prints its folder last,"
                + " and the phases before it (with --json on standard error).");
    }

    static RemoteCommand status(final Map<String, String> environment) {
        return new RemoteCommand(environment, ANSWER_MILLIS, Map.of(),
                "says which job runs, on which hosts, and what each rank does");
    }

    static RemoteCommand kill(final Map<String, String> environment) {
        return new RemoteCommand(environment, ANSWER_MILLIS, Map.of("now", "by SIGKILL at once"), "ends the job's processes",
                "By SIGTERM, and after 10 seconds by SIGKILL.");
    }

    static RemoteCommand quit(final Map<String, String> environment) {
        return new RemoteCommand(environment, ANSWER_MILLIS, Map.of(), "ends coordinator and agents",
                "The job's programs run on and can't be checkpointed any more.");
    }

    private static void failed(final Result result) {
        result.text().lines().forEach(line -> System.err.println("shadowverbs: " + line));
    }

    private static boolean isTrue(final Map<String, String> arguments, final String flag) {
        return Boolean.parseBoolean(arguments.get(flag));
    }

    @Override
    public Integer call() throws CommandException {
        final Map<String, String> arguments = flags.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, flag -> flag.getValue().get().toString()));
        if (isTrue(arguments, "check") && arguments.values().stream().filter("true"::equals).count() > 1) {
            throw new UsageException(name() + ": --check excludes all other options but --json");
        }
        final Address address = coordinator.address(environment);
        try {
            return print(address, arguments);
        } catch (CoordinatorClient.Unreachable e) {
            return elsewhere(address, arguments, e);
        }
    }

    /** Where the store says that it is, if that is one place. */
    private int elsewhere(final Address address, final Map<String, String> arguments, final CoordinatorClient.Unreachable why)
            throws CommandException {
        final List<Whereabouts> held = store.all(environment).values().stream().filter(Whereabouts::held).toList();
        if (held.size() == 1) {
            final Seat seat = held.getFirst().seat();
            for (final String host : seat.addresses()) {
                final Address other = new Address(host, seat.port(), true, environment);
                if (!other.toString().equals(address.toString())) {
                    try {
                        System.err.println("shadowverbs: the coordinator is at " + other + " now, on host " + seat.host());
                        return print(other, arguments);
                    } catch (CoordinatorClient.Unreachable e) {
                        continue; // it may have another address
                    }
                }
            }
        }
        throw new CommandException(name() + ": " + why.getMessage() + store.hint(environment));
    }

    private int print(final Address address, final Map<String, String> arguments)
            throws CommandException, CoordinatorClient.Unreachable {
        final Result result = CoordinatorClient.call(address, name(), arguments, answerMillis,
                line -> (json.get() ? System.err : System.out).println(line));
        if (json.get()) {
            System.out.println(result.json());
            if (result.status() != 0) {
                failed(result);
            }
        } else if (result.status() == 0 || result.text().startsWith("/")) {
            System.out.println(result.text());
        } else {
            failed(result);
        }
        return result.status();
    }
}
