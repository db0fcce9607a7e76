/* Ends the process with one line on stderr that says what failed. */
#ifndef PROGRAMS_DIE_H
#define PROGRAMS_DIE_H

/* What lines of this process begin with, such as "selfcheck: rank 2". */
void die_name(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *die_prefix(void);

/* Exit status 1. With err != 0 the text of that errno is added. */
void die(int err, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* Exit status 2: wrong usage. */
void die_usage(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* An option's number; anything else ends the process with die_usage(). */
unsigned long long parse_number(const char *option, const char *text, unsigned long long least,
				unsigned long long most);

#endif
