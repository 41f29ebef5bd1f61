/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/strbuf.h"

static const struct {
    const char *plain;
    const char *text;
} pairs[] = {
    { "", "" },
    /* RFC 4648, section 10 */
    { "f", "Zg==" },
    { "fo", "Zm8=" },
    { "foo", "Zm9v" },
    { "foob", "Zm9vYg==" },
    { "fooba", "Zm9vYmE=" },
    { "foobar", "Zm9vYmFy" },
    { "\xff\xff\xff", "////" },
    { "\xfb\xef\xbe", "++++" },
};

static void test_pairs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        auto_strbuf struct strbuf text = { 0 };
        auto_strbuf struct strbuf plain = { 0 };

        base64_encode(&text, pairs[i].plain, strlen(pairs[i].plain));
        assert_string_equal(strbuf_str(&text), pairs[i].text);
        assert_int_equal(base64_decode(&plain, text.data, text.len), 0);
        assert_string_equal(strbuf_str(&plain), pairs[i].plain);
    }
}

static void test_refused(void **state)
{
    static const char *const refused[] = {
        "Z",         "Zg",   "Zg=",      "Zg===",    "Zm9vY",    "=",    "==",      "===",
        "====",      "Z===", "Zg==Zg==", "Zm8=Zm9v", "Z=9v",     "=m9v", "Zm=v",    "Zm9v\n",
        "Zm9v\nZm9", " m9v", "Zm 9",     "Zm9-",     "Zm9_",     "Zm9.", "Zm9\x80", "Zh==",
        "Zv==",      "Zm9=", "Zm+=",     "Zg=a",     "Zm9vZm9@",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        auto_strbuf struct strbuf out = { 0 };

        strbuf_puts(&out, "before");
        if (base64_decode(&out, refused[i], strlen(refused[i])) != -EINVAL)
            fail_msg("accepted: %s", refused[i]);
        assert_int_equal(out.len, 6);
        assert_string_equal(out.data, "before");
    }
    auto_strbuf struct strbuf fresh = { 0 };
    assert_int_equal(base64_decode(&fresh, "Zm9\0", 4), -EINVAL);
    assert_int_equal(fresh.len, 0);
}

/* All lengths around the size of the chunk that the work is done in, and every byte value. */
static void test_round(void **state)
{
    unsigned char data[2100];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 167 + i / 256);
    for (size_t len = 0; len <= sizeof data; len++) {
        auto_strbuf struct strbuf text = { 0 };
        auto_strbuf struct strbuf back = { 0 };

        base64_encode(&text, data, len);
        assert_int_equal(text.len, (len + 2) / 3 * 4);
        assert_int_equal(base64_decode(&back, text.data, text.len), 0);
        assert_int_equal(back.len, len);
        assert_memory_equal(back.data, data, len);
    }
}

/* A fault late in a long text takes back what was appended before it was seen. */
static void test_late_fault(void **state)
{
    auto_strbuf struct strbuf text = { 0 };
    auto_strbuf struct strbuf out = { 0 };
    char zeros[3000] = { 0 };

    (void)state;
    base64_encode(&text, zeros, sizeof zeros);
    text.data[text.len - 1] = '!';
    strbuf_puts(&out, "before");
    assert_int_equal(base64_decode(&out, text.data, text.len), -EINVAL);
    assert_int_equal(out.len, 6);
    assert_string_equal(out.data, "before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_late_fault),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
