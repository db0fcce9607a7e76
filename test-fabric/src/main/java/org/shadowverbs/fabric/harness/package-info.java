// SPDX-License-Identifier: Apache-2.0
/**
 * Drives programs and commands as a person would, for the demo and the tests; the tests' own helpers are in it, too.
 */
package org.shadowverbs.fabric.harness;
