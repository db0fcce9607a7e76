// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.lifecycle.AfterContainer;
import net.jqwik.api.lifecycle.BeforeContainer;

/**
 * Two coordinators and a server, in any order: what both think, what each is allowed, and what the server loses meanwhile. At most one
 * of them may decide at any time, and what one decides no other overwrites that has a lower number.
 */
class LeasePropertyTest {
    private static final Duration LONG = Duration.ofHours(1);
    private static TestRedis redis;
    private static final List<RedisLink> LINKS = new ArrayList<>();
    private static int jobs;

    /** What happens next, to or by the first or the second. */
    enum Event {
        TAKES, RENEWS, DECIDES, PUBLISHES, SENDS_LATE, LEASE_RUNS_OUT, SERVER_LOSES_ALL
    }

    record Step(Event event, int who) {
    }

    /** As {@link RedisStore} keeps its numbers. */
    private static final class Coordinator {
        final RedisJob job;
        String token = "";
        long number;
        long sequence;

        Coordinator(final RedisJob job) {
            this.job = job;
        }

        boolean take(final String nonce, final boolean known) throws StoreException {
            final RedisJob.Taken taken = job.take(nonce, LONG, number + 1, known);
            if (taken.number() > 0) {
                token = taken.token();
                number = taken.number();
                sequence = 0;
            }
            return taken.number() > 0;
        }
    }

    @BeforeContainer
    static void start() throws Exception {
        redis = new TestRedis();
        LINKS.add(new RedisLink(redis.place()));
        LINKS.add(new RedisLink(redis.place()));
    }

    @AfterContainer
    static void stop() throws Exception {
        LINKS.forEach(RedisLink::close);
        redis.close();
    }

    @Provide
    Arbitrary<List<Step>> steps() {
        return Arbitraries.of(Event.class).flatMap(event -> Arbitraries.of(0, 1).map(who -> new Step(event, who))).list().ofMaxSize(40);
    }

    @Property(tries = 100)
    void atMostOneDecides(@ForAll("steps") final List<Step> steps) throws Exception {
        final String key = "job-" + jobs++;
        final List<Coordinator> both = new ArrayList<>();
        both.add(new Coordinator(new RedisJob(LINKS.get(0), key)));
        both.add(new Coordinator(new RedisJob(LINKS.get(1), key)));
        assertTrue(both.get(0).take("nonce-0", false));
        assertEquals(RedisJob.Outcome.DONE, both.get(0).job.keep(both.get(0).token, ++both.get(0).sequence, "begun", ""));
        int holder = 0;
        boolean leased = true;
        boolean lost = false;
        String state = "begun";
        int count = 0;
        for (final Step step : steps) {
            final Coordinator who = both.get(step.who());
            final boolean holds = holder == step.who();
            switch (step.event()) {
                case TAKES -> {
                    final boolean taken = who.take("nonce-" + step.who(), true);
                    // A job of which nothing is known is nobody's to take over; one that is led is led.
                    assertEquals(!leased && !lost, taken);
                    holder = taken ? step.who() : holder;
                    leased |= taken;
                }
                case RENEWS -> {
                    final RedisJob.Outcome outcome = who.job.renew(who.token, LONG);
                    assertEquals(lost ? RedisJob.Outcome.UNKNOWN : holds ? RedisJob.Outcome.DONE : RedisJob.Outcome.SUPERSEDED, outcome);
                    if (outcome == RedisJob.Outcome.UNKNOWN && who.number > 0) {
                        assertTrue(who.take("nonce-" + step.who(), false)); // and writes it anew
                        assertEquals(RedisJob.Outcome.DONE, who.job.keep(who.token, ++who.sequence, state, ""));
                        holder = step.who();
                        lost = false;
                        leased = true;
                    }
                    leased |= outcome == RedisJob.Outcome.DONE;
                }
                case DECIDES -> {
                    final String next = "decision " + ++count + " of " + step.who();
                    final RedisJob.Outcome outcome = who.job.keep(who.token, ++who.sequence, next, "");
                    assertEquals(lost ? RedisJob.Outcome.UNKNOWN : holds ? RedisJob.Outcome.DONE : RedisJob.Outcome.SUPERSEDED, outcome);
                    state = outcome == RedisJob.Outcome.DONE ? next : state;
                }
                case PUBLISHES -> assertEquals(lost ? RedisJob.Outcome.UNKNOWN : holds ? RedisJob.Outcome.DONE
                        : RedisJob.Outcome.SUPERSEDED, who.job.publish(who.token, ++who.sequence, Map.of("id", new byte[] {1}), List.of()));
                case SENDS_LATE -> who.job.keep(who.token, who.sequence, "what an old connection brings", "");
                case LEASE_RUNS_OUT -> {
                    redis.ask("DEL", "shadowverbs:{" + key + "}:lease");
                    leased = false;
                }
                default -> {
                    redis.ask("DEL", "shadowverbs:{" + key + "}", "shadowverbs:{" + key + "}:lease", "shadowverbs:{" + key
                            + "}:published");
                    leased = false;
                    lost = true;
                }
            }
            if (!lost) {
                assertEquals(state, both.get(0).job.state());
                final Whereabouts where = both.get(1).job.look();
                assertEquals(leased, where.held());
                assertEquals(both.get(holder).number, where.number());
            }
        }
    }
}
