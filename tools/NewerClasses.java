// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassFileVersion;
import java.lang.classfile.ClassHierarchyResolver;
import java.lang.classfile.ClassModel;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CodeTransform;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;

/**
 * usage: java NewerClasses.java JAR NEW
 *
 * <p>Copies a jar with its classes in a newer format: no AOT cache takes those of before Java 6, for they lack the stack maps by
 * which classes are verified since.
 */
final class NewerClasses {
    private static final int FIRST_WITH_STACK_MAPS = ClassFile.JAVA_6_VERSION;

    private NewerClasses() {
    }

    public static void main(final String[] args) throws IOException {
        try (JarFile in = new JarFile(args[0]); JarOutputStream out = new JarOutputStream(Files.newOutputStream(Path.of(args[1])))) {
            final ClassFile format = ClassFile.of(ClassFile.StackMapsOption.GENERATE_STACK_MAPS,
                    ClassFile.ClassHierarchyResolverOption.of(ClassHierarchyResolver
                            .ofResourceParsing(type -> open(in, type.descriptorString()))
                            .orElse(ClassHierarchyResolver.defaultResolver())));
            for (final JarEntry entry : Collections.list(in.entries())) {
                final byte[] bytes = in.getInputStream(entry).readAllBytes();
                final JarEntry copy = new JarEntry(entry.getName());
                copy.setTime(entry.getTime());
                out.putNextEntry(copy);
                out.write(entry.getName().endsWith(".class") ? newer(format, bytes) : bytes);
            }
        }
    }

    private static byte[] newer(final ClassFile format, final byte[] bytes) {
        final ClassModel model = format.parse(bytes);
        if (model.majorVersion() >= FIRST_WITH_STACK_MAPS) {
            return bytes;
        }
        final ClassTransform version = (builder, element) -> {
            if (element instanceof ClassFileVersion) {
                builder.withVersion(ClassFile.JAVA_8_VERSION, 0);
            } else {
                builder.with(element);
            }
        };
        return format.transformClass(model, ClassTransform.transformingMethodBodies(CodeTransform.ACCEPT_ALL).andThen(version));
    }

    /** @param descriptor such as Lpicocli/CommandLine; */
    private static InputStream open(final JarFile jar, final String descriptor) {
        final JarEntry entry = jar.getJarEntry(descriptor.substring(1, descriptor.length() - 1) + ".class");
        try {
            return entry == null ? null : jar.getInputStream(entry);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
