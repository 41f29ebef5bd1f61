/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/digest.h"

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

void digest_begin(struct digest *digest)
{
    SHA256Init(&digest->context);
    digest->bytes = 0;
}

void digest_add(struct digest *digest, const void *data, size_t len)
{
    if (len == 0)
        return;
    SHA256Update(&digest->context, data, len);
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
    SHA256Update(&context, data, len);
    put_hex(&context, out);
}
