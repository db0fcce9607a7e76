/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for whoever started this process. */
#ifndef SAY_H
#define SAY_H

#include <stdarg.h>

/* Where say() and die() write, and what stands before their lines. Without it: stderr, "shadowverbs: ". */
void say_to(int fd, const char *before);

/* One line, in one write: so lines of several processes don't mix. */
void say_line(int fd, const char *before, const char *format, va_list args);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says what failed, on what and, by errno, why; and exits. */
void die(int status, const char *what, const char *subject) __attribute__((noreturn));

#endif
