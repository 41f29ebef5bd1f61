/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest-blocks.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>

#define FAST __attribute__((target("sha,sse4.1,ssse3")))

/* FIPS 180-4, 4.2.2: of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static bool ask(void)
{
    enum { SSSE3 = 1 << 9, SSE41 = 1 << 19, SHA = 1 << 29 };
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & SSSE3) || !(c & SSE41))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & SHA);
}

bool digest_has_blocks(void)
{
    static _Atomic int processor_has_sha; /* 0: not asked yet */

    if (processor_has_sha == 0)
        processor_has_sha = ask() ? 1 : -1;
    return processor_has_sha > 0;
}

FAST static __m128i load(const void *from)
{
    return _mm_loadu_si128(from);
}

/* The next four words of the message, of the sixteen before them. */
FAST static __m128i schedule(__m128i first, __m128i second, __m128i third, __m128i fourth)
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(first, second),
                                _mm_alignr_epi8(fourth, third, sizeof(uint32_t)));
    return _mm_sha256msg2_epu32(sum, fourth);
}

/* The instructions keep the eight words as two halves: a b e f and c d g h, the last one lowest. */
FAST void digest_blocks(uint32_t state[static 8], const uint8_t *data, size_t n)
{
    const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i badc = _mm_shuffle_epi32(load(state), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(load(state + 4), 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);

    for (; n > 0; n--, data += DIGEST_BLOCK) {
        __m128i words[4], abef_before = abef, cdgh_before = cdgh;
        for (size_t i = 0; i < 4; i++)
            words[i] = _mm_shuffle_epi8(load(data + 16 * i), big_endian);
        for (size_t i = 0; i < 16; i++) { /* four rounds each */
            __m128i sum = _mm_add_epi32(words[i % 4], load(constants + 4 * i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i < 12)
                words[i % 4] = schedule(words[i % 4], words[(i + 1) % 4], words[(i + 2) % 4],
                                        words[(i + 3) % 4]);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool digest_has_blocks(void)
{
    return false;
}

void digest_blocks(uint32_t state[static 8], const uint8_t *data, size_t n)
{
    (void)state;
    (void)data;
    (void)n;
}

#endif
