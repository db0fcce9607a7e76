// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ib2tcp.system.Host;

/** Objects with nothing behind them never reach a verbs library, whatever is done with them. */
class NothingBehindTest {
    private static final Fake HOST = new Fake(16);

    /** A verb that the HCA's got would fail with EOPNOTSUPP: it has no function at all. */
    static Stream<Backend> backends() {
        return Stream.of(new HcaBackend(function -> MemorySegment.NULL), new Ib2TcpBackend(HOST.as(Host.class), false));
    }

    @ParameterizedTest
    @MethodSource("backends")
    void whatHasNothingBehindItCanBeEndedAndNothingElse(final Backend backend) throws Exception {
        int ended = 0;
        HOST.calls.clear();
        for (final Method method : Backend.class.getDeclaredMethods()) {
            final Class<?>[] types = method.getParameterTypes();
            if (method.isSynthetic() || Modifier.isStatic(method.getModifiers()) || types.length == 0
                    || types[0] != long.class) {
                continue;
            }
            final Object[] zeros = new Object[types.length];
            for (int i = 0; i < types.length; i++) {
                zeros[i] = types[i] == long.class ? (Object) 0L : types[i] == int.class ? (Object) 0
                        : Arena.ofAuto().allocate(1024, 8);
            }
            if (method.getName().matches("(destroy|dealloc|dereg|close|free|detach)[A-Z].*")) {
                assertEquals(0, method.invoke(backend, zeros), method.getName());
                ended++;
            } else {
                final Throwable thrown = assertThrows(InvocationTargetException.class, () -> method.invoke(backend, zeros),
                        method.getName()).getCause();
                assertEquals(VerbsErrno.EIO, assertInstanceOf(VerbsException.class, thrown, method.getName()).errno(),
                        method.getName());
            }
        }
        assertTrue(ended >= 12, ended + " kinds of objects");
        assertEquals(List.of(), HOST.calls);
    }
}
