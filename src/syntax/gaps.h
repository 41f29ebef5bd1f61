/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a language has and its grammar can't read. Each such place is written over, in a copy of the
 * text and byte for byte, with something that the grammar reads and that means no more: names and
 * signs of arithmetic. Whatever could run something (calls, $(…), backticks) stays as it is.
 *
 * The tree of the copy fits the text itself, so that findings show and fold what is really there.
 * Only code that did not parse comes here, and the copy counts only where it parses as a whole. It
 * takes back that the code could not be read, and nothing that was found in the code as it is.
 */

#include <stdbool.h>
#include <stddef.h>

/* Whether anything was written over. */
bool gaps_fill(const char *grammar, char *text, size_t len);
