/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* With these two arguments behind the status, which the kernel ignores, an exit_group asks to be
 * held by a listener first (seccomp_load_notif). Only cay's own code in an interpreter makes such a
 * call, with all signals blocked (spawn_leave): a signal that comes before the notification is
 * received makes it return EINTR. tools/gen-seccomp.c reads this too. */
#define EXIT_MARK_1 0x79616327
#define EXIT_MARK_2 0x65786974
