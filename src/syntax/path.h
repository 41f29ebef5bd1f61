/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Paths in code, as the kernel will see them: "/etc/./x/..//shadow" is "/etc/shadow". Links are not
 * known here, so that x/.. is taken for nothing at all. */

struct arena;

/* The path itself where it is plain already, or no path but an address. */
const char *path_plain(struct arena *arena, const char *path);

/* How many folders a plain path goes up before it goes down: 2 of "../../x". */
unsigned path_climbs(const char *path);
