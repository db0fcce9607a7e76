/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SV_CONTROL_DOWNCALL_H
#define SV_CONTROL_DOWNCALL_H

#include <jni.h>
#include <stdbool.h>

/* Named as the JVM looks for it when Java loads this library, which it does to train the AOT cache. */
JNIEXPORT jlong JNICALL Java_org_shadowverbs_driver_nativelib_Downcall_invoke(JNIEnv *env, jclass class, jlong function,
									      jlong error, jlong a, jlong b, jlong c,
									      jlong d, jlong e, jlong f);

/* Gives the driver its way into C. False: an exception is pending. */
bool sv_downcall_register(JNIEnv *env);

#endif
