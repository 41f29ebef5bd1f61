/* SPDX-License-Identifier: Apache-2.0 */
#include "net/hmac.h"

#include <sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void begin(SHA2_CTX *ctx, const uint8_t key[static SHA256_BLOCK_LENGTH], uint8_t mask)
{
    uint8_t block[SHA256_BLOCK_LENGTH];

    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ mask;
    SHA256Init(ctx);
    SHA256Update(ctx, block, sizeof block);
    explicit_bzero(block, sizeof block);
}

void hmac_sha256_hex(const void *key, size_t key_len, const struct hmac_piece *pieces, size_t n,
                     char out[static HMAC_HEX_LEN + 1])
{
    uint8_t padded[SHA256_BLOCK_LENGTH] = { 0 };
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX ctx;

    if (key_len > sizeof padded) {
        SHA256Init(&ctx);
        SHA256Update(&ctx, key, key_len);
        SHA256Final(padded, &ctx);
    } else {
        memcpy(padded, key, key_len);
    }
    begin(&ctx, padded, 0x36);
    for (size_t i = 0; i < n; i++)
        SHA256Update(&ctx, pieces[i].data, pieces[i].len);
    SHA256Final(digest, &ctx);
    begin(&ctx, padded, 0x5c);
    SHA256Update(&ctx, digest, sizeof digest);
    SHA256Final(digest, &ctx);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    explicit_bzero(padded, sizeof padded);
    explicit_bzero(&ctx, sizeof ctx);
}
