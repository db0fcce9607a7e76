/*
 * The symbols that this library has only so that packaged programs and provider libraries load: a call prints the
 * name and fails with EOPNOTSUPP. Does not include verbs.h, whose prototypes would not fit.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "symbols.h"

static void refuse(const char *name)
{
	fprintf(stderr, "shadow-hca: %s is not supported by the software HCA\n", name);
	errno = EOPNOTSUPP;
}

#define RESULT_INT(name)  int
#define RESULT_PTR(name)  void *
#define RESULT_VOID(name) void
#define RETURN_INT  return EOPNOTSUPP
#define RETURN_PTR  return NULL
#define RETURN_VOID return

#define DEFINE_STUB(name, result)					\
	RESULT_##result(name) name(void);				\
	RESULT_##result(name) name(void)				\
	{								\
		refuse(#name);						\
		RETURN_##result;					\
	}
#define DEFINE_OLD(name, result)					\
	RESULT_##result(name) old_##name(void);				\
	RESULT_##result(name) old_##name(void)				\
	{								\
		refuse(#name "@IBVERBS_1.0");				\
		RETURN_##result;					\
	}								\
	__asm__(".symver old_" #name "," #name "@IBVERBS_1.0");

#define SYMBOL_HERE(name, result)
#define SYMBOL_DATA(name, result)
#define SYMBOL_STUB(name, result)  DEFINE_STUB(name, result)
#define SYMBOL_OLD(name, result)   DEFINE_OLD(name, result)
#define SYMBOL_QUIET(name, result)
#define SYMBOL(name, version, kind, result) SYMBOL_##kind(name, result)

HCA_SYMBOLS(SYMBOL)

/* Provider libraries register themselves from their constructors; this library is its own provider. */
void __verbs_log(void);
void verbs_register_driver_34(void);
void hca_register_driver_1_1(void);

void __verbs_log(void)
{
}

void verbs_register_driver_34(void)
{
}

void hca_register_driver_1_1(void)
{
}
__asm__(".symver hca_register_driver_1_1,ibv_register_driver@IBVERBS_1.1");

bool verbs_allow_disassociate_destroy;
