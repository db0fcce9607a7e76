// SPDX-License-Identifier: Apache-2.0
/**
 * The command line, one class for each command; {@link org.shadowverbs.coordinator.cli.Main} is the entry.
 */
package org.shadowverbs.coordinator.cli;
