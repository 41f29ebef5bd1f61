/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/siphash.h"

/* Key and data count up from 0, as in the vectors of the paper. */
static const struct siphash_key counting = { { UINT64_C(0x0706050403020100),
                                               UINT64_C(0x0f0e0d0c0b0a0908) } };

/* By a second implementation, whose SipHash-2-4 gives the vector of the paper (15 bytes:
 * a129ca6149be45e5), with fewer rounds. */
static void test_vectors(void **state)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } rows[] = {
        { 0, UINT64_C(0xabac0158050fc4dc) },  { 1, UINT64_C(0xc9f49bf37d57ca93) },
        { 7, UINT64_C(0xd3927d989bb11140) },  { 8, UINT64_C(0x369095118d299a8e) },
        { 15, UINT64_C(0xd320d86d2a519956) }, { 63, UINT64_C(0x9d199062b7bbb3a8) },
    };
    unsigned char data[64];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(siphash(&counting, data, rows[i].len) == rows[i].hash);
}

/* However it is cut into pieces, and whatever was asked in between. */
static void test_pieces(void **state)
{
    const char text[] = "sandbox/a/quite/long/path/of/many/parts";

    (void)state;
    for (size_t step = 1; step < sizeof text; step++) {
        struct siphash_state hash = siphash_begin(&counting);
        for (size_t at = 0; at < sizeof text; at += step) {
            assert_true(siphash_end(&hash) == siphash(&counting, text, at));
            siphash_add(&hash, text + at, at + step > sizeof text ? sizeof text - at : step);
        }
        assert_true(siphash_end(&hash) == siphash(&counting, text, sizeof text));
    }
}

static void test_keys(void **state)
{
    struct siphash_key a = siphash_new_key(), b = siphash_new_key();

    (void)state;
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_true(siphash(&a, "x", 1) != siphash(&b, "x", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_keys),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
