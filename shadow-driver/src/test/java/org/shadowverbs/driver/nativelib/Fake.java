// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Stands for {@link Native} or {@link org.shadowverbs.driver.backend.Backend}: notes each call as "name first-argument", makes up a new pointer for
 * whatever returns a long, and answers 0 else; unless a test has said otherwise.
 */
public final class Fake {
    /** Answers one function. */
    public interface Answer {
        Object to(Object[] args);
    }

    public final List<String> calls = new ArrayList<>();
    private final Map<String, Answer> answers = new HashMap<>();
    private long next;

    public Fake(final long firstPointer) {
        next = firstPointer;
    }

    public Fake answer(final String function, final Answer answer) {
        answers.put(function, answer);
        return this;
    }

    public <T> T as(final Class<T> type) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
                (proxy, method, args) -> call(method, args)));
    }

    private Object call(final Method method, final Object[] args) throws Throwable {
        if (method.getDeclaringClass() == Object.class) {
            try {
                return method.invoke(this, args);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        }
        calls.add(args == null || !(args[0] instanceof Number) ? method.getName() : method.getName() + " " + args[0]);
        final Answer answer = answers.get(method.getName());
        if (answer != null) {
            return answer.to(args);
        }
        final Class<?> result = method.getReturnType();
        return result == long.class ? (Object) (next += 16) : result == int.class ? (Object) 0
                : result == boolean.class ? (Object) false : result == Map.class ? Map.of() : result == long[].class ? new long[] {1} : null;
    }

    /** How often a function was called. */
    public long count(final String function) {
        return calls.stream().filter(c -> c.equals(function) || c.startsWith(function + " ")).count();
    }

    /** The names of the calls, without arguments. */
    public List<String> names() {
        return calls.stream().map(c -> c.split(" ")[0]).toList();
    }
}
