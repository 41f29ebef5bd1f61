/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where cay's own programs are that nobody calls by name: beside the command in a build folder,
 * else where they are installed. */

#include <stddef.h>

void libexec_folder(char *buf, size_t size);

/* The path of one of them. Returns -ENOENT where it is not there. */
int libexec_find(const char *name, char *buf, size_t size);
