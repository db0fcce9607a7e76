// SPDX-License-Identifier: Apache-2.0
/**
 * The verbs device over TCP: jobs that begin on it, come to it from an HCA, and go back.
 */
package org.shadowverbs.fabric.ib2tcp;
