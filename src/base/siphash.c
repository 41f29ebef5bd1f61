/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"

struct siphash_key siphash_new_key(void)
{
    struct siphash_key key;

    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key)
        abort();
    return key;
}

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void round_once(uint64_t v[static 4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void add_word(uint64_t v[static 4], uint64_t word)
{
    v[3] ^= word;
    round_once(v);
    v[0] ^= word;
}

struct siphash_state siphash_begin(const struct siphash_key *key)
{
    uint64_t a = key->words[0], b = key->words[1];

    return (struct siphash_state){
        .v = { a ^ UINT64_C(0x736f6d6570736575), b ^ UINT64_C(0x646f72616e646f6d),
               a ^ UINT64_C(0x6c7967656e657261), b ^ UINT64_C(0x7465646279746573) },
    };
}

static void add_byte(struct siphash_state *state, unsigned char byte)
{
    unsigned at = state->len++ % 8;

    state->tail |= (uint64_t)byte << (8 * at);
    if (at == 7) {
        add_word(state->v, state->tail);
        state->tail = 0;
    }
}

void siphash_add(struct siphash_state *state, const void *data, size_t len)
{
    const unsigned char *bytes = data, *end = bytes + len;

    while (bytes < end && state->len % 8 != 0)
        add_byte(state, *bytes++);
    for (; end - bytes >= 8; bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        add_word(state->v, le64toh(word));
        state->len += 8;
    }
    while (bytes < end)
        add_byte(state, *bytes++);
}

uint64_t siphash_end(const struct siphash_state *state)
{
    uint64_t v[4];

    memcpy(v, state->v, sizeof v);
    add_word(v, state->tail | state->len << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        round_once(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len)
{
    struct siphash_state state = siphash_begin(key);

    siphash_add(&state, data, len);
    return siphash_end(&state);
}
