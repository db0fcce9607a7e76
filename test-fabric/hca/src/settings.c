/*
 * Where a setting comes from, first hit wins: the file $SV_HCA_CONF, or <fabric directory>/conf when that variable is
 * not set; then the environment; then the default. The file comes first because a process that was restored from an
 * image keeps the environment it was saved with.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "personality.h"
#include "settings.h"

#define CONF_MAX 16384

struct conf {
	char text[CONF_MAX];
};

static void conf_read(struct conf *conf, const char *path)
{
	size_t n = 0;
	FILE *f = fopen(path, "re");

	if (f) {
		n = fread(conf->text, 1, sizeof(conf->text) - 1, f);
		fclose(f);
	}
	conf->text[n] = 0;
}

/* The value of "NAME=value" on a line of its own, or NULL. Valid until the next call of this thread. */
static const char *conf_get(const struct conf *conf, const char *name)
{
	static __thread char value[512];
	size_t len = strlen(name);
	const char *line = conf->text;

	while (*line) {
		size_t n = strcspn(line, "\n");

		if (!strncmp(line, name, len) && line[len] == '=') {
			size_t l = n - len - 1;

			if (l >= sizeof(value))
				l = sizeof(value) - 1;
			memcpy(value, line + len + 1, l);
			value[l] = 0;
			return value;
		}
		line += n;
		if (*line)
			line++;
	}
	return getenv(name);
}

static void default_fabric(char *path, size_t size)
{
	const char *env = getenv("SV_HCA_FABRIC");

	if (env && *env)
		snprintf(path, size, "%s", env);
	else
		snprintf(path, size, "/dev/shm/sv-fabric-%u", (unsigned int)getuid());
}

static void conf_load(struct conf *conf)
{
	const char *env = getenv("SV_HCA_CONF");
	char dir[400], path[448];

	if (env && *env) {
		conf_read(conf, env);
		return;
	}
	default_fabric(dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/conf", dir);
	conf_read(conf, path);
}

void hca_fabric_path(char *path, unsigned long size)
{
	struct conf conf;
	const char *value;

	conf_load(&conf);
	value = conf_get(&conf, "SV_HCA_FABRIC");
	if (value && *value)
		snprintf(path, size, "%s", value);
	else
		default_fabric(path, size);
}

static uint32_t number(const struct conf *conf, const char *name, uint32_t fallback)
{
	const char *text = conf_get(conf, name);
	unsigned long value;
	char *end;

	if (!text || !*text)
		return fallback;
	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || *end || value > UINT32_MAX) {
		fprintf(stderr, "shadow-hca: %s=%s is not a number, %u is used\n", name, text, fallback);
		return fallback;
	}
	return value;
}

/* "strict", "rxe", "mlx5" or "hostile[:SEED[,refusals]]", of which the seed is said when nobody has chosen it. */
static void personality_read(const struct conf *conf, struct hca_settings *settings)
{
	static const char *const names[] = {
		[PERSONALITY_STRICT] = "strict", [PERSONALITY_RXE] = "rxe", [PERSONALITY_MLX5] = "mlx5",
		[PERSONALITY_HOSTILE] = "hostile",
	};
	const char *text = conf_get(conf, "SV_HCA_PERSONALITY");
	size_t length = text ? strcspn(text, ":") : 0;
	char *end = "";
	uint32_t i;

	settings->personality = PERSONALITY_STRICT;
	settings->seed = settings->refusals = 0;
	if (!length)
		return;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (length == strlen(names[i]) && !strncmp(text, names[i], length))
			break;
	if (i < sizeof(names) / sizeof(names[0]) && (!text[length] || i == PERSONALITY_HOSTILE)) {
		settings->personality = i;
		if (text[length])
			settings->seed = strtoul(text + length + 1, &end, 0);
		settings->refusals = !strcmp(end, ",refusals");
		if (settings->refusals)
			end = "";
	}
	if (i == sizeof(names) / sizeof(names[0]) || (text[length] && (i != PERSONALITY_HOSTILE || *end))) {
		fprintf(stderr, "shadow-hca: SV_HCA_PERSONALITY=%s is none of strict, rxe, mlx5 and hostile[:SEED[,refusals]]\n", text);
		exit(1);
	}
	if (i == PERSONALITY_HOSTILE && !text[length]) {
		settings->seed = (uint32_t)time(NULL) ^ (uint32_t)getpid() << 16;
		fprintf(stderr, "shadow-hca: SV_HCA_PERSONALITY=hostile:%u\n", settings->seed);
	}
}

void hca_settings_read(struct hca_settings *settings)
{
	struct conf conf;

	conf_load(&conf);
	personality_read(&conf, settings);
#define READ(field, name, value) settings->field = number(&conf, "SV_HCA_" #name, value);
	HCA_SETTINGS(READ)
#undef READ
}

unsigned int hca_settings_devices(void)
{
	struct conf conf;
	uint32_t n;

	conf_load(&conf);
	n = number(&conf, "SV_HCA_DEVICES", 1);
	return n > 64 ? 64 : n;
}
