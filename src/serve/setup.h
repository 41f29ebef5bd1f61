/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Everything that the server opens, reads and starts before its loop, with the rights it was given;
 * the last step gives them up. */

struct cay_error;
struct server;

/* Tells admission how many tenants the token file has; also after it was read again. */
void setup_tenants(struct server *server);

int setup_all(struct server *server, struct cay_error *err);

/* Closes what setup_all opened, whole or in part. */
void setup_undo(struct server *server);
