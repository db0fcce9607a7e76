// SPDX-License-Identifier: Apache-2.0
/**
 * What is in a checkpoint's folder: {@code manifest.json}, written last, the folder's way into place, and {@code levels.json}, which says
 * where images are that are not in it.
 */
package org.shadowverbs.coordinator.manifest;
