/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* HMAC-SHA256 (RFC 2104) over libmd's SHA-256. */

#include <stddef.h>

enum { HMAC_HEX_LEN = 64 };

/* Of the pieces, one behind the other, as lower-case hexadecimal with a NUL. */
struct hmac_piece {
    const void *data;
    size_t len;
};

void hmac_sha256_hex(const void *key, size_t key_len, const struct hmac_piece *pieces, size_t n,
                     char out[static HMAC_HEX_LEN + 1]);
