/* SPDX-License-Identifier: Apache-2.0 */
/* A libjvm.so that starts the tests' stand-in for the driver, the way the real one starts the driver. */
#include "driver.h"

#include <jni.h>
#include <stdio.h>
#include <stdlib.h>

static jclass find_class(JNIEnv *env, const char *name)
{
	(void)env;
	return getenv("DRIVER_HAS_NO_MAIN") ? NULL : (jclass)name;
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
