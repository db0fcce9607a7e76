// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "pmi-text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_MESSAGE (1 << 20)
#define DIGITS 6		/* of the length in front of a message of version 2 */
#define LAST_OF_SPAWN "endcmd\n"

ssize_t pmi_length(int version, const char *data, size_t size)
{
	const char *end;
	long length = 0;

	if (version == 1) {
		bool spawn = size >= 5 && !memcmp(data, "mcmd=", 5);

		end = spawn ? memmem(data, size, LAST_OF_SPAWN, strlen(LAST_OF_SPAWN)) : memchr(data, '\n', size);
		if (end)
			return end - data + (spawn ? strlen(LAST_OF_SPAWN) : 1);
		return size < MAX_MESSAGE ? 0 : -1;
	}
	for (int i = 0; i < DIGITS && i < (int)size; i++)
		if (isdigit((unsigned char)data[i]))
			length = 10 * length + data[i] - '0';
		else if (data[i] != ' ')
			return -1;
	if (size < DIGITS)
		return 0;
	return size >= (size_t)(DIGITS + length) ? DIGITS + length : 0;
}

char *pmi_text(int version, const char *message, size_t length)
{
	return version == 1 ? strndup(message, length - 1) : strndup(message + DIGITS, length - DIGITS);
}

static bool separates(int version, const char *at)
{
	return version == 1 ? *at == ' ' || *at == '\n' : *at == ';';
}

/* The end of the value that begins there: a separator that is not part of it, or the end of the text. */
static const char *end_of_value(int version, const char *at)
{
	for (; *at; at++) {
		if (version == 1 && *at == '\\' && at[1])
			at++;
		else if (version == 2 && at[0] == ';' && at[1] == ';')
			at++;
		else if (separates(version, at))
			break;
	}
	return at;
}

/* Where "key=value" is in the text. */
static const char *find(int version, const char *text, const char *key, const char **end)
{
	size_t size = strlen(key);

	for (const char *at = text; *at;) {
		*end = end_of_value(version, at);
		if (!strncmp(at, key, size) && at[size] == '=')
			return at;
		at = *end;
		while (separates(version, at))
			at++;
	}
	return NULL;
}

char *pmi_value(int version, const char *text, const char *key)
{
	const char *end, *at = find(version, text, key, &end);

	if (!at)
		return NULL;
	at += strlen(key) + 1;
	return strndup(at, end - at);
}

long pmi_number(int version, const char *text, const char *key, long otherwise)
{
	char *value = pmi_value(version, text, key);
	long number = value && *value ? strtol(value, NULL, 10) : otherwise;

	free(value);
	return number;
}

char *pmi_without(int version, const char *text, const char *key)
{
	const char *end, *at = find(version, text, key, &end);
	char *rest;

	if (!at)
		return strdup(text);
	if (*end)
		end++;
	return asprintf(&rest, "%.*s%s", (int)(at - text), text, end) < 0 ? NULL : rest;
}

bool pmi_send(int fd, int version, const char *text)
{
	char *message;
	int size = version == 1 ? asprintf(&message, "%s\n", text) : asprintf(&message, "%*zu%s", DIGITS, strlen(text), text);
	bool sent;

	if (size < 0)
		return false;
	/* Only who asks is answered, and then reads: a socket without room for it is one that nobody reads from. */
	sent = send(fd, message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == size;
	free(message);
	return sent;
}
