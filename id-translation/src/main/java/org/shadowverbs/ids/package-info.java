// SPDX-License-Identifier: Apache-2.0
/**
 * Virtual ids: identity plus exceptions. An id that the application sees equals the real one (XOR a mask that all ranks
 * share) when its object is created. When real objects are made anew, each object that is carried over keeps its
 * virtual id and gets an entry in its owner's {@link org.shadowverbs.ids.ExceptionSet}, which stays as it is until the
 * next time. {@link org.shadowverbs.ids.IdSpace} holds the rule for what is created afterwards. What ranks tell each
 * other is in {@link org.shadowverbs.ids.QpRecord} and {@link org.shadowverbs.ids.OwnerRecord};
 * {@link org.shadowverbs.ids.AddressBook} answers questions from the latter.
 *
 * <p>This code runs inside the application's process: java.base only, no lambdas, no streams.
 */
package org.shadowverbs.ids;
