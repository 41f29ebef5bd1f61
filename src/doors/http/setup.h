/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Everything that the server opens, reads and starts before its loop, with the rights it was given;
 * the last step gives them up. */

struct cay_error;
struct server;

/* Tells admission how many tenants the token file has; also after it was read again. */
void setup_tenants(struct server *server);

/* Gives each tenant the quotas that the configuration has for it now, and the others none. */
void setup_quotas(struct server *server);

/* Calls tell for each table [tenant.NAME] whose name no token has; near is the tenant that may have
 * been meant, or NULL. */
void setup_idle_tenants(const struct server *server,
                        void (*tell)(const struct server *server, const char *name,
                                     const char *near));

int setup_all(struct server *server, struct cay_error *err);

/* Closes what setup_all opened, whole or in part. */
void setup_undo(struct server *server);
