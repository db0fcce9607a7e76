/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's way into C: one function of JNI, which calls any other by its address. The JVM would make a method handle of
 * its own for each shape of call, with a dozen classes spun at run time: a quarter of the time until the first verb is
 * served. This one takes none.
 */
#include "base/base.h"
#include "control/control.h"
#include "control/downcall.h"

#define CLASS "org/shadowverbs/driver/nativelib/Downcall"

/*
 * Both System V x86-64 and AAPCS64 pass the first six integer and pointer arguments in registers and ignore registers that
 * a function does not read, so one wide shape calls them all.
 */
typedef jlong (*wide)(jlong, jlong, jlong, jlong, jlong, jlong);

JNIEXPORT jlong JNICALL Java_org_shadowverbs_driver_nativelib_Downcall_invoke(JNIEnv *env, jclass class, jlong function,
									      jlong error, jlong a, jlong b, jlong c,
									      jlong d, jlong e, jlong f)
{
	jlong result;

	(void)env;
	(void)class;
	errno = 0;
	result = ((wide)(uintptr_t)function)(a, b, c, d, e, f);
	*(int *)(uintptr_t)error = errno;
	return result;
}

bool sv_downcall_register(JNIEnv *env)
{
	static const JNINativeMethod method = {
		"invoke", "(JJJJJJJJ)J", (void *)Java_org_shadowverbs_driver_nativelib_Downcall_invoke
	};
	jclass class = (*env)->FindClass(env, CLASS);

	return class && !(*env)->RegisterNatives(env, class, &method, 1);
}
