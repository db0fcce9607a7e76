// SPDX-License-Identifier: Apache-2.0
/** What is in a checkpoint's folder: {@code manifest.json}, written last, and the folder's way into place. */
package org.shadowverbs.coordinator.manifest;
