/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Offers at a terminal to build an image that a run lacks. */

#include <stdbool.h>

struct cay_error;

/* Whether the error said that such an image is missing, and it was built now: after asking on the
 * terminal, or without asking where is_agreed. cancel_fd is readable once Ctrl-C was typed. Without
 * a terminal nothing happens; the error's hint has the command. */
bool image_offer_build(const struct cay_error *err, bool is_agreed, int cancel_fd);
