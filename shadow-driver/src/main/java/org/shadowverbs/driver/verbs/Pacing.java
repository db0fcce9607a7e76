// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_device_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_packet_pacing_caps;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_rate_limit_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;

/**
 * Packet pacing: a queue pair made anew gets its rate limit again. It says how fast, not what arrives, so where the device
 * at hand cannot do it the queue pair goes on without, which is said. The limit stays recorded, for a device that can.
 *
 * <p>Source: ibv_modify_qp_rate_limit(3); the kernel's verbs core takes the limit on the way to RTS and in RTS.
 */
public final class Pacing {
    private static final int RATE_LIMIT = verbs_h.IBV_QP_RATE_LIMIT();
    private static final int TYPES = 1 << verbs_h.IBV_QPT_RC() | 1 << verbs_h.IBV_QPT_UC() | 1 << verbs_h.IBV_QPT_UD()
            | 1 << verbs_h.IBV_QPT_XRC_SEND();

    private final Native library;
    private final ChosenBackend backend;

    Pacing(final Native library, final ChosenBackend backend) {
        this.library = library;
        this.backend = backend;
    }

    /** Leaves of what a device says only what concerns types of queue pairs that there are here. */
    static void hideRefused(final MemorySegment caps) {
        final int types = ibv_packet_pacing_caps.supported_qpts(caps) & TYPES;
        if (types == 0) {
            caps.fill((byte) 0);
        }
        ibv_packet_pacing_caps.supported_qpts(caps, types);
    }

    /** A queue pair that stays in RTR had its limit with the transition there. @return the mask bit, or 0 */
    int fillBeforeRts(final Qp qp, final MemorySegment attr, final int target) {
        final int rate = qp.attributes.rateLimit();
        if (rate == 0 || target != verbs_h.IBV_QPS_RTR() || qp.attributes.state() != target) {
            return 0;
        }
        final String lack = lack(qp);
        if (lack != null) {
            goOnWithout(qp, lack);
            return 0;
        }
        ibv_qp_attr.rate_limit(attr, rate);
        return RATE_LIMIT;
    }

    /** Sets the limit of a queue pair that has reached RTS. */
    public void limit(final Qp qp) {
        if (qp.attributes.rateLimit() == 0) {
            return;
        }
        String lack = lack(qp);
        if (lack == null) {
            final int err = limitReal(qp);
            lack = err == 0 ? null : "the device refuses it: " + VerbsErrno.name(err);
        }
        if (lack != null) {
            goOnWithout(qp, lack);
        }
    }

    private void goOnWithout(final Qp qp, final String lack) {
        library.say(qp.name() + " goes on without its rate limit of " + Integer.toUnsignedString(qp.attributes.rateLimit())
                + " kbit/s: " + lack);
    }

    /** By the verb that the application has used: a device may have one of the two alone. */
    private int limitReal(final Qp qp) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment limit = ibv_qp_rate_limit_attr.allocate(arena);
            if (qp.attributes.fillRateLimit(limit)) {
                return backend.now().modifyQpRateLimit(qp.real, limit);
            }
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.rate_limit(attr, qp.attributes.rateLimit());
            return backend.now().modifyQp(qp.real, attr, RATE_LIMIT);
        }
    }

    /** What the device at hand says against it, or null. */
    private String lack(final Qp qp) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_device_attr_ex.allocate(arena);
            final int err = backend.now().queryDeviceEx(qp.context().real, attr);
            final MemorySegment caps = ibv_device_attr_ex.packet_pacing_caps(attr);
            final int types = ibv_packet_pacing_caps.supported_qpts(caps);
            if (err != 0 || types == 0) {
                return "the device has no packet pacing";
            }
            if ((types & 1 << qp.type) == 0) {
                return "the device has no packet pacing for this type of queue pair";
            }
            final int least = ibv_packet_pacing_caps.qp_rate_limit_min(caps);
            final int most = ibv_packet_pacing_caps.qp_rate_limit_max(caps);
            final int rate = qp.attributes.rateLimit();
            return Integer.compareUnsigned(rate, least) >= 0 && Integer.compareUnsigned(rate, most) <= 0 ? null
                    : "the device has limits of " + Integer.toUnsignedString(least) + " to " + Integer.toUnsignedString(most);
        }
    }
}
