/* SPDX-License-Identifier: Apache-2.0 */
/* A libjvm.so that starts the tests' stand-in for the driver, the way the real one starts the driver. */
#include "driver.h"

#include <errno.h>
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jclass find_class(JNIEnv *env, const char *name)
{
	(void)env;
	return getenv("DRIVER_HAS_NO_MAIN") ? NULL : (jclass)name;
}

static long digits(long a, long b, long c, long d, long e, long f)
{
	errno = EBADF;
	return 100000 * a + 10000 * b + 1000 * c + 100 * d + 10 * e + f;
}

static long untouched(void)
{
	return -errno;
}

/* The driver's way into C, as it is given to the driver's class. */
static jint natives(JNIEnv *env, jclass class, const JNINativeMethod *methods, jint count)
{
	jlong (*invoke)(JNIEnv *, jclass, jlong, jlong, jlong, jlong, jlong, jlong, jlong, jlong) = methods[0].fnPtr;
	int error = 0;

	errno = EIO;
	if (count != 1 || strcmp(methods[0].name, "invoke") || strcmp(methods[0].signature, "(JJJJJJJJ)J") ||
	    invoke(env, class, (jlong)digits, (jlong)&error, 1, 2, 3, 4, 5, 6) != 123456 || error != EBADF ||
	    invoke(env, class, (jlong)untouched, (jlong)&error, 0, 0, 0, 0, 0, 0) || error) {
		fprintf(stderr, "the driver's calls into C are not what it expects\n");
		abort();
	}
	return JNI_OK;
}

static jmethodID method(JNIEnv *env, jclass class, const char *name, const char *signature)
{
	(void)env, (void)class, (void)signature;
	return (jmethodID)name;
}

static jobjectArray array(JNIEnv *env, jsize size, jclass class, jobject initial)
{
	(void)env, (void)size, (void)initial;
	return (jobjectArray)class;
}

static void call_main(JNIEnv *env, jclass class, jmethodID id, ...)
{
	(void)env, (void)class, (void)id;
	driver_start();
}

static jboolean pending(JNIEnv *env)
{
	(void)env;
	return getenv("DRIVER_HAS_NO_MAIN") != NULL;
}

static void describe(JNIEnv *env)
{
	(void)env;
}

static jint detach(JavaVM *vm)
{
	(void)vm;
	return JNI_OK;
}

jint JNI_CreateJavaVM(JavaVM **vm, void **env, void *args)
{
	static struct JNINativeInterface_ functions = {
		.FindClass = find_class,
		.RegisterNatives = natives,
		.GetStaticMethodID = method,
		.NewObjectArray = array,
		.CallStaticVoidMethod = call_main,
		.ExceptionCheck = pending,
		.ExceptionDescribe = describe,
	};
	static struct JNIInvokeInterface_ invocations = { .DetachCurrentThread = detach };
	static JNIEnv the_env = &functions;
	static JavaVM the_vm = &invocations;
	JavaVMInitArgs *init = args;

	if (getenv("DRIVER_SHOWS_OPTIONS"))
		for (int i = 0; i < init->nOptions; i++)
			printf("option %s\n", init->options[i].optionString);
	fflush(stdout);
	*vm = &the_vm;
	*env = &the_env;
	return JNI_OK;
}
