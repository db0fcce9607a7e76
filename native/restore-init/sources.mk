# SPDX-License-Identifier: Apache-2.0
# Of shadowverbs-job-root, for its Makefile and for the tests.
JOB_ROOT := job-root.c start.c keeper.c top.c program.c stand-in.c enter.c messages.c namespaces.c say.c
