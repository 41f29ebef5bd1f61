/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SHA-256 by the processor's own instructions, where it has them: what a run wrote and what it was
 * given is hashed as it passes by, and a library's C takes longer for that than all the rest. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BLOCK = 64 };

/* Asks the processor the first time, which takes a while in a virtual machine. */
bool digest_has_blocks(void);

/* Takes whole blocks into the state. Only where digest_has_blocks. */
void digest_blocks(uint32_t state[static 8], const uint8_t *data, size_t n);
