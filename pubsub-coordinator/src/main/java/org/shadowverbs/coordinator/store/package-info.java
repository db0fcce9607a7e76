// SPDX-License-Identifier: Apache-2.0
/**
 * What a job must not lose with its coordinator: published ids by key, its state, and who is its coordinator. On the coordinator's
 * host, in a file and a Chronicle Map, nothing is to be set up; in Redis or Valkey it outlives the host.
 */
package org.shadowverbs.coordinator.store;
