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

#include <stdbool.h>
#include <stddef.h>

#include <cay/image.h>

#include "core/embedded.h"

struct arena;

/* Those that come with cay; the build writes it (core/embedded.h). */
extern const struct embedded_file image_files[];

/* Whether one of that name comes with cay. */
bool image_definition_is_there(const char *name, size_t len);

/* Says by which command an image that is missing is built, and marks the error so that somebody at
 * a terminal can be asked (errnum of <cay/error.h>). Returns -1. */
int image_hint_build(struct cay_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads one; file is its name, for messages. Strings are the arena's. */
int image_definition_parse(struct arena *arena, const char *text, size_t len, const char *file,
                           struct cay_image_definition *ret, struct cay_error *err);
