// SPDX-License-Identifier: Apache-2.0
/**
 * System tests of jobs that heal themselves: {@code launch --recover}, and signals that ask for checkpoints.
 */
package org.shadowverbs.fabric.recovery;
