// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataInput;
import java.io.IOException;

/** Decodes what never reaches a rank; apart from {@link Codec} so that a rank does not load these classes. */
final class HostCodec {
    private HostCodec() {
    }

    static Message read(final byte type, final DataInput in) throws IOException {
        return switch (type) {
            case FrameType.AGENT_HELLO -> HostMessages.AgentHello.read(in);
            case FrameType.AGENT_WELCOME -> HostMessages.AgentWelcome.read(in);
            case FrameType.RANK_JOINED -> HostMessages.RankJoined.read(in);
            case FrameType.RANK_NUMBER -> HostMessages.RankNumber.read(in);
            case FrameType.FROM_RANK -> HostMessages.FromRank.read(in);
            case FrameType.TO_RANKS -> HostMessages.ToRanks.read(in);
            case FrameType.RANK_GONE -> HostMessages.RankGone.read(in);
            case FrameType.TREE_STATE -> HostMessages.TreeState.read(in);
            case FrameType.FREEZE -> HostMessages.Freeze.read(in);
            case FrameType.FROZEN -> HostMessages.Frozen.read(in);
            case FrameType.SAVE -> HostMessages.Save.read(in);
            case FrameType.SAVED -> HostMessages.Saved.read(in);
            case FrameType.THAW -> HostMessages.Thaw.read(in);
            case FrameType.THAWED -> HostMessages.Thawed.read(in);
            case FrameType.STEP_FAILED -> HostMessages.StepFailed.read(in);
            case FrameType.TERMINATE -> HostMessages.Terminate.read(in);
            case FrameType.QUIT -> HostMessages.Quit.read(in);
            case FrameType.COMMAND -> HostMessages.Command.read(in);
            case FrameType.LINE -> HostMessages.Line.read(in);
            case FrameType.RESULT -> HostMessages.Result.read(in);
            case FrameType.RESTART_JOIN -> RestartMessages.RestartJoin.read(in);
            case FrameType.RESTART_SHARE -> RestartMessages.RestartShare.read(in);
            case FrameType.RESTART_END -> RestartMessages.RestartEnd.read(in);
            default -> throw new ProtocolException("unknown frame type " + type);
        };
    }
}
