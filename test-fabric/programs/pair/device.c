/*
 * device: everything that ibv_devinfo and ibv_devices show of a device that is open stays what it was: names, GUIDs,
 * attributes, ports, lids, GIDs, P_Keys. The node's GUID is one, whoever is asked, and also when it is opened anew.
 */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define MOST_GIDS 64

const char *const program_name = "device";
const char *const program_modes[] = { "plain", NULL };

struct snapshot {
	char name[64];
	__be64 guid;
	int index;
	int devices;
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex extended;
	struct ibv_port_attr port;
	union ibv_gid gids[MOST_GIDS];
	struct ibv_gid_entry entries[MOST_GIDS];
	ssize_t entry_count;
	__be16 pkey;
	int pkey_index;
};

static void take(struct pair *pair, struct snapshot *s)
{
	struct ibv_context *context = pair->endpoint.context;
	int port = pair->endpoint.port_num;
	struct ibv_device **list = ibv_get_device_list(&s->devices);

	if (!list)
		die(errno, "ibv_get_device_list");
	ibv_free_device_list(list);
	strncpy(s->name, ibv_get_device_name(context->device), sizeof(s->name) - 1);
	s->guid = ibv_get_device_guid(context->device);
	s->index = ibv_get_device_index(context->device);
	if (ibv_query_device(context, &s->attr) || ibv_query_device_ex(context, NULL, &s->extended))
		die(errno, "ibv_query_device");
	if (s->attr.node_guid != s->guid || s->extended.orig_attr.node_guid != s->guid)
		die(0, "the device's GUID is not that of its attributes");
	if (ibv_query_port(context, port, &s->port))
		die(errno, "ibv_query_port");
	for (int i = 0; i < s->port.gid_tbl_len && i < MOST_GIDS; i++)
		if (ibv_query_gid(context, port, i, &s->gids[i]))
			die(errno, "ibv_query_gid of entry %d", i);
	s->entry_count = ibv_query_gid_table(context, s->entries, MOST_GIDS, 0);
	if (s->entry_count < 0)
		die((int)-s->entry_count, "ibv_query_gid_table");
	if (ibv_query_pkey(context, port, 0, &s->pkey))
		die(errno, "ibv_query_pkey");
	s->pkey_index = ibv_get_pkey_index(context, port, s->pkey);
}

/* Opened once more it is the same device. */
static void check_again(struct ibv_device *device, __be64 guid)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr attr;

	if (!context || ibv_query_device(context, &attr))
		die(errno, "cannot open the device once more");
	if (attr.node_guid != guid)
		die(0, "the node's GUID of a device opened once more is not what it was");
	ibv_close_device(context);
}

#define COMPARE(field)                                                                  \
	do {                                                                            \
		if (memcmp(&before->field, &after->field, sizeof(before->field)))       \
			die(0, #field " is not what it was");                           \
	} while (0)

void program_run(struct pair *pair)
{
	/* Zeroed, so that what no query fills is equal. */
	struct snapshot *before = calloc(1, sizeof(*before)), *after = calloc(1, sizeof(*after));

	if (!before || !after)
		die(errno, "calloc");
	take(pair, before);
	pair_ready(pair);
	take(pair, after);
	COMPARE(name);
	COMPARE(guid);
	COMPARE(index);
	COMPARE(devices);
	COMPARE(attr);
	COMPARE(extended);
	COMPARE(port);
	COMPARE(gids);
	COMPARE(entries);
	COMPARE(entry_count);
	COMPARE(pkey);
	COMPARE(pkey_index);
	check_again(pair->endpoint.context->device, before->guid);
	free(before);
	free(after);
}
