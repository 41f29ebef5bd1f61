/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAY_H
#define CAY_CAY_H

/* All of libcay. Start at <cay/run.h>. */

#include <cay/check.h>
#include <cay/doctor.h>
#include <cay/error.h>
#include <cay/executions.h>
#include <cay/limits.h>
#include <cay/record.h>
#include <cay/run.h>
#include <cay/settings.h>
#include <cay/setup.h>
#include <cay/version.h>

#endif
