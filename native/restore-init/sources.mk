# SPDX-License-Identifier: Apache-2.0
# Of shadowverbs-job-root, for its Makefile and for the tests.
PMI := pmi.c pmi-line.c pmi-agent.c pmi-text.c messages.c say.c ../src/base/agent_place.c
JOB_ROOT := job-root.c start.c keeper.c top.c program.c stand-in.c enter.c lines.c namespaces.c $(PMI)
