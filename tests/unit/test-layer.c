/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/layer.h"

/* The names of the contract's example of meta.isolation.layers, and cgroup_ns. */
static void test_names(void **state)
{
    static const char *const names[] = { "user_ns",       "pid_ns",       "mount_ns",   "net_ns",
                                         "ipc_ns",        "uts_ns",       "cgroup_ns",  "seccomp",
                                         "cgroup:memory", "cgroup:pids",  "cgroup:cpu", "landlock",
                                         "no_new_privs",  "caps_dropped", "nonroot" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint32_t bits = layer_bits(names[i]);
        assert_true(bits != 0 && (bits & (bits - 1)) == 0);
        assert_string_equal(layer_name((enum layer)__builtin_ctz(bits)), names[i]);
    }
}

static void test_bits(void **state)
{
    uint32_t all = 0;

    (void)state;
    for (int i = 0; i < LAYER_N; i++) {
        uint32_t bit = layer_bits(layer_name((enum layer)i));
        assert_int_equal(bit, UINT32_C(1) << i);
        assert_int_equal(all & bit, 0);
        all |= bit;
    }
    assert_int_equal(layer_bits("cgroup"), layer_bits("cgroup:memory") | layer_bits("cgroup:pids") |
                                               layer_bits("cgroup:cpu"));
    assert_int_equal(layer_bits(""), 0);
    assert_int_equal(layer_bits("cgroup:"), 0);
    assert_int_equal(layer_bits("Seccomp"), 0);
    assert_int_equal(layer_bits("seccomp "), 0);
}

/* Every word that is offered is taken. */
static void test_words(void **state)
{
    size_t n = 0;

    (void)state;
    for (const char *const *word = layer_words(); *word; word++, n++)
        assert_true((layer_bits(*word) != 0) != layer_is_none(*word));
    assert_int_equal(n, LAYER_N + 2);
}

static void test_unknown(void **state)
{
    struct cay_error err = { 0 };

    (void)state;
    assert_int_equal(layer_fail_unknown("secomp", &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_non_null(strstr(err.msg, "require: unknown layer 'secomp'; allowed are: user_ns"));
    assert_string_equal(err.hint, "did you mean seccomp?");
}

/* All layers but cgroup; and what takes cgroup's place is nothing to ask for. */
static void test_default(void **state)
{
    (void)state;
    for (int i = 0; i < LAYER_N; i++) {
        const char *name = layer_name((enum layer)i);
        int wanted = strncmp(name, "cgroup:", 7) != 0 && strcmp(name, "watcher") != 0;
        assert_int_equal((LAYER_REQUIRE_DEFAULT >> i) & 1, wanted);
    }
    assert_int_equal(LAYER_CORE_BITS & ~LAYER_REQUIRE_DEFAULT, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_bits),
        cmocka_unit_test(test_unknown), cmocka_unit_test(test_words),
        cmocka_unit_test(test_default),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
