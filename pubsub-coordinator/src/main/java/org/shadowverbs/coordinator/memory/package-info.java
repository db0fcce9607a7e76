// SPDX-License-Identifier: Apache-2.0
/**
 * Memory of other processes while they run: which pages they have written to, and copies of pages in files that CRIU reads. It
 * knows nothing of jobs, trees and checkpoints; {@code process} uses it.
 *
 * <p>Two kinds of kernels count writes. Those with soft-dirty bits do so for every process, and CRIU looks at them by itself. On
 * others, since Linux 6.7, a process can be counted that has given away a userfaultfd(2) of its own: its pages are write-protected,
 * and the kernel takes the protection off at the first write, without telling anybody.
 */
package org.shadowverbs.coordinator.memory;
