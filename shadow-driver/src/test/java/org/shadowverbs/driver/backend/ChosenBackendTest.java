// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** Objects with nothing behind them never reach a verbs library, whatever is done with them. */
class ChosenBackendTest {
    @Test
    void whatHasNothingBehindItCanBeDestroyedAndNothingElse() throws Exception {
        final Fake device = new Fake(0x20_0000);
        final ChosenBackend backend = new ChosenBackend(new Fake(0x10_0000).as(Native.class), device.as(Backend.class));
        int destroyed = 0;
        for (final Method method : Backend.class.getDeclaredMethods()) {
            final Class<?>[] types = method.getParameterTypes();
            if (method.isSynthetic() || types.length == 0 || types[0] != long.class) {
                continue;
            }
            final Object[] zeros = new Object[types.length];
            for (int i = 0; i < types.length; i++) {
                zeros[i] = types[i] == long.class ? (Object) 0L : types[i] == int.class ? (Object) 0 : null;
            }
            if (method.getName().matches("(destroy|dealloc|dereg|close|free|detach)[A-Z].*")) {
                assertEquals(0, method.invoke(backend, zeros), method.getName());
                destroyed++;
            } else {
                final Throwable thrown = assertThrows(InvocationTargetException.class, () -> method.invoke(backend, zeros),
                        method.getName()).getCause();
                assertEquals(VerbsErrno.EIO, assertInstanceOf(VerbsException.class, thrown, method.getName()).errno());
            }
        }
        assertTrue(destroyed >= 12, destroyed + " kinds of objects");
        assertEquals(List.of(), device.calls);
    }
}
