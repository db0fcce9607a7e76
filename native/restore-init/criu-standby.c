// SPDX-License-Identifier: Apache-2.0
/*
 * Holds a CRIU that is to save a tree before it looks at that: it is started while the tree's programs run, and goes on when
 * it is told, by a byte on its standard input. When that ends instead, nobody wants the image any more. It says on its
 * standard output when it has come so far.
 */
#include "criu-standby.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void sv_stand_by(void)
{
	static const char ready[] = "stands by\n";
	char word;
	ssize_t got;

	if (!getenv("SHADOWVERBS_CRIU_STANDBY"))
		return;
	if (write(STDOUT_FILENO, ready, sizeof(ready) - 1) < 0)
		_exit(EXIT_FAILURE);
	do
		got = read(STDIN_FILENO, &word, 1);
	while (got < 0 && errno == EINTR);
	if (got != 1)
		_exit(EXIT_FAILURE);	/* without what CRIU does at a failure to a tree that it has stopped */
}
