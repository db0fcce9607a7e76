// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

/** Where a line for the user goes while something long runs. */
interface Report {
    void line(String text);
}
