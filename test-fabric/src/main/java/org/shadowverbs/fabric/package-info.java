// SPDX-License-Identifier: Apache-2.0
/**
 * What is run on the software HCA: demo, bench, and in the tests one package for each thing that they test.
 */
package org.shadowverbs.fabric;
