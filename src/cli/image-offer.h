/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A run that lacks an image which can be built: asked at a terminal, it is built on the way. */

#include <stdbool.h>

struct cay_error;

/* Whether the error was for want of such an image, and it is there now: after asking on the
 * terminal, or at once where is_agreed. cancel_fd is readable once Ctrl-C was typed. Where there is
 * nobody to ask, nothing happens, and the error's hint has the command. */
bool image_offer_build(const struct cay_error *err, bool is_agreed, int cancel_fd);
