// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A job's keys in Redis, and what may be done to them: each call is one script, which the server runs as a whole.
 *
 * <pre>
 * shadowverbs:{KEY}            a hash: holder "NUMBER NONCE" of the last coordinator, seq of its last write, state, seat
 * shadowverbs:{KEY}:lease      the same as holder, as long as its lease lasts
 * shadowverbs:{KEY}:published  a hash: the published ids
 * </pre>
 *
 * <p>The holder has the fencing number: whoever takes the lease writes a higher one, and no write of a coordinator counts that is
 * not the holder. Nor does one that comes later than another that was sent after it, over a newer connection. For one thread.
 */
final class RedisJob implements AutoCloseable {
    private static final String PREFIX = "shadowverbs:";
    /** So long it is remembered that the job is over, for a coordinator that was cut off meanwhile. */
    private static final Duration OVER = Duration.ofMinutes(10);

    private static final String TAKE = """
            local held = redis.call('GET', KEYS[2])
            local holder = redis.call('HGET', KEYS[1], 'holder')
            local known = redis.call('HEXISTS', KEYS[1], 'state') == 1
            if held then return {0, held} end
            if ARGV[4] == '1' and not known then return {-1, ''} end
            local last = holder and tonumber(string.match(holder, '^%d+')) or 0
            local number = math.max(last + 1, tonumber(ARGV[3]))
            local token = string.format('%d %s', number, ARGV[1])
            redis.call('HSET', KEYS[1], 'holder', token, 'seq', 0)
            redis.call('PERSIST', KEYS[1])
            redis.call('SET', KEYS[2], token, 'PX', ARGV[2])
            return {number, token}
            """;
    private static final String RENEW = """
            local holder = redis.call('HGET', KEYS[1], 'holder')
            if not holder then return {-1} end
            if holder ~= ARGV[1] then return {0} end
            if redis.call('PEXPIRE', KEYS[2], ARGV[2]) == 0 then redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) end
            return {1}
            """;
    /** Begins each script that writes; a late one does as if it were done. */
    private static final String GUARD = """
            local holder = redis.call('HGET', KEYS[1], 'holder')
            if not holder then return {-1} end
            if holder ~= ARGV[1] then return {0} end
            if tonumber(redis.call('HGET', KEYS[1], 'seq')) >= tonumber(ARGV[2]) then return {1} end
            redis.call('HSET', KEYS[1], 'seq', ARGV[2])
            """;
    private static final String KEEP = GUARD + """
            redis.call('HSET', KEYS[1], 'state', ARGV[3], 'seat', ARGV[4])
            return {1}
            """;
    private static final String PUBLISH = GUARD + """
            local puts = tonumber(ARGV[3])
            for i = 4, 3 + 2 * puts, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
            for i = 4 + 2 * puts, #ARGV do redis.call('HDEL', KEYS[3], ARGV[i]) end
            return {1}
            """;
    private static final String FORGET_PUBLISHED = GUARD + """
            redis.call('DEL', KEYS[3])
            return {1}
            """;
    private static final String LOOK = """
            local held = redis.call('GET', KEYS[2])
            local holder = redis.call('HGET', KEYS[1], 'holder')
            if not holder or redis.call('HEXISTS', KEYS[1], 'state') == 0 then return {} end
            return {holder, held == holder and '1' or '0', redis.call('HGET', KEYS[1], 'seat') or '',
                    redis.call('HGET', KEYS[1], 'state') or ''}
            """;
    private static final String READ_PUBLISHED = "return redis.call('HGETALL', KEYS[3])";
    private static final String END = """
            if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then return {0} end
            redis.call('DEL', KEYS[2], KEYS[3])
            redis.call('HDEL', KEYS[1], 'state', 'seat')
            redis.call('HSET', KEYS[1], 'holder', string.match(ARGV[1], '^%d+') .. ' over')
            redis.call('PEXPIRE', KEYS[1], ARGV[2])
            return {1}
            """;
    private static final String RELEASE = """
            if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
            return {1}
            """;
    private static final String ALL = """
            local found = {}
            local cursor = '0'
            repeat
                local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
                cursor = page[1]
                for _, key in ipairs(page[2]) do found[#found + 1] = key end
            until cursor == '0'
            return found
            """;

    /** What has come of a call. */
    enum Outcome {
        DONE,
        /** There is a later coordinator, or the job is over. */
        SUPERSEDED,
        /** The store has lost all that it knew of the job. */
        UNKNOWN
    }

    /**
     * What has come of taking the lease.
     *
     * @param number of the new holder; 0: another has the lease; -1: the job is not known
     * @param token of the holder, be it the new one or another
     */
    record Taken(long number, String token) {
    }

    private final RedisLink link;
    private final List<String> keys;

    RedisJob(final RedisLink link, final String key) {
        this.link = link;
        final String hash = PREFIX + "{" + key + "}";
        keys = List.of(hash, hash + ":lease", hash + ":published");
    }

    StorePlace place() {
        return link.place();
    }

    /**
     * Takes the lease, if nobody has it.
     *
     * @param nonce tells this coordinator from any other
     * @param atLeast the number is this or higher
     * @param known whether only a job is taken over of which there is a state
     */
    Taken take(final String nonce, final Duration lease, final long atLeast, final boolean known) throws StoreException {
        final List<Object> answer = link.run(TAKE, keys, bytes(nonce), millis(lease), bytes(Long.toString(atLeast)),
                bytes(known ? "1" : "0"));
        return new Taken((Long) answer.get(0), text(answer.get(1)));
    }

    /** The lease lasts so long from now on; also one that has run out, while nobody else has taken it. */
    Outcome renew(final String token, final Duration lease) throws StoreException {
        return outcome(link.run(RENEW, keys, bytes(token), millis(lease)));
    }

    /** @param sequence goes up with each write of this coordinator */
    Outcome keep(final String token, final long sequence, final String state, final String seat) throws StoreException {
        return outcome(link.run(KEEP, keys, bytes(token), bytes(Long.toString(sequence)), bytes(state), bytes(seat)));
    }

    /** Puts and removes published ids. */
    Outcome publish(final String token, final long sequence, final Map<String, byte[]> put, final Collection<String> removed)
            throws StoreException {
        final List<byte[]> arguments = new ArrayList<>(List.of(bytes(token), bytes(Long.toString(sequence)),
                bytes(Integer.toString(put.size()))));
        put.forEach((key, value) -> {
            arguments.add(bytes(key));
            arguments.add(value);
        });
        removed.forEach(key -> arguments.add(bytes(key)));
        return outcome(link.run(PUBLISH, keys, arguments.toArray(new byte[0][])));
    }

    Outcome forgetPublished(final String token, final long sequence) throws StoreException {
        return outcome(link.run(FORGET_PUBLISHED, keys, bytes(token), bytes(Long.toString(sequence))));
    }

    /** Where the job's coordinator is; null: the job is not known, or over. */
    Whereabouts look() throws StoreException {
        final List<Object> answer = link.run(LOOK, keys);
        if (answer.isEmpty()) {
            return null;
        }
        final String seat = text(answer.get(2));
        return new Whereabouts(Long.parseLong(text(answer.get(0)).split(" ")[0]), "1".equals(text(answer.get(1))),
                seat.isEmpty() ? null : Seat.of(seat));
    }

    /** The state that was kept last; null: none. */
    String state() throws StoreException {
        final List<Object> answer = link.run(LOOK, keys);
        return answer.isEmpty() ? null : text(answer.get(3));
    }

    Map<String, byte[]> published() throws StoreException {
        final List<Object> all = link.run(READ_PUBLISHED, keys);
        final Map<String, byte[]> published = new HashMap<>();
        for (int i = 0; i < all.size(); i += 2) {
            published.put(text(all.get(i)), (byte[]) all.get(i + 1));
        }
        return published;
    }

    /** Removes all, if the coordinator is the job's; for a while it is remembered that it is over. */
    void end(final String token) throws StoreException {
        link.run(END, keys, bytes(token), millis(OVER));
    }

    /** Gives the lease back. */
    void release(final String token) throws StoreException {
        link.run(RELEASE, keys, bytes(token));
    }

    /** The keys of all jobs that the store knows. */
    static List<String> all(final RedisLink link) throws StoreException {
        return link.run(ALL, List.of(), bytes(PREFIX + "{*}")).stream().map(RedisJob::text)
                .map(name -> name.substring(PREFIX.length() + 1, name.length() - 1)).sorted().toList();
    }

    private static Outcome outcome(final List<Object> answer) {
        return switch (((Long) answer.get(0)).intValue()) {
            case 1 -> Outcome.DONE;
            case 0 -> Outcome.SUPERSEDED;
            default -> Outcome.UNKNOWN;
        };
    }

    private static byte[] millis(final Duration duration) {
        return bytes(Long.toString(duration.toMillis()));
    }

    private static byte[] bytes(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(final Object bytes) {
        return new String((byte[]) bytes, StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        link.close();
    }
}
