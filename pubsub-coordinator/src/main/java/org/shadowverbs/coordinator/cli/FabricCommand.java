// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.lang.reflect.InvocationTargetException;
import java.util.List;

/** demo and bench: they live with the test fabric, which is no part of a bare installation. */
final class FabricCommand {
    private FabricCommand() {
    }

    static int run(final String command, final String className, final List<String> args) throws CommandException {
        try {
            Class.forName(className).getMethod("main", String[].class).invoke(null,
                    (Object) args.toArray(new String[0]));
            return 0;
        } catch (ClassNotFoundException e) {
            throw new CommandException(command + " needs the test fabric, which this installation does not have (class "
                    + className + ")");
        } catch (InvocationTargetException e) {
            throw new CommandException(command + ": " + e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new CommandException(command + ": " + e);
        }
    }
}
