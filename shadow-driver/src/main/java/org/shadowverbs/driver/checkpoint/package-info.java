// SPDX-License-Identifier: Apache-2.0
/**
 * The checkpoint of this rank: {@link org.shadowverbs.driver.checkpoint.Checkpoint} from top to bottom, on the
 * thread of {@link org.shadowverbs.driver.checkpoint.CheckpointThread}. Uses all other rooms.
 */
package org.shadowverbs.driver.checkpoint;
