// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;

/** Every message, filled at random, comes back as it was; bytes that are no message end in a ProtocolException. */
class CodecTest {
    private static final List<Class<?>> MESSAGES = Stream.of(RankMessages.class, LaunchMessages.class,
            HostMessages.class, RestartMessages.class, PmiMessages.class, ShellMessages.class, RecoveryMessages.class,
            LevelMessages.class)
            .flatMap(c -> Arrays.stream(c.getDeclaredClasses()))
            .filter(Message.class::isAssignableFrom).toList();

    @Provide
    Arbitrary<Message> messages() {
        return Arbitraries.of(MESSAGES).flatMap(
                type -> Arbitraries.randomValue(random -> (Message) random(type, random)));
    }

    private static Object random(final Type type, final Random r) {
        if (type instanceof ParameterizedType p) {
            return randomCollection(p, r);
        }
        if (type == int.class) {
            return r.nextInt();
        } else if (type == long.class) {
            return r.nextLong();
        } else if (type == byte.class) {
            return (byte) r.nextInt();
        } else if (type == boolean.class) {
            return r.nextBoolean();
        } else if (type == byte[].class) {
            final byte[] b = new byte[r.nextInt(50)];
            r.nextBytes(b);
            return b;
        } else if (type == String.class) {
            return r.ints(r.nextInt(20), 0, 0x11000).map(c -> c < 0xD800 ? c : 0x10000 + c).collect(StringBuilder::new,
                    StringBuilder::appendCodePoint, StringBuilder::append).toString();
        } else if (type == Integer.class) {
            return r.nextInt();
        }
        final Class<?> record = (Class<?>) type;
        try {
            final RecordComponent[] parts = record.getRecordComponents();
            final Class<?>[] types = Arrays.stream(parts).map(RecordComponent::getType).toArray(Class<?>[]::new);
            final Constructor<?> constructor = record.getDeclaredConstructor(types);
            return constructor.newInstance(
                    Arrays.stream(parts).map(c -> random(c.getGenericType(), r)).toArray());
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(record.getName(), e);
        }
    }

    private static Object randomCollection(final ParameterizedType p, final Random r) {
        final int n = r.nextInt(5);
        final Type element = p.getActualTypeArguments()[0];
        if (p.getRawType() == Map.class) {
            final Map<Object, Object> map = new LinkedHashMap<>();
            for (int i = 0; i < n; i++) {
                map.put(random(element, r), random(p.getActualTypeArguments()[1], r));
            }
            return map;
        }
        final List<Object> list = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            list.add(random(element, r));
        }
        return p.getRawType() == Set.class ? new LinkedHashSet<>(list) : list;
    }

    @Property(tries = 2000)
    void comesBackAsItWas(@ForAll("messages") final Message message) throws Exception {
        final byte[] frame = Codec.frame(message);
        final Message back = Codec.decode(Arrays.copyOfRange(frame, 4, frame.length));
        assertEquals(message.getClass(), back.getClass());
        assertArrayEquals(frame, Codec.frame(back));
    }

    @Property(tries = 5000)
    void anyBytesAreAMessageOrAnException(@ForAll final byte[] bytes) {
        decode(bytes);
    }

    /** Damage to a real message gets further into the decoder than random bytes do. */
    @Property(tries = 5000)
    void aDamagedMessageIsAMessageOrAnException(@ForAll("messages") final Message message, @ForAll final int where,
            @ForAll final byte what, @ForAll final boolean cut) {
        final byte[] frame = Codec.frame(message);
        final byte[] body = Arrays.copyOfRange(frame, 4, frame.length);
        final int at = Math.floorMod(where, body.length);
        if (at > 0) {
            body[at] = what;
        }
        decode(cut ? Arrays.copyOf(body, at) : body);
    }

    private static void decode(final byte[] bytes) {
        try {
            Codec.decode(bytes);
        } catch (ProtocolException e) {
            return; // the only exception there may be
        }
    }

    /** What peers of this version expect: other bytes need another version. */
    @Test
    void theComponentsOfARecordAreItsBytesInTheirOrder() {
        final String hex = HexFormat.of().formatHex(Codec.frame(new HostMessages.AgentHello(4, "s", "a", "é", 5, "", -1, 2, true,
                List.of(new HostMessages.Member("u", 3, 1, 2, 1, "p", 6, (byte) 7)),
                List.of(new HostMessages.Tree(8, List.of("x", ""), "/")), Map.of("k", "v"), List.of(),
                List.of(new HostMessages.NetAddress("d", "9")))));
        assertEquals("0000009f" + "28" + "00000004" + "00000001" + "73" + "00000001" + "61" + "00000002" + "c3a9"
                + "0000000000000005" + "00000000" + "ffffffffffffffff" + "00000002" + "01"
                + "00000001" + "00000001" + "75" + "00000003" + "0000000000000001" + "0000000000000002" + "0000000000000001"
                + "00000001" + "70" + "0000000000000006" + "07"
                + "00000001" + "0000000000000008" + "00000002" + "00000001" + "78" + "00000000" + "00000001" + "2f"
                + "00000001" + "00000001" + "6b" + "00000001" + "76" + "00000000"
                + "00000001" + "00000001" + "64" + "00000001" + "39", hex);
        assertEquals("00000018" + "0d" + "0000000000000001" + "00000002" + "00" + "00000006" + "726561736f6e",
                HexFormat.of().formatHex(Codec.frame(new RankMessages.Abort(1, 2, false, "reason"))));
    }

    @Test
    void halfOfAPairOfSurrogatesIsAQuestionMark() throws Exception {
        for (final String half : List.of("\ud800", "a\udc00b", "\ud800\ud800\udc00", "\udc00\ud800")) {
            final byte[] frame = Codec.frame(new HostMessages.Say(half));
            final Message back = Codec.decode(Arrays.copyOfRange(frame, 4, frame.length));
            assertEquals(new String(half.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8), ((HostMessages.Say) back).line());
        }
    }

    @Test
    void aCountBeyondTheFrameAllocatesNothing() {
        final byte[] lookup = {FrameType.LOOKUP, 0, 0, 0, 1, 0x7f, (byte) 0xff, (byte) 0xff, (byte) 0xff};
        final ProtocolException e = assertThrows(ProtocolException.class, () -> Codec.decode(lookup));
        assertEquals("count 2147483647 does not fit into the remaining 0 bytes", e.getMessage());
    }

    @Test
    void everyTypeNumberIsOfOneMessage() {
        final Set<Byte> types = new LinkedHashSet<>();
        for (final Class<?> type : MESSAGES) {
            types.add(((Message) random(type, new Random(1))).type());
        }
        assertEquals(MESSAGES.size(), types.size());
    }

    /** What says some of the messages in C. */
    @Test
    void programsOfATreeSpeakTheSameVersion() throws IOException {
        assertDefines("agent-frame.h", "PROTOCOL_VERSION", FrameType.VERSION);
        assertDefines("pmi-agent.c", "PMI_STATE", FrameType.PMI_STATE);
        assertDefines("pmi-agent.c", "PMI_NEWS", FrameType.PMI_NEWS);
        assertDefines("rsh.c", "ASK_SHELL", FrameType.ASK_SHELL);
        assertDefines("rsh.c", "SHELL_ANSWER", FrameType.SHELL_ANSWER);
    }

    private static void assertDefines(final String file, final String name, final int value) throws IOException {
        final String source = Files.readString(Path.of("../native/restore-init", file));
        assertTrue(source.lines().anyMatch(line -> line.matches("#define " + name + "\\s+" + value + "(\\s.*)?")), name + " " + value);
    }
}
