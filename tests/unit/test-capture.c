/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/utf8.h"
#include "core/capture.h"

/* A number in the note, and where the note stands; false when there is none. */
static bool find_note(const struct cay_stream *stream, size_t *ret_at, size_t *ret_len,
                      uint64_t *ret_left_out)
{
    static const char begin[] = "\n[... ", end[] = " bytes left out ...]\n";
    const char *from = memmem(stream->data, stream->len, begin, strlen(begin));
    const char *to = memmem(stream->data, stream->len, end, strlen(end));

    if (!from || !to)
        return false;
    *ret_at = (size_t)(from - stream->data);
    *ret_len = (size_t)(to - from) + strlen(end);
    *ret_left_out = strtoull(from + strlen(begin), NULL, 10);
    return true;
}

/* Adds data in pieces of this size and gives back what is kept. */
static struct cay_stream kept(struct arena *arena, size_t keep, const char *data, size_t len,
                              size_t piece)
{
    struct capture capture;
    struct cay_stream stream = { 0 };

    capture_init(&capture, keep);
    for (size_t at = 0; at < len; at += piece) {
        /* A piece of its exact size, for the address sanitizer. */
        size_t n = MIN(piece, len - at);
        auto_free char *copy = malloc(n);
        memcpy(copy, data + at, n);
        capture_add(&capture, copy, n);
    }
    capture_text(&capture, arena, &stream);
    capture_done(&capture);
    return stream;
}

/* What must hold whatever was written: at most keep bytes, its own head and its own tail, and a
 * note between them, which a small keep has besides. */
static void check(size_t keep, const char *data, size_t len, size_t piece)
{
    struct arena arena = { 0 };
    struct cay_stream stream = kept(&arena, keep, data, len, piece);
    size_t at, note_len;
    uint64_t left_out;

    assert_int_equal(stream.total, len);
    size_t most = keep > 0 && keep <= 128 && len > keep ? keep + 64 : keep;
    if (stream.len > most)
        fail_msg("%zu bytes kept of at most %zu (%zu in pieces of %zu)", stream.len, keep, len,
                 piece);
    assert_int_equal(stream.truncated, len > keep);
    if (!stream.truncated) {
        assert_int_equal(stream.len, len);
        assert_memory_equal(stream.data, data, len);
    } else if (keep == 0) {
        assert_int_equal(stream.len, 0);
    } else {
        assert_true(find_note(&stream, &at, &note_len, &left_out));
        size_t tail = stream.len - at - note_len;
        assert_memory_equal(stream.data, data, at);
        assert_memory_equal(stream.data + at + note_len, data + len - tail, tail);
        assert_int_equal(left_out, len - at - tail);
        /* Most of what may be kept is kept, half at each end. */
        assert_true(at + tail + 64 + 8 >= keep);
        assert_true(at + 8 >= tail && tail + 8 >= at);
    }
    arena_done(&arena);
}

static void test_sizes(void **state)
{
    enum { MOST = 3000 };
    static const size_t keeps[] = { 0, 1, 2, 3, 64, 100, 127, 128, 129, 130, 200, 1000, 1024 };
    static const size_t pieces[] = { 1, 2, 7, 63, 64, 1000, MOST };
    char data[MOST];

    (void)state;
    for (size_t i = 0; i < MOST; i++)
        data[i] = (char)('a' + i % 26);
    for (size_t k = 0; k < ARRAY_LEN(keeps); k++)
        for (size_t p = 0; p < ARRAY_LEN(pieces); p++) {
            const size_t lens[] = { 0,
                                    1,
                                    keeps[k] ? keeps[k] - 1 : 0,
                                    keeps[k],
                                    keeps[k] + 1,
                                    keeps[k] + 2,
                                    2 * keeps[k],
                                    2 * keeps[k] + 1,
                                    MOST };
            for (size_t l = 0; l < ARRAY_LEN(lens); l++)
                check(keeps[k], data, lens[l], pieces[p]);
        }
}

/* What was left out is said. */
static void test_note(void **state)
{
    struct arena arena = { 0 };
    char data[5000];
    size_t at, len;
    uint64_t left_out;

    (void)state;
    memset(data, 'x', sizeof data);
    struct cay_stream stream = kept(&arena, 1000, data, sizeof data, 333);
    assert_true(find_note(&stream, &at, &len, &left_out));
    assert_int_equal(left_out, sizeof data - (stream.len - len));
    arena_done(&arena);
}

/* However the stream was cut into pieces, the text is the same. */
static void test_pieces_do_not_matter(void **state)
{
    struct arena arena = { 0 };
    char data[2000];
    uint32_t random = 12345;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++) {
        random = random * 1664525 + 1013904223;
        data[i] = (char)(random >> 24);
    }
    struct cay_stream whole = kept(&arena, 500, data, sizeof data, sizeof data);
    for (size_t piece = 1; piece < 700; piece += 3) {
        struct cay_stream stream = kept(&arena, 500, data, sizeof data, piece);
        assert_int_equal(stream.len, whole.len);
        assert_memory_equal(stream.data, whole.data, whole.len);
    }
    arena_done(&arena);
}

/* No character is cut in two: text that was UTF-8 stays UTF-8. */
static void test_characters_stay_whole(void **state)
{
    static const char *const characters[] = { "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };

    (void)state;
    for (size_t c = 0; c < ARRAY_LEN(characters); c++)
        for (size_t keep = 100; keep < 160; keep++)
            for (size_t shift = 0; shift < 4; shift++) {
                struct arena arena = { 0 };
                char data[1024];
                size_t len = 0;
                for (; len < shift; len++)
                    data[len] = '.';
                while (len + 4 < sizeof data) {
                    memcpy(data + len, characters[c], strlen(characters[c]));
                    len += strlen(characters[c]);
                }
                struct cay_stream stream = kept(&arena, keep, data, len, 17);
                assert_true(stream.truncated);
                if (!utf8_is_valid(stream.data, stream.len))
                    fail_msg("keep %zu, shift %zu, '%s'", keep, shift, characters[c]);
                check(keep, data, len, 17);
                arena_done(&arena);
            }
}

/* Bytes that are no UTF-8 at all are kept as they are. */
static void test_binary(void **state)
{
    char data[1000];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    for (size_t keep = 129; keep < 400; keep += 13)
        check(keep, data, sizeof data, 11);
    memset(data, 0x80, sizeof data);
    for (size_t keep = 129; keep < 400; keep += 13) {
        struct arena arena = { 0 };
        struct cay_stream stream = kept(&arena, keep, data, sizeof data, 11);
        assert_true(stream.len <= keep);
        assert_true(stream.len + 64 + 8 >= keep);
        arena_done(&arena);
    }
}

/* Memory does not grow with the stream. */
static void test_constant_memory(void **state)
{
    struct capture capture;
    struct arena arena = { 0 };
    struct cay_stream stream = { 0 };
    char piece[4096];

    (void)state;
    memset(piece, 'x', sizeof piece);
    capture_init(&capture, 10000);
    for (int i = 0; i < 10000; i++) {
        capture_add(&capture, piece, sizeof piece);
        assert_true(capture.head_room + capture.tail_room <= 2 * 10000);
    }
    capture_text(&capture, &arena, &stream);
    assert_int_equal(stream.total, 10000 * sizeof piece);
    assert_true(stream.len <= 10000);
    capture_done(&capture);
    arena_done(&arena);

    /* A large keep costs nothing before it is used. */
    capture_init(&capture, (size_t)1 << 30);
    capture_add(&capture, "x", 1);
    assert_true(capture.head_room <= 1 << 16);
    capture_done(&capture);
}

static void test_reset(void **state)
{
    struct capture capture;
    struct arena arena = { 0 };
    struct cay_stream stream = { 0 };

    (void)state;
    capture_init(&capture, 4);
    capture_add(&capture, "compiler says", 13);
    capture_reset(&capture);
    capture_add(&capture, "run", 3);
    capture_text(&capture, &arena, &stream);
    assert_int_equal(stream.total, 3);
    assert_false(stream.truncated);
    assert_int_equal(stream.len, 3);
    assert_memory_equal(stream.data, "run", 3);
    capture_done(&capture);
    arena_done(&arena);
}

static void test_empty(void **state)
{
    struct capture capture;
    struct arena arena = { 0 };
    struct cay_stream stream = { .truncated = true };

    (void)state;
    capture_init(&capture, 100);
    capture_add(&capture, "", 0);
    capture_text(&capture, &arena, &stream);
    assert_int_equal(stream.len, 0);
    assert_non_null(stream.data);
    assert_false(stream.truncated);
    capture_done(&capture);
    capture_done(&capture);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_note),
        cmocka_unit_test(test_pieces_do_not_matter),
        cmocka_unit_test(test_characters_stay_whole),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_constant_memory),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_empty),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
