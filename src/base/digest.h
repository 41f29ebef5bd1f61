/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SHA-256 of what passes by, in pieces, with the number of bytes:
 *
 *     struct digest digest;
 *     digest_begin(&digest);
 *     digest_add(&digest, data, len);
 *     struct digest_sum sum = digest_end(&digest);
 *
 * A digest of nothing is { 0, "" }: an audit entry says null where there was nothing.
 */

#include <sha2.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_HEX = 64 };

struct digest {
    SHA2_CTX context;
    uint64_t bytes;
};

struct digest_sum {
    uint64_t bytes;
    char sha256[DIGEST_HEX + 1]; /* "" when bytes is 0 */
};

void digest_begin(struct digest *digest);
void digest_add(struct digest *digest, const void *data, size_t len);

/* Leaves the digest as it was begun. */
struct digest_sum digest_end(struct digest *digest);

/* All in one; of nothing too. */
void digest_hex(const void *data, size_t len, char out[static DIGEST_HEX + 1]);
