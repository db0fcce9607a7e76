/*
 * fabricctl: lists the open devices of the fabric, changes their settings while programs run, and makes events happen
 * that a real fabric brings by itself.
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "segment.h"

static const struct {
	const char *name;
	uint32_t mail;
	uint32_t event;
} events[] = {
	{ "device_fatal", MAIL_FATAL, 0 },
	{ "port_active", MAIL_ASYNC, IBV_EVENT_PORT_ACTIVE },
	{ "port_err", MAIL_ASYNC, IBV_EVENT_PORT_ERR },
	{ "lid_change", MAIL_ASYNC, IBV_EVENT_LID_CHANGE },
	{ "pkey_change", MAIL_ASYNC, IBV_EVENT_PKEY_CHANGE },
	{ "sm_change", MAIL_ASYNC, IBV_EVENT_SM_CHANGE },
	{ "gid_change", MAIL_ASYNC, IBV_EVENT_GID_CHANGE },
	{ "client_reregister", MAIL_ASYNC, IBV_EVENT_CLIENT_REREGISTER },
};

static int usage(void)
{
	unsigned int i;

	fprintf(stderr,
		"usage: fabricctl list\n"
		"       fabricctl set LID|all NAME=VALUE...\n"
		"       fabricctl event LID|all EVENT\n"
		"LID is decimal or 0x hexadecimal. The directory is $SV_HCA_FABRIC, or that of the conf file.\n"
		"names: ");
#define PRINT(field, name, value) fprintf(stderr, " " #field);
	HCA_SETTINGS(PRINT)
#undef PRINT
	fprintf(stderr, "\nevents:");
	for (i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		fprintf(stderr, " %s", events[i].name);
	fprintf(stderr, "\n");
	return 2;
}

static int set_one(struct seg *seg, const char *assignment)
{
	const char *equals = strchr(assignment, '=');
	size_t n = equals ? (size_t)(equals - assignment) : 0;
	unsigned long value;
	char *end;

	if (!equals)
		return usage();
	value = strtoul(equals + 1, &end, 0);
	if (end == equals + 1 || *end) {
		fprintf(stderr, "fabricctl: %s is not a number\n", equals + 1);
		return 2;
	}
#define SET(field, name, fallback)						\
	if (n == strlen(#field) && !strncmp(assignment, #field, n)) {		\
		seg_store(&seg->settings.field, value);				\
		return 0;							\
	}
	HCA_SETTINGS(SET)
#undef SET
	fprintf(stderr, "fabricctl: there is no setting %.*s\n", (int)n, assignment);
	return 2;
}

static int event_one(struct seg *seg, const char *name)
{
	unsigned int i;

	for (i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (!strcmp(events[i].name, name)) {
			seg_mail(seg, events[i].mail, 0, 0, events[i].event);
			return 0;
		}
	}
	fprintf(stderr, "fabricctl: there is no event %s\n", name);
	return 2;
}

static void list_one(struct seg *seg)
{
	uint32_t i, qps = 0;

	for (i = 0; i < seg_load(&seg->max_qp); i++)
		qps += !!seg_load(&seg->qp[i].in_use);
	printf("lid %u pid %d qps %u%s", seg->port[0].lid, seg->pid, qps, seg_load(&seg->fatal) ? " fatal" : "");
#define PRINT(field, name, fallback)			\
	if (seg_load(&seg->settings.field))		\
		printf(" %s=%u", #field, seg->settings.field);
	HCA_SETTINGS(PRINT)
#undef PRINT
	printf("\n");
}

static int act(struct seg *seg, int argc, char **argv)
{
	int i, ret = 0;

	if (!strcmp(argv[1], "list"))
		list_one(seg);
	else if (!strcmp(argv[1], "event"))
		ret = event_one(seg, argv[3]);
	else
		for (i = 3; i < argc && !ret; i++)
			ret = set_one(seg, argv[i]);
	return ret;
}

int main(int argc, char **argv)
{
	char dir[400];
	bool list = argc == 2 && !strcmp(argv[1], "list");
	bool all = list || (argc > 2 && !strcmp(argv[2], "all"));
	unsigned long wanted = 0;
	unsigned int found = 0;
	struct dirent *entry;
	DIR *d;
	int ret = 0;

	if (!list && !(argc >= 4 && !strcmp(argv[1], "set")) && !(argc == 4 && !strcmp(argv[1], "event")))
		return usage();
	if (!all)
		wanted = strtoul(argv[2], NULL, 0);
	hca_fabric_path(dir, sizeof(dir));
	d = opendir(dir);
	if (!d) {
		fprintf(stderr, "fabricctl: %s: %s\n", dir, strerror(errno));
		return 1;
	}
	while (!ret && (entry = readdir(d))) {
		uint32_t id = seg_id_of(entry->d_name);
		struct seg *seg = id ? seg_attach(dir, id) : NULL;

		if (!seg)
			continue;
		/* Of all that have a device open. */
		if (all || seg_has_lid(seg, wanted)) {
			found++;
			ret = act(seg, argc, argv);
		}
		munmap(seg, SEG_SIZE);
	}
	closedir(d);
	if (!found && !list) {
		fprintf(stderr, "fabricctl: no such device in %s\n", dir);
		ret = 1;
	}
	return ret;
}
