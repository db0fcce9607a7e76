/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a verbs library, one pointer for each name in verbs.def: libibverbs has them, and so has ib2tcp. */
#ifndef SV_REAL_FUNCTIONS_H
#define SV_REAL_FUNCTIONS_H

#include "base/base.h"

/* The symbol of this name takes a struct that is shorter by its last field; the header's own name for it is a macro. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Some are in no public header, so that nothing else makes them visible. */
#define PASS(type, name, parameters, arguments) \
	__attribute__((visibility("default"))) type name parameters;
#define REFUSE(type, name, parameters, arguments, object, fail) \
	__attribute__((visibility("default"))) type name parameters;
#include "base/verbs.def"
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, uint32_t *type)
	__attribute__((visibility("default")));
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *attr, void *from) __attribute__((visibility("default")));
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *attr, void *from) __attribute__((visibility("default")));

struct sv_real_functions {
#define VIRTUAL(name) __typeof__(&name) name;
#define PASS(type, name, parameters, arguments) type(*name) parameters;
#define REFUSE(type, name, parameters, arguments, object, fail) type(*name) parameters;
#include "base/verbs.def"
};

#endif
