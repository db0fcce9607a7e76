// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.bindings;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.lang.foreign.GroupLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.SequenceLayout;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Compares what jextract wrote with what the C compiler says of the same headers: the size of every struct and union,
 * offset and size of every member at any depth, and the value of every constant. A header that changed without
 * {@code generate.sh} fails here.
 */
class CompilerAgreementTest {
    private static final Path HEADERS = Path.of("../native/include");
    private static final String VERBS = "org.shadowverbs.bindings.verbs";
    private static final long DEADLINE_SECONDS = 60;
    /** Types that C knows by a typedef and not by a tag. */
    private static final Set<String> TYPEDEFS =
            Set.of("pthread_mutex_t", "pthread_cond_t", "__pthread_list_t", "__atomic_wide_counter");

    @TempDir
    private Path folder;

    /** Expression in C, and its value according to the bindings. */
    private final Map<String, Long> expected = new TreeMap<>();

    @Test
    void verbsAgreeWithTheCompiler() throws Exception {
        compare(VERBS, "verbs_h", "verbs.includes", "<infiniband/verbs.h>", 100);
    }

    @Test
    void tcpHeaderAgreesWithTheCompiler() throws Exception {
        compare("org.shadowverbs.bindings.tcp", "shadowverbs_tcp_h", "shadowverbs_tcp.includes",
                "\"shadowverbs_tcp.h\"", 7);
    }

    @Test
    void sharedHeaderAgreesWithTheCompiler() throws Exception {
        compare("org.shadowverbs.bindings.abi", "shadowverbs_h", "shadowverbs.includes", "\"shadowverbs.h\"", 7);
    }

    @Test
    void everyFunctionOfTheSharedHeaderHasABinding() throws Exception {
        final String header = Files.readString(HEADERS.resolve("shadowverbs.h")).replaceAll("(?s)/\\*.*?\\*/", "");
        final Set<String> declared = Pattern.compile("\\b(sv_\\w+)\\(").matcher(header).results()
                .map(match -> match.group(1))
                .collect(Collectors.toCollection(TreeSet::new));
        final Set<String> bound = includes("shadowverbs.includes", "function");
        assertTrue(declared.size() > 20, "functions found in shadowverbs.h: " + declared);
        assertEquals(declared, bound);
    }

    private void compare(
            final String packageName,
            final String headerClass,
            final String includesFile,
            final String header,
            final int leastTypes) throws Exception {
        final Set<String> unions = includes(includesFile, "union");
        final Set<String> types = generatedTypes(packageName);
        final Set<String> missing = includes(includesFile, "struct");
        missing.addAll(unions);
        missing.removeAll(types);
        // What our own headers hold of verbs.h is in its package alone.
        missing.removeAll(generatedTypes(VERBS));
        assertEquals(Set.of(), missing);
        assertTrue(types.size() >= leastTypes, "types found: " + types);

        for (final String type : types) {
            final String name = TYPEDEFS.contains(type) ? type : (unions.contains(type) ? "union " : "struct ") + type;
            final GroupLayout layout = (GroupLayout) call(packageName + "." + type, "layout");
            expected.put("sizeof(" + name + ")", layout.byteSize());
            addMembers(name, "", layout, 0);
        }
        for (final String constant : includes(includesFile, "constant")) {
            // Both sides as 32-bit patterns where Java's type has 32 bits: C's may be unsigned.
            switch (call(packageName + "." + headerClass, constant)) {
                case Integer value -> expected.put("(int)(" + constant + ")", value.longValue());
                case Long value -> expected.put("(long)(" + constant + ")", value);
                case MemorySegment value -> expected.put("(long)(" + constant + ")", value.address());
                case Object value -> fail(constant + " is a " + value.getClass());
            }
        }
        assertEquals(lines(expected), lines(askCompiler(header)));
    }

    /** One a line, so that a failure shows which differ. */
    private static String lines(final Map<String, Long> values) {
        return values.entrySet().stream().map(Object::toString).collect(Collectors.joining("\n"));
    }

    private void addMembers(final String type, final String prefix, final GroupLayout layout, final long base) {
        for (final MemoryLayout member : layout.memberLayouts()) {
            if (member instanceof PaddingLayout) {
                continue;
            }
            final String name = member.name().orElseThrow();
            final long offset = base + layout.byteOffset(MemoryLayout.PathElement.groupElement(name));
            // An anonymous struct or union: C reaches its members as if they were the outer one's.
            final boolean anonymous = name.startsWith("$anon$");
            final String path = prefix + name;
            if (!anonymous) {
                expected.put("offsetof(" + type + ", " + path + ")", offset);
                expected.put("sizeof(((" + type + " *)0)->" + path + ")", member.byteSize());
            }
            if (member instanceof GroupLayout group) {
                addMembers(type, anonymous ? prefix : path + ".", group, offset);
            } else if (member instanceof SequenceLayout sequence && sequence.elementCount() > 0) {
                expected.put("sizeof(((" + type + " *)0)->" + path + "[0])", sequence.elementLayout().byteSize());
            }
        }
    }

    private static Object call(final String className, final String method)
            throws ReflectiveOperationException {
        final Method found = Class.forName(className).getMethod(method);
        try {
            return found.invoke(null);
        } catch (final InvocationTargetException e) {
            throw new AssertionError(className + "." + method, e.getCause());
        }
    }

    /** The names that an include list has of one kind. */
    private static Set<String> includes(final String file, final String kind) throws IOException {
        final String option = "--include-" + kind + " ";
        return Files.readAllLines(Path.of(file)).stream()
                .filter(line -> line.startsWith(option))
                .map(line -> line.substring(option.length()).strip())
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** Classes of the package that describe a struct or union. */
    private static Set<String> generatedTypes(final String packageName) throws IOException, ClassNotFoundException {
        final Set<String> types = new TreeSet<>();
        try (Stream<Path> files = Files.list(Path.of("target/classes", packageName.split("\\.")))) {
            for (final Path file : files.toList()) {
                final String name = file.getFileName().toString().replace(".class", "");
                if (!name.contains("$") && hasLayout(Class.forName(packageName + "." + name))) {
                    types.add(name);
                }
            }
        }
        return types;
    }

    private static boolean hasLayout(final Class<?> type) {
        return Arrays.stream(type.getMethods())
                .anyMatch(method -> method.getName().equals("layout") && method.getReturnType() == GroupLayout.class);
    }

    /** Has the compiler evaluate the expressions, in a program that prints one per line. */
    private Map<String, Long> askCompiler(final String header) throws IOException, InterruptedException {
        final Path source = folder.resolve("ask.c");
        final Path program = folder.resolve("ask");
        Files.writeString(source, expected.keySet().stream()
                .map(expression -> "\tprintf(\"%lld %s\\n\", (long long)" + expression + ", \"" + expression + "\");\n")
                .collect(Collectors.joining("",
                        "#include <stddef.h>\n#include <stdio.h>\n#include " + header + "\n\nint main(void)\n{\n",
                        "\treturn 0;\n}\n")));
        run(List.of("cc", "-w", "-I", HEADERS.toString(), "-o", program.toString(), source.toString()));
        final Map<String, Long> answers = new TreeMap<>(Comparator.naturalOrder());
        for (final String line : run(List.of(program.toString()))) {
            final int space = line.indexOf(' ');
            answers.put(line.substring(space + 1), Long.valueOf(line.substring(0, space)));
        }
        return answers;
    }

    private List<String> run(final List<String> command) throws IOException, InterruptedException {
        final Path output = folder.resolve("output");
        final Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        if (!process.waitFor(DEADLINE_SECONDS, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new AssertionError("waited " + DEADLINE_SECONDS + " s for " + command);
        }
        assertEquals(0, process.exitValue(), () -> command + " failed:\n" + readOutput(output));
        return Files.readAllLines(output);
    }

    private static String readOutput(final Path output) {
        try {
            return Files.readString(output);
        } catch (final IOException e) {
            return e.toString();
        }
    }
}
