// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

/** {@code enum sv_op} as constants for switch; a test compares them with the header. */
public final class Op {
    public static final int OPEN_DEVICE = 1;
    public static final int CLOSE_DEVICE = 2;
    public static final int QUERY_DEVICE = 3;
    static final int QUERY_DEVICE_EX = 4;
    public static final int QUERY_PORT = 5;
    public static final int QUERY_GID = 6;
    static final int QUERY_GID_EX = 7;
    static final int QUERY_GID_TABLE = 8;
    static final int QUERY_PKEY = 9;
    static final int GET_PKEY_INDEX = 10;
    public static final int ALLOC_PD = 11;
    static final int ALLOC_PARENT_DOMAIN = 12;
    public static final int DEALLOC_PD = 13;
    public static final int REG_MR = 14;
    static final int REREG_MR = 15;
    public static final int DEREG_MR = 16;
    static final int ALLOC_NULL_MR = 17;
    static final int REG_DMABUF_MR = 18;
    static final int ALLOC_DM = 19;
    static final int FREE_DM = 20;
    static final int REG_DM_MR = 21;
    static final int ALLOC_MW = 22;
    static final int DEALLOC_MW = 23;
    public static final int CREATE_COMP_CHANNEL = 24;
    public static final int DESTROY_COMP_CHANNEL = 25;
    public static final int CREATE_CQ = 26;
    static final int CREATE_CQ_EX = 27;
    static final int RESIZE_CQ = 28;
    static final int MODIFY_CQ = 29;
    public static final int DESTROY_CQ = 30;
    public static final int CREATE_QP = 31;
    static final int CREATE_QP_EX = 32;
    public static final int QUERY_QP = 33;
    public static final int MODIFY_QP = 34;
    public static final int DESTROY_QP = 35;
    static final int CREATE_SRQ = 36;
    static final int MODIFY_SRQ = 37;
    static final int QUERY_SRQ = 38;
    static final int DESTROY_SRQ = 39;
    static final int CREATE_AH = 40;
    static final int DESTROY_AH = 41;
    static final int CREATE_SRQ_EX = 42;
    static final int INIT_AH = 43;
    static final int ATTACH_MCAST = 44;
    static final int DETACH_MCAST = 45;
    static final int OPEN_XRCD = 46;
    static final int CLOSE_XRCD = 47;
    static final int OPEN_QP = 48;
    static final int MODIFY_QP_RATE_LIMIT = 49;
    static final int CM_DISCONNECT = 50;
    static final int FROM_KERNEL = 51;
    public static final int EXIT = 52;
    static final int CHECKPOINT = 53;

    private Op() {
    }
}
