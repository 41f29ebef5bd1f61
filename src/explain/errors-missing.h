/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a module, header or file that a program did not find may be. Nothing here is guessed: a file
 * is named because it is there, a module because the language has it, a package because the list in
 * languages/NAME/modules.toml has it (tools/check-modules.py holds that against Debian's index).
 */

#include "explain/errors-data.h"
#include "explain/errors-source.h"

/* The package that has the module, or the folder of the header; NULL: none is known. */
const char *missing_package(struct arena *arena, const struct errors_data *data, const char *name);

/* The name of a module of the language's own, or of a package, that this one is a slip of; NULL. */
const char *missing_near(struct arena *arena, const struct errors_data *data, const char *name);

/* A sentence on the file beside the code that this name means, and how to pass it; NULL: there is
 * none. */
const char *missing_beside(struct arena *arena, const struct errors_data *data,
                           const struct errors_beside *beside, const char *name);
