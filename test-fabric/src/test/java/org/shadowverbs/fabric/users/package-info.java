// SPDX-License-Identifier: Apache-2.0
/**
 * Jobs of users who are not root, and what other users of the machine can do to a job.
 */
package org.shadowverbs.fabric.users;
