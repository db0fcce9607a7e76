/*
 * Settings and faults of the software HCA. README.md says what each does. Every one is a 32-bit word in the shared
 * segment, so that fabricctl can change it while the program runs.
 *
 * HCA_SETTINGS(X) expands X(field, NAME, default); the name of the setting is SV_HCA_NAME.
 */
#ifndef HCA_SETTINGS_H
#define HCA_SETTINGS_H

#include <stdint.h>

#define HCA_SETTINGS(X)						\
	X(ports,		PORTS,			1)	\
	X(id_space,		ID_SPACE,		0)	\
	X(own_lid,		OWN_LID,		0)	\
	X(null_mode,		NULL,			0)	\
	X(null_recv,		NULL_RECV,		0)	\
	X(exec_delay_us,	EXEC_DELAY_US,		0)	\
	X(completion_delay_us,	COMPLETION_DELAY_US,	0)	\
	X(reorder,		REORDER,		0)	\
	X(withhold_polls,	WITHHOLD_POLLS,		0)	\
	X(poll_delay_us,	POLL_DELAY_US,		0)	\
	X(rest_us,		REST_US,		0)	\
	X(rnr_force,		RNR_FORCE,		0)	\
	X(rnr_kick,		RNR_KICK,		0)	\
	X(rnr_slower,		RNR_SLOWER,		1)	\
	X(slow_peer_us,		SLOW_PEER_US,		0)	\
	X(enomem_every,		ENOMEM_EVERY,		0)	\
	X(fatal_after,		FATAL_AFTER,		0)	\
	X(die_at,		DIE_AT,			0)	\
	X(rate_limit_min,	RATE_LIMIT_MIN,		1)	\
	X(rate_limit_max,	RATE_LIMIT_MAX,		100000000) \
	X(report_leaks,		REPORT_LEAKS,		0)

struct hca_settings {
	uint32_t personality;	/* enum personality, read from the text SV_HCA_PERSONALITY */
	uint32_t seed;		/* of the hostile one */
	uint32_t refusals;	/* it refuses requests now and then, which few programs cope with */
#define FIELD(field, name, value) uint32_t field;
	HCA_SETTINGS(FIELD)
#undef FIELD
};

/* Where processes meet: SV_HCA_FABRIC, else /dev/shm/sv-fabric-<uid>. Written to @path. */
void hca_fabric_path(char *path, unsigned long size);
/* Reads the settings that hold for an open that happens now. Number of devices in @devices. */
void hca_settings_read(struct hca_settings *settings);
unsigned int hca_settings_devices(void);

#endif
