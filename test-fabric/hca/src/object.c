/* Memory of the objects behind the public structs. */
#include "hca.h"

#define QUARANTINE 4096

static pthread_mutex_t quarantine_lock = PTHREAD_MUTEX_INITIALIZER;
static void *quarantine[QUARANTINE];
static unsigned int quarantine_next;

void object_die(const char *verb, const char *type, const void *object)
{
	fprintf(stderr, "shadow-hca: %s was given a struct at %p that is not a live %s of this device; aborting\n",
		verb, object, type);
	abort();
}

void *object_alloc(size_t size)
{
	void *object = NULL;

	if (posix_memalign(&object, 64, (size + 63) & ~(size_t)63)) {
		errno = ENOMEM;
		return NULL;
	}
	memset(object, 0, size);
	return object;
}

void object_free(void *object, size_t size)
{
	void *oldest;

	memset(object, OBJECT_POISON, size);
	pthread_mutex_lock(&quarantine_lock);
	oldest = quarantine[quarantine_next];
	quarantine[quarantine_next] = object;
	quarantine_next = (quarantine_next + 1) % QUARANTINE;
	pthread_mutex_unlock(&quarantine_lock);
	free(oldest);
}
