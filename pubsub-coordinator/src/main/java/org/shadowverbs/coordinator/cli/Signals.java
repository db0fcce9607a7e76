// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.function.IntConsumer;

/**
 * Signals to this JVM. sun.misc.Signal is the JDK's only way and is reached by reflection, because the compiler warns
 * of every direct use and offers no way to say that it is meant.
 */
final class Signals {
    private Signals() {
    }

    static void handle(final String name, final IntConsumer handler) throws CommandException {
        try {
            final Class<?> signal = Class.forName("sun.misc.Signal");
            final Class<?> type = Class.forName("sun.misc.SignalHandler");
            final InvocationHandler call = (proxy, method, args) -> switch (method.getName()) {
                case "handle" -> {
                    handler.accept((int) signal.getMethod("getNumber").invoke(args[0]));
                    yield null;
                }
                case "hashCode" -> System.identityHashCode(proxy);
                case "equals" -> proxy == args[0];
                default -> name;
            };
            signal.getMethod("handle", signal, type).invoke(null, signal.getConstructor(String.class).newInstance(name),
                    Proxy.newProxyInstance(Signals.class.getClassLoader(), new Class<?>[] {type}, call));
        } catch (ReflectiveOperationException e) {
            throw new CommandException("signal " + name + " can't be handled: " + e);
        }
    }
}
