/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a string is made of, it is read as jansson reads it, or refused where that refuses it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/auto.h"
#include "base/json-long.h"

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL };

/* {"a": "…"} with this between the quotes: as one parser and the other have it. */
static void compare(const char *inner, size_t len)
{
    auto_strbuf struct strbuf text = { 0 };
    struct json_long all = { 0 };
    const char *data = NULL;
    size_t data_len = 0;

    strbuf_puts(&text, "{\"a\": \"");
    strbuf_add(&text, inner, len);
    strbuf_puts(&text, "\"}");
    json_t *whole = json_loadb(text.data, text.len, FLAGS, NULL);
    json_long_take(&all, text.data, text.len);
    json_t *rest = json_loadb(all.rest.data, all.rest.len, FLAGS, NULL);
    const json_t *value = json_object_get(rest, "a");
    bool is_read =
        json_is_string(value) && json_long_string(&all, json_string_value(value),
                                                  json_string_length(value), &data, &data_len) == 0;
    const json_t *want = json_object_get(whole, "a");
    if (is_read != json_is_string(want))
        fail_msg("%.*s: %d", (int)MIN(text.len, (size_t)600), text.data, is_read);
    if (is_read) {
        assert_int_equal(data_len, json_string_length(want));
        assert_memory_equal(data, json_string_value(want), data_len);
    }
    json_decref(whole);
    json_decref(rest);
    json_long_done(&all);
}

static void test_random(void **state)
{
    static const char *const parts[] = {
        "plain text",       "\\n",     "\\\"",    "\\\\",           "\\/",      "\\u0041",
        "\\u0000",          "\\u00e4", "\\u20AC", "\\ud83d\\ude00", "\xc3\xa4", "\xe2\x82\xac",
        "\xf0\x9f\x98\x80", "[1, 2]",  ": ,",     "\x7f",
    };
    static const char *const bad[] = {
        "\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\x", "\\u12g4", "\\u1",   "\x01",
        "\xff",    "\xc3",    "\xed\xa0\x80",   "\t",  "\\u 123", "\\u+123"
    };

    (void)state;
    srand(17);
    for (int i = 0; i < 3000; i++) {
        auto_strbuf struct strbuf inner = { 0 };
        size_t len = (size_t)rand() % 600;
        int wrong = rand() % 3 == 0 ? rand() % 40 : -1;
        for (int n = 0; inner.len < len || n <= wrong; n++) {
            const char *part = n == wrong ? bad[(size_t)rand() % ARRAY_LEN(bad)]
                                          : parts[(size_t)rand() % ARRAY_LEN(parts)];
            if (!strchr(part, '"') || part[0] == '\\')
                strbuf_puts(&inner, part);
        }
        compare(strbuf_str(&inner), inner.len);
    }
}

/* Keys stay, and what stands for a string is found by its name alone. */
static void test_rest(void **state)
{
    auto_strbuf struct strbuf text = { 0 };
    struct json_long all = { 0 };
    char x[400];

    (void)state;
    memset(x, 'x', sizeof x);
    strbuf_puts(&text, "{\"");
    strbuf_add(&text, x, sizeof x);
    strbuf_puts(&text, "\" \n: [\"short\", \"");
    strbuf_add(&text, x, sizeof x);
    strbuf_puts(&text, "\", \"");
    strbuf_add(&text, x, sizeof x - 1);
    strbuf_puts(&text, "\"]}");
    json_long_take(&all, text.data, text.len);
    assert_int_equal(all.n, 2);
    json_t *root = json_loadb(all.rest.data, all.rest.len, FLAGS, NULL);
    const char *key = json_object_iter_key(json_object_iter(root));
    assert_int_equal(strlen(key), sizeof x);
    const json_t *list = json_object_get(root, key);
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        const char *data;
        size_t len;
        assert_int_equal(json_long_string(&all, json_string_value(value), json_string_length(value),
                                          &data, &len),
                         0);
        assert_int_equal(len, i == 0 ? 5 : sizeof x + 1 - i);
    }
    json_decref(root);
    json_long_done(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_rest),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
