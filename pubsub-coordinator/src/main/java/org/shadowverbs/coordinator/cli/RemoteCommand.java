// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;

/** checkpoint, status, kill, quit: the coordinator does them, this prints what it says. */
final class RemoteCommand extends CliCommand {
    private static final long ANSWER_MILLIS = 30_000;

    private final Map<String, String> environment;
    private final long answerMillis;
    private final Map<String, Supplier<Boolean>> flags;
    private final AddressOptions coordinator = new AddressOptions(this);
    private final Supplier<Boolean> json = json();

    /**
     * @param flag a plain option that is passed on as the argument of that name; empty for none
     * @param answerMillis how long the answer may take; 0 where only the coordinator's own deadlines count
     */
    private RemoteCommand(final Map<String, String> environment, final long answerMillis, final String flag,
            final String flagDescription, final String... description) {
        super(description);
        this.environment = environment;
        this.answerMillis = answerMillis;
        flags = flag.isEmpty() ? Map.of() : Map.of(flag, flag("--" + flag, flagDescription));
    }

    static RemoteCommand checkpoint(final Map<String, String> environment) {
        return new RemoteCommand(environment, 0, "kill", "end the job once the checkpoint is safe",
                "saves the job; it runs on, or ends with --kill", "Blocks until the checkpoint is safe; prints its folder last,"
                + " and the phases before it (with --json on standard error).");
    }

    static RemoteCommand status(final Map<String, String> environment) {
        return new RemoteCommand(environment, ANSWER_MILLIS, "", "",
                "says which job runs, on which hosts, and what each rank does");
    }

    static RemoteCommand kill(final Map<String, String> environment) {
        return new RemoteCommand(environment, ANSWER_MILLIS, "now", "by SIGKILL at once", "ends the job's processes",
                "By SIGTERM, and after 10 seconds by SIGKILL.");
    }

    static RemoteCommand quit(final Map<String, String> environment) {
        return new RemoteCommand(environment, ANSWER_MILLIS, "", "", "ends coordinator and agents",
                "The job's programs run on and can't be checkpointed any more.");
    }

    @Override
    public Integer call() throws CommandException {
        final Map<String, String> arguments = flags.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, flag -> flag.getValue().get().toString()));
        try {
            final Result result = CoordinatorClient.call(coordinator.address(environment), name(), arguments, answerMillis,
                    line -> (json.get() ? System.err : System.out).println(line));
            if (json.get()) {
                System.out.println(result.json());
                if (result.status() != 0) {
                    System.err.println("shadowverbs: " + result.text());
                }
            } else if (result.status() == 0 || result.text().startsWith("/")) {
                System.out.println(result.text());
            } else {
                System.err.println("shadowverbs: " + result.text());
            }
            return result.status();
        } catch (CoordinatorClient.Unreachable e) {
            throw new CommandException(name() + ": " + e.getMessage());
        }
    }
}
