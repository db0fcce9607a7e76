#include "route.h"

#include <string.h>

#define IPV4_FROM 32
#define IPV4_TO 36

static bool is_mapped(const union ibv_gid *gid, const unsigned char *address)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix)) && !memcmp(gid->raw + sizeof(prefix), address, 4);
}

bool route_says(const void *header, const union ibv_gid *from, const union ibv_gid *to)
{
	const unsigned char *bytes = header;
	struct ibv_grh grh;

	if (bytes[0] >> 4 != 6)
		return is_mapped(from, bytes + IPV4_FROM) && is_mapped(to, bytes + IPV4_TO);
	memcpy(&grh, header, sizeof(grh));
	return !memcmp(&grh.sgid, from, sizeof(grh.sgid)) && !memcmp(&grh.dgid, to, sizeof(grh.dgid));
}
