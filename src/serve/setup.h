/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Everything that the server opens, reads and starts before its loop, with the rights it was given;
 * the last step gives them up. */

struct cay_error;
struct server;

int setup_all(struct server *server, struct cay_error *err);

/* Closes what setup_all opened, whole or in part. */
void setup_undo(struct server *server);
