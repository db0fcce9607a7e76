/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two forms of PMI's messages: version 1 "cmd=put key=k value=v\n" (and "mcmd=spawn\n...endcmd\n"), version 2
 * "    24cmd=kvs-put;key=k;value=v;". A text is such a message without the newline, or the length, around it. Values are
 * handed on as they are, with whatever their writer has escaped.
 */
#ifndef PMI_TEXT_H
#define PMI_TEXT_H

#include <stdbool.h>
#include <sys/types.h>

/* The length of the first whole message in data; 0: it is not whole yet; -1: it is none. */
ssize_t pmi_length(int version, const char *data, size_t size);

/* The text of a whole message, for free(3). */
char *pmi_text(int version, const char *message, size_t length);

/* The value of a key, for free(3); NULL: the text does not have it. */
char *pmi_value(int version, const char *text, const char *key);

/* The number that is a key's value; `otherwise` when there is none. */
long pmi_number(int version, const char *text, const char *key, long otherwise);

/* The text without a key and its value, for free(3). */
char *pmi_without(int version, const char *text, const char *key);

/* Sends a text as a message. False when the other side is gone, or does not read. */
bool pmi_send(int fd, int version, const char *text);

#endif
