// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Map;
import java.util.function.BinaryOperator;

/**
 * Whether, and how, a job heals itself.
 *
 * @param times how often it is brought back from one checkpoint at most; 0: never
 * @param hangAfterSeconds it counts as hanging when no rank has made progress for so long; 0: never
 * @param lostAfterMillis a host counts as lost when it has not answered for so long
 */
public record RecoveryOptions(int times, int hangAfterSeconds, int lostAfterMillis) {
    /** It does not. */
    public static final RecoveryOptions NONE = new RecoveryOptions(0, 0, 1_000);

    /** As launches name them in their settings. */
    public static final String TIMES_SETTING = "recover";
    public static final String HANG_SETTING = "hang-after";
    public static final String LOST_SETTING = "lost-after-ms";

    public boolean asked() {
        return times > 0;
    }

    /** @param setting returns what a launch has asked for, or its second argument */
    static RecoveryOptions of(final BinaryOperator<String> setting, final RecoveryOptions otherwise) {
        return new RecoveryOptions(Integer.parseInt(setting.apply(TIMES_SETTING, Integer.toString(otherwise.times))),
                Integer.parseInt(setting.apply(HANG_SETTING, Integer.toString(otherwise.hangAfterSeconds))),
                Integer.parseInt(setting.apply(LOST_SETTING, Integer.toString(otherwise.lostAfterMillis))));
    }

    /** As a launch's settings. */
    public Map<String, String> settings() {
        return asked() ? Map.of(TIMES_SETTING, Integer.toString(times), HANG_SETTING, Integer.toString(hangAfterSeconds),
                LOST_SETTING, Integer.toString(lostAfterMillis)) : Map.of();
    }
}
