/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* By these arguments, behind the status, which the kernel does not look at, an exit_group says that
 * somebody may be told of it, and hold it (seccomp_load_notif). Only cay's own code in an
 * interpreter makes such a call, with all signals blocked (spawn_leave): a signal that comes before
 * the notification is received makes it return EINTR. tools/gen-seccomp.c reads this too. */
#define EXIT_MARK_1 0x79616327
#define EXIT_MARK_2 0x65786974
