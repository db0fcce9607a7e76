// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.shadowverbs.coordinator.agent.Agent;
import org.shadowverbs.coordinator.agent.AgentOptions;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.process.Criu;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.store.ChronicleStore;
import org.shadowverbs.coordinator.store.LazyStore;
import org.shadowverbs.coordinator.store.MemoryStore;
import org.shadowverbs.coordinator.store.PublishedStore;
import org.shadowverbs.coordinator.system.Autogroup;

/**
 * {@code agent}: one for each host and coordinator. What follows {@code --} is the command that starts the coordinator
 * anew when it is lost.
 */
final class AgentCommand extends CliCommand {
    private static final int JOIN_MILLIS = 30_000;
    private static final String FETCHED = "fetched.map-";
    /** Of fetched values, some hundred bytes each. To open the map for more takes as long as all else that an agent does first. */
    private static final int FEW = 4096;
    private static final Pattern PID = Pattern.compile("[0-9]{1,18}");

    private final Map<String, String> environment;
    private final AddressOptions coordinator = new AddressOptions(this);
    private final StoreOptions store = new StoreOptions(this, "where to look for the coordinator when it is not where it was; a"
            + " coordinator says so by itself");
    private final Supplier<Boolean> background = flag("--daemon", "in the background; returns when it is ready");
    private final Supplier<Boolean> spare = flag("--spare", "this host has no part in the job before another one is lost (--recover)");
    private final Supplier<List<String>> coordinatorCommand = operands("COMMAND", "0..*",
            "after --: starts the coordinator when it is lost");

    AgentCommand(final Map<String, String> environment) {
        super("runs the agent of this host", "launch does it by itself.");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        final Address address = coordinator.address(environment);
        if (background.get()) {
            return daemon(address);
        }
        Autogroup.comeFirst();
        try (Agent agent = new Agent(options(address, Verdict.SAME_BACKEND, own(), spare.get(), coordinatorCommand.get()), new Criu(),
                store(address))) {
            if (!agent.awaitJoined(JOIN_MILLIS)) {
                throw new CommandException("agent: " + (agent.refusal().isEmpty()
                        ? address.nobodyAnswers() + store.hint(environment) : agent.refusal()));
            }
            System.out.println(Agent.ready(agent.job(), hostName()));
            System.out.close();
            agent.await();
            return 0;
        } catch (IOException e) {
            throw new CommandException("agent: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 1;
        }
    }

    private List<String> own() throws CommandException {
        final List<String> own = Installation.daemon("agent");
        own.addAll(arguments());
        return own;
    }

    static AgentOptions options(final Address address, final String backend, final List<String> own, final boolean spare,
            final List<String> coordinatorCommand) throws IOException, CommandException {
        final Path directory =
                RunDirectory.make(RunDirectory.root(address.environment()), address.host(), address.port());
        return new AgentOptions(address.host(), address.port(), hostName(), directory,
                RunDirectory.agentSocket(directory), address.secret(), JobSecret.made(directory).isEmpty(), backend,
                address.environment().getOrDefault("SHADOWVERBS_TCP_ADDRESS", ""), own,
                spare, coordinatorCommand, Installation.daemon("coordinator"));
    }

    /** Chronicle Map reaches into the JDK; a JVM started without the options for that keeps the ids on its heap. */
    static PublishedStore store(final Address address) throws IOException {
        final Path run = address.runDirectory();
        removeLeftovers(run);
        // A name of its own: an agent that is just ending removes its file when this one may already have one.
        final Path file = run.resolve(FETCHED + ProcessHandle.current().pid());
        return Object.class.getModule().isOpen("java.lang.reflect", ChronicleStore.class.getModule())
                ? new LazyStore(() -> ChronicleStore.open(file), FEW)
                : new MemoryStore();
    }

    /** What agents that were killed had fetched, which is of no use to another one. */
    private static void removeLeftovers(final Path run) throws IOException {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(run, FETCHED + "*")) {
            for (final Path file : files) {
                final Matcher pid = PID.matcher(file.getFileName().toString().substring(FETCHED.length()));
                if (!pid.lookingAt() || ProcessHandle.of(Long.parseLong(pid.group())).isEmpty()) {
                    Files.deleteIfExists(file);
                }
            }
        }
    }

    /** As the coordinator, messages and manifests name this host. */
    static String hostName() throws IOException {
        final Path kernel = Path.of("/proc/sys/kernel/hostname");
        return Files.exists(kernel) ? Files.readString(kernel).strip() : InetAddress.getLocalHost().getHostName();
    }

    private int daemon(final Address address) throws CommandException {
        final List<String> service = Installation.daemon("agent");
        service.addAll(argumentsOfDaemon());
        try {
            final Path directory =
                    RunDirectory.make(RunDirectory.root(environment), address.host(), address.port());
            System.out.println(Daemons.answers(RunDirectory.agentSocket(directory))
                    ? Agent.ready(CoordinatorClient.ping(address), hostName())
                    : Daemons.start("the agent", service, directory.resolve("agent.err")));
            return 0;
        } catch (IOException e) {
            throw new CommandException("agent: " + e.getMessage());
        }
    }
}
