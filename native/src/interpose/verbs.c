/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions that need no thought: those that are passed on, and those that are refused. */
#include "base/arena.h"
#include "base/say.h"
#include "interpose/real.h"

#define PASS(type, name, parameters, arguments)         \
	type name parameters                            \
	{                                               \
		if (unlikely(!SV_REAL(name)))           \
			sv_real_missing(#name);         \
		return SV_REAL(name) arguments;         \
	}
#define REFUSE(type, name, parameters, arguments, object, fail)         \
	type name parameters                                            \
	{                                                               \
		static int said;                                        \
		const void *concerned = object;                         \
									\
		if (concerned && !sv_ours(concerned) && SV_REAL(name))  \
			return SV_REAL(name) arguments;                 \
		sv_refuse(#name, &said);                                \
		return fail;                                            \
	}
#include "base/verbs.def"
