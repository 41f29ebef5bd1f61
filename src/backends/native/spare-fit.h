/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which jobs a sandbox that was made ahead can take. */

#include <stdbool.h>

#include "backends/native/native.h"

/* Whether one made ahead may serve it at all: it has nothing that the sandbox is built around. */
bool spare_may_serve(const struct job *job);

/* Whether this one, which is ready, has the layers and limits that the job asks for, or can be given
 * them. */
bool spare_fits(const struct native *native, const struct job *job);
