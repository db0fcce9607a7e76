// SPDX-License-Identifier: Apache-2.0
/**
 * Programs of one job root: launched side by side, and saved and restarted as one image.
 */
package org.shadowverbs.fabric.jobroot;
