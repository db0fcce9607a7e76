# SPDX-License-Identifier: Apache-2.0
# Of which files programs are made, for the Makefile and for the tests.
AGENT := agent-frame.c ../src/base/agent_place.c
PMI := pmi.c pmi-line.c pmi-agent.c pmi-text.c $(AGENT) messages.c say.c
JOB_ROOT := job-root.c start.c keeper.c top.c program.c stand-in.c attend.c enter.c lines.c namespaces.c $(PMI)
RSH := rsh.c rsh-line.c $(AGENT) messages.c say.c
RSHD := rshd.c rsh-line.c messages.c say.c
TCP_HOLD := tcp-hold.c tcp-socket.c tcp-pending.c tcp-again.c tcp-room.c
TCP_RELEASE := tcp-release.c tcp-socket.c tcp-again.c
