// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.Map;

/**
 * The commands by which a user has processes saved and restored in CRIU's place ({@code launch --save --restore}). Each is given
 * to {@code /bin/sh -c}, once for each process tree; {@code docs/COMMANDS.md} has what they find in their environment.
 *
 * @param save    saves the tree, which is stopped, to files in a folder
 * @param restore brings it back from them, and ends when it does
 */
public record UserCommands(String save, String restore) {
    /** Names of a launch's settings. */
    public static final String SAVE = "save";
    public static final String RESTORE = "restore";
    /** In the environment of a program that was launched with them, for an agent that is started anew. */
    public static final String SAVE_VARIABLE = "SHADOWVERBS_SAVE";
    public static final String RESTORE_VARIABLE = "SHADOWVERBS_RESTORE";

    /** Those among a launch's settings, or null. */
    public static UserCommands of(final Map<String, String> settings) {
        return of(settings.get(SAVE), settings.get(RESTORE));
    }

    /** @return null when one of them is not known */
    public static UserCommands of(final String save, final String restore) {
        return save == null || restore == null ? null : new UserCommands(save, restore);
    }

    /** As a launch's settings. */
    public Map<String, String> settings() {
        return Map.of(SAVE, save, RESTORE, restore);
    }
}
