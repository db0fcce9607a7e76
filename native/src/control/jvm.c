/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's start: at the first verb that needs it, a Java virtual machine on a thread of its own, with signals
 * blocked, which runs the driver's main. The application's threads do not enter it, but for turns of ib2tcp (tcp_drive.c).
 */
#include "base/futex.h"
#include "base/say.h"
#include "base/tcp_abi.h"
#include "control/control.h"
#include "control/downcall.h"
#include "control/thread.h"

#include <dlfcn.h>
#include <jni.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define MAIN_CLASS "org/shadowverbs/driver/Rank"
#define OPTIONS_FILE "lib/rank.options"
#define MAX_OPTIONS 128
#define SECOND 1000000000LL
#define START_DEADLINE (120 * SECOND)
#define EXIT_DEADLINE (10 * SECOND)
/* The virtual machine kills the process when a thread with a small stack enters it; this one also runs the main. */
#define STACK_SIZE ((size_t)8 << 20)

/*
 * Where the JVM drives no connection, which is for ib2tcp, nothing in there is hot for long. What a checkpoint of many queue
 * pairs repeats is compiled, what the start does is not; the second compiler would take 2 MB. What was allocated last stays
 * in memory and in images, so that is to be little.
 */
static const char *const on_an_hca[] = {
	"-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=10", "-Xms3m", "-Xmn1m"
};

enum state {
	NOT_STARTED,
	STARTING,
	RUNNING,
	FAILED,
	CHILD			/* a child forked from a process whose driver runs */
};

static uint32_t state;		/* a futex word */
static int failure;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

bool sv_driver_running(void)
{
	return sv_load_acquire(&state) == RUNNING;
}

bool sv_driver_possible(void)
{
	return sv_load_acquire(&state) < FAILED;
}

int sv_abi_version(void)
{
	return SV_ABI_VERSION;
}

static void set_state(enum state to, int err)
{
	failure = err;
	sv_store_release(&state, to);
	sv_futex_wake(&state, INT_MAX);
}

void sv_driver_ready(int err)
{
	if (sv_load_acquire(&state) == STARTING)
		set_state(err ? FAILED : RUNNING, err);
}

static void start_failed(const char *reason)
{
	if (sv_load_acquire(&state) != STARTING)
		return;
	sv_sayf("the driver cannot start: %s", reason);
	set_state(FAILED, EIO);
}

/* Copies a line of the options file, with the one variable that it may hold; NULL when out of memory. */
static char *expand(const char *line, const char *home)
{
	static const char variable[] = "${SHADOWVERBS_HOME}";
	size_t size = strlen(line) + 1;
	char *option, *to;

	for (const char *at = line; (at = strstr(at, variable)); at += strlen(variable))
		size += strlen(home);
	to = option = malloc(size);
	if (!option)
		return NULL;
	while (*line) {
		if (!strncmp(line, variable, strlen(variable))) {
			to = stpcpy(to, home);
			line += strlen(variable);
		} else {
			*to++ = *line++;
		}
	}
	*to = '\0';
	return option;
}

/* One option a line; empty lines and those that begin with # do not count. Returns how many, or -1 with *reason. */
static int read_options(const char *home, JavaVMOption *options, char *reason, size_t size)
{
	char path[4096], line[4096];
	int count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/" OPTIONS_FILE, home);
	file = fopen(path, "re");
	if (!file) {
		snprintf(reason, size, "%s: %s", path, strerror(errno));
		return -1;
	}
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!*line || *line == '#')
			continue;
		if (count == MAX_OPTIONS || !(options[count].optionString = expand(line, home))) {
			snprintf(reason, size, "%s: more than %d options, or out of memory", path, MAX_OPTIONS);
			count = -1;
			break;
		}
		options[count++].extraInfo = NULL;
	}
	fclose(file);
	return count;
}

static void run_main(JNIEnv *env)
{
	jclass rank = sv_downcall_register(env) ? (*env)->FindClass(env, MAIN_CLASS) : NULL;
	jclass string = rank ? (*env)->FindClass(env, "java/lang/String") : NULL;
	jmethodID main = string ? (*env)->GetStaticMethodID(env, rank, "main", "([Ljava/lang/String;)V") : NULL;
	jobjectArray none = main ? (*env)->NewObjectArray(env, 0, string, NULL) : NULL;

	if (none)
		(*env)->CallStaticVoidMethod(env, rank, main, none);
	if ((*env)->ExceptionCheck(env)) {
		(*env)->ExceptionDescribe(env);
		start_failed("an exception in " MAIN_CLASS);
	}
}

static void *boot(void *unused)
{
	const char *home = getenv("SHADOWVERBS_HOME"), *library_path = getenv("SHADOWVERBS_JVM");
	JavaVMOption options[MAX_OPTIONS + sizeof(on_an_hca) / sizeof(on_an_hca[0])];
	JavaVMInitArgs args = { .version = JNI_VERSION_10, .options = options };
	jint (*create)(JavaVM **, void **, void *);
	char reason[4096 + 256];
	void *library;
	JavaVM *jvm;
	JNIEnv *env;
	jint result;

	(void)unused;
	args.nOptions = read_options(home, options, reason, sizeof(reason));
	if (args.nOptions < 0) {
		start_failed(reason);
		return NULL;
	}
	if (!sv_tcp_selected())
		for (size_t i = 0; i < sizeof(on_an_hca) / sizeof(on_an_hca[0]); i++)
			options[args.nOptions++] = (JavaVMOption){ .optionString = strdup(on_an_hca[i]) };
	library = dlopen(library_path, RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		start_failed(dlerror());
		return NULL;
	}
	*(void **)&create = dlsym(library, "JNI_CreateJavaVM");
	result = create ? create(&jvm, (void **)&env, &args) : JNI_ERR;
	for (int i = 0; i < args.nOptions; i++)
		free(options[i].optionString);
	if (result != JNI_OK) {
		snprintf(reason, sizeof(reason), "JNI_CreateJavaVM of %s returned %d", library_path, (int)result);
		start_failed(reason);
		return NULL;
	}
	run_main(env);
	(*jvm)->DetachCurrentThread(jvm);
	return NULL;
}

static int is_jvm(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *name = strrchr(info->dlpi_name, '/');

	(void)size;
	(void)unused;
	return name && !strcmp(name, "/libjvm.so");
}

/*
 * The process ends by exit(3) or by a return from main: the job must know that this is no failure. Passing the gate
 * first keeps a process from vanishing in the middle of a checkpoint.
 */
static void say_goodbye(int status, void *unused)
{
	const uint64_t args[] = { SV_ARG((int64_t)status) };
	struct sv_thread *self;

	(void)unused;
	if (sv_load_acquire(&state) != RUNNING)
		return;
	self = sv_gate_enter("exit");
	if (sv_mailbox_call(SV_OP_EXIT, "exit", NULL, 1, args, EXIT_DEADLINE) == ETIMEDOUT)
		sv_sayf("the driver did not answer the goodbye within %lld s", EXIT_DEADLINE / SECOND);
	sv_gate_leave(self);
}

static void start(void)
{
	sigset_t blocked, previous;
	pthread_attr_t attributes;
	pthread_t thread;
	int err;

	if (!getenv("SHADOWVERBS_HOME") || !getenv("SHADOWVERBS_JVM")) {
		start_failed("SHADOWVERBS_HOME and SHADOWVERBS_JVM are not set; start the program with shadowverbs launch");
		return;
	}
	if (dl_iterate_phdr(is_jvm, NULL)) {
		start_failed("the process runs a Java virtual machine of its own, which is not supported");
		return;
	}
	/* Faults stay unblocked: the virtual machine depends on them. */
	sigfillset(&blocked);
	for (const int *fault = (const int[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, 0 }; *fault; fault++)
		sigdelset(&blocked, *fault);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &blocked, &previous);
	err = pthread_create(&thread, &attributes, boot, NULL);
	pthread_sigmask(SIG_SETMASK, &previous, NULL);
	pthread_attr_destroy(&attributes);
	if (err)
		start_failed(strerror(err));
}

static void await_start(void)
{
	int64_t deadline = sv_now() + START_DEADLINE;

	while (sv_load_acquire(&state) == STARTING) {
		int64_t left = deadline - sv_now();

		if (left <= 0) {
			char reason[80];

			snprintf(reason, sizeof(reason), "it was not ready within %lld s", START_DEADLINE / SECOND);
			start_failed(reason);
			return;
		}
		sv_futex_wait(&state, STARTING, left);
	}
	if (sv_load_acquire(&state) == RUNNING)
		on_exit(say_goodbye, NULL);
}

int sv_driver_start(const char *verb)
{
	uint32_t now = sv_load_acquire(&state);

	if (likely(now == RUNNING))
		return 0;
	if (now == CHILD) {
		sv_sayf("%s in a child forked from a rank is not supported; exec a program to use verbs there", verb);
		return EOPNOTSUPP;
	}
	pthread_mutex_lock(&start_lock);
	if (sv_load_acquire(&state) == NOT_STARTED) {
		sv_store_release(&state, STARTING);
		start();
		await_start();
	}
	pthread_mutex_unlock(&start_lock);
	if (sv_load_acquire(&state) == RUNNING)
		return 0;
	return failure == EOPNOTSUPP ? EOPNOTSUPP : EIO;
}

void sv_driver_forked(void)
{
	pthread_mutex_init(&start_lock, NULL);
	state = state == NOT_STARTED ? NOT_STARTED : CHILD;
}
