/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include "base/digest-blocks.h"

/* So much that asking the processor is worth it. */
enum { MANY_BYTES = 16 * 1024 };

static void put_hex(SHA2_CTX *context, char out[static DIGEST_HEX + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[SHA256_DIGEST_LENGTH];

    SHA256Final(bytes, context);
    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[DIGEST_HEX] = '\0';
}

/* As SHA256Update, which keeps the part of a block that is there so far. */
static void update(SHA2_CTX *context, const uint8_t *data, size_t len)
{
    if (len < MANY_BYTES || !digest_has_blocks()) {
        SHA256Update(context, data, len);
        return;
    }
    size_t has = context->bitcount[0] / 8 % DIGEST_BLOCK;
    size_t first = has > 0 ? DIGEST_BLOCK - has : 0;
    size_t n = (len - first) / DIGEST_BLOCK;
    SHA256Update(context, data, first);
    digest_blocks(context->state.st32, data + first, n);
    context->bitcount[0] += (uint64_t)n * DIGEST_BLOCK * 8;
    SHA256Update(context, data + first + n * DIGEST_BLOCK, len - first - n * DIGEST_BLOCK);
}

void digest_begin(struct digest *digest)
{
    SHA256Init(&digest->context);
    digest->bytes = 0;
}

void digest_add(struct digest *digest, const void *data, size_t len)
{
    if (len == 0)
        return;
    update(&digest->context, data, len);
    digest->bytes += len;
}

struct digest_sum digest_end(struct digest *digest)
{
    struct digest_sum sum = { .bytes = digest->bytes };

    if (digest->bytes > 0)
        put_hex(&digest->context, sum.sha256);
    digest_begin(digest);
    return sum;
}

void digest_hex(const void *data, size_t len, char out[static DIGEST_HEX + 1])
{
    SHA2_CTX context;

    SHA256Init(&context);
    update(&context, data, len);
    put_hex(&context, out);
}
