/*
 * What a stream of bytes is: one direction of a connection. Each byte is a function of the stream and of its position, so
 * that a byte that is missing, there twice or changed is found where it stands. A stream is cut into messages, whose
 * lengths are a function of the stream, too; the first byte of a message says whether it is the last.
 */
#ifndef TCPCHECK_CONTENT_H
#define TCPCHECK_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_BYTES 4096

/* A stream's own number, from the processes and the number of its connection, and its direction. */
uint64_t content_seed(uint32_t opener, uint32_t target, uint32_t number, bool to_target);

/* Bytes of the message with that index: 1 to MESSAGE_BYTES. */
size_t content_message_length(uint64_t seed, uint32_t message);

void content_fill(uint64_t seed, uint64_t position, uint8_t *bytes, size_t count);

/* Marks a message as the last, by its first byte; or takes the mark away. */
void content_mark_last(uint8_t *first);

/* How many of these bytes are not what they are to be, from the first to the last one. */
size_t content_differ(uint64_t seed, uint64_t position, const uint8_t *bytes, size_t count, size_t *first);

/* Looks for the place near a position where these bytes belong, and says how far ahead it is. At least CONTENT_KNOWN bytes. */
#define CONTENT_KNOWN 16
bool content_find(uint64_t seed, uint64_t position, const uint8_t *bytes, int64_t *ahead);

#endif
