/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an image is built from (docs/images.md), a TOML file each: images/NAME.toml of the source
 * for those that come with cay.
 *
 *     name      = "python"
 *     title     = "Python 3"
 *     packages  = ["python3"]
 *     languages = ["python"]
 */

#include <stddef.h>

#include <cay/image.h>

#include "core/embedded.h"

struct arena;

/* Those that come with cay; the build writes it (core/embedded.h). */
extern const struct embedded_file image_files[];

/* Reads one; file is its name, for messages. Strings are the arena's. */
int image_definition_parse(struct arena *arena, const char *text, size_t len, const char *file,
                           struct cay_image_definition *ret, struct cay_error *err);
