/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which sandboxes and execs one that was made ahead can be. */

#include <stdbool.h>

#include "backends/native/native.h"

/* Whether one made ahead may be it at all: it has nothing that the sandbox is built around. */
bool spare_may_serve(const struct sandbox_spec *spec);

/* Whether this one, which is ready, has the layers and limits that are asked for, or can be given
 * them. */
bool spare_fits(const struct native *native, const struct sandbox_spec *spec);

/* Whether the program that waits in it can be this one. */
bool spare_takes(const struct native *native, const struct exec_spec *exec);
