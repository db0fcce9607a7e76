// SPDX-License-Identifier: Apache-2.0

import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.tools.ToolProvider;

/**
 * usage: java -cp CHRONICLE_MAP_AND_ITS_DEPENDENCIES tools/StoreClass.java FOLDER
 *
 * <p>Puts the class that Chronicle Map makes for the head of each of its files below FOLDER. It generates the source and runs javac
 * in every process that opens a map, which takes longer than all the rest of a coordinator's start; unless a class of that name is
 * found on the class path (ValueModel.createClass in chronicle-values).
 */
final class StoreClass {
    private StoreClass() {
    }

    public static void main(final String[] args) throws Exception {
        final Path folder = Path.of(args[0]);
        final Class<?> head = Class.forName("net.openhft.chronicle.hash.VanillaGlobalMutableState");
        final Class<?> models = Class.forName("net.openhft.chronicle.values.ValueModel");
        final Method generate = Class.forName("net.openhft.chronicle.values.Generators")
                .getDeclaredMethod("generateNativeClass", models, String.class);
        generate.setAccessible(true);
        final String name = head.getSimpleName() + models.getField("$$NATIVE").get(null);
        final Path source = folder.resolve(name + ".java");
        Files.writeString(source, (String) generate.invoke(null, models.getMethod("acquire", Class.class).invoke(null, head), name));
        final int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-nowarn", "-g:none", "-cp",
                System.getProperty("java.class.path"), "-d", folder.toString(), source.toString());
        Files.delete(source);
        System.exit(status);
    }
}
