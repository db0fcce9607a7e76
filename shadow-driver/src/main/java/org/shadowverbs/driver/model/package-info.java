// SPDX-License-Identifier: Apache-2.0
/**
 * Every verbs object of this process with the parameters that it was made of: enough to make it anew. Uses
 * nativelib and backend.
 */
package org.shadowverbs.driver.model;
