// SPDX-License-Identifier: Apache-2.0
/** Virtual ids, their exceptions after a REATTACH, and the records of ids that ranks publish. */
module org.shadowverbs.ids {
    exports org.shadowverbs.ids;
}
