/* The command line. */
#ifndef TCPCHECK_SETTINGS_H
#define TCPCHECK_SETTINGS_H

#include <stdint.h>
#include <sys/socket.h>

#define MAX_PROCESSES 16
#define MAX_SLOTS 1024

enum fault { FAULT_NONE, FAULT_DROP, FAULT_DOUBLE, FAULT_FLIP, FAULT_RESET };

/* Where a process listens. */
struct place {
	const char *name; /* as it was given */
	struct sockaddr_storage address;
	socklen_t length;
};

struct settings {
	int processes;
	int me; /* -1: all of them are forked */
	struct place places[MAX_PROCESSES];
	int ipv6;
	int slots; /* connections that a process holds open to each other one */
	uint32_t kinds; /* a bit for each that there is to be */
	int seconds; /* 0: until a signal or the stop file */
	const char *stop_file;
	int deadline_s;
	enum fault fault;
};

/* Exit status 2 with a line on stderr when the options are wrong. */
void settings_parse(struct settings *settings, int argc, char **argv);

#endif
