/* SPDX-License-Identifier: Apache-2.0 */
/* Which backend and runtime a plan gets where gVisor is asked for: a list of backends of the test's
 * own takes the place of the built-in one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/plan.h"

static const struct backend_kind fake_native = { .name = "native", .tier = TIER_KERNEL };
static const struct backend_kind fake_docker = {
    .name = "docker",
    .tier = TIER_KERNEL,
    .abilities = BACKEND_IMAGES | BACKEND_RUNTIMES,
};

const struct backend_kind *const backend_kinds[] = { &fake_native, &fake_docker, NULL };

enum { LACKS_DOCKER = 2 };

static const struct plan_host host = { 0 };

static struct backend_request request(const char *name, const char *min, const char *runtime)
{
    return (struct backend_request){
        .name = name, .min = min, .fallback = "never", .runtime = runtime
    };
}

static void check(const char *name, const char *min, const char *runtime, const char *backend,
                  const char *want_runtime, enum tier tier)
{
    const struct backend_request asked = request(name, min, runtime);
    struct plan plan = { 0 };
    struct cay_error err = { 0 };

    if (plan_backend(&plan, &asked, &host, &err) < 0)
        fail_msg("%s, %s: %s", name, min, err.msg);
    assert_string_equal(plan.backend->name, backend);
    assert_string_equal(plan.sandbox.runtime, want_runtime);
    assert_int_equal(plan.tier, tier);
    arena_done(&plan.arena);
}

static void test_gvisor_by_its_tier(void **state)
{
    (void)state;
    check("auto", "gvisor", NULL, "docker", "runsc", TIER_GVISOR);
    check("docker", "gvisor", NULL, "docker", "runsc", TIER_GVISOR);
    check("auto", "gvisor", "runsc-kvm", "docker", "runsc-kvm", TIER_GVISOR);
    /* Not where less will do. */
    check("docker", "kernel", NULL, "docker", "", TIER_KERNEL);
    check("auto", "kernel", NULL, "native", "", TIER_KERNEL);
    check("auto", "kernel", "runc", "docker", "runc", TIER_KERNEL);
}

static void check_refused(const struct backend_request *asked, const struct plan_host *where,
                          const char *words)
{
    struct plan plan = { 0 };
    struct cay_error err = { 0 };

    assert_int_equal(plan_backend(&plan, asked, where, &err), -1);
    if (!strstr(err.msg, words))
        fail_msg("%s", err.msg);
    arena_done(&plan.arena);
}

static void test_gvisor_refused(void **state)
{
    const struct plan_host without = { .unavailable = LACKS_DOCKER,
                                       .unavailable_why = "no engine" };
    struct backend_request asked = request("auto", "gvisor", NULL);
    char name[RUNTIME_BYTES + 1];

    (void)state;
    check_refused(&asked, &without, "gvisor");
    /* Another runtime was meant; a stronger wall, there is none. */
    asked = request("docker", "gvisor", "runc");
    check_refused(&asked, &host, "below min_isolation gvisor");
    asked = request("docker", "vm", NULL);
    check_refused(&asked, &host, "below min_isolation vm");
    asked = request("native", "gvisor", NULL);
    check_refused(&asked, &host, "below min_isolation gvisor");
    memset(name, 'x', RUNTIME_BYTES);
    name[RUNTIME_BYTES] = '\0';
    asked = request("docker", "kernel", name);
    check_refused(&asked, &host, "runtime: 'xxx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gvisor_by_its_tier),
        cmocka_unit_test(test_gvisor_refused),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
