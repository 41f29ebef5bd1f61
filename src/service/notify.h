/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tells the service manager what becomes of us ("READY=1", "STOPPING=1"), as sd_notify(3) does,
 * where NOTIFY_SOCKET names its socket. It is opened at once, for later there is no way to. */

/* The socket, or -1 where nobody wants to know. */
int notify_open(void);
void notify_send(int fd, const char *state);
