// SPDX-License-Identifier: Apache-2.0
/**
 * Jobs of ranks on two hosts, which are two network namespaces.
 */
package org.shadowverbs.fabric.hosts;
