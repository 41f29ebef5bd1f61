/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request-alias.h"

#include <inttypes.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/config.h"

enum { USUAL_US = 100000 }; /* of quota and period, where one of them is left out */

static bool is_given(const struct cay_request *req, enum field_id id)
{
    return req->values[id].is_set;
}

static bool has_cpu_alias(const struct cay_request *req)
{
    return is_given(req, FIELD_CPU_QUOTA) || is_given(req, FIELD_CPU_PERIOD);
}

bool request_alias_is(enum field_id id, enum field_id what)
{
    return id == what ||
           (what == FIELD_CPUS && (id == FIELD_CPU_QUOTA || id == FIELD_CPU_PERIOD)) ||
           (what == FIELD_SWAP && id == FIELD_MEMORY_SWAP);
}

static int fail_both(enum field_id one, enum field_id other, struct cay_error *err)
{
    return cay_fail(err, CAY_E_USAGE, "%s and %s are mutually exclusive", fields[one].name,
                    fields[other].name);
}

int request_alias_check(const struct cay_request *req, enum field_id id, struct cay_error *err)
{
    if (id == FIELD_CPUS && has_cpu_alias(req))
        return fail_both(id, is_given(req, FIELD_CPU_QUOTA) ? FIELD_CPU_QUOTA : FIELD_CPU_PERIOD,
                         err);
    if ((id == FIELD_CPU_QUOTA || id == FIELD_CPU_PERIOD) && is_given(req, FIELD_CPUS) &&
        !has_cpu_alias(req))
        return fail_both(id, FIELD_CPUS, err);
    if (id == FIELD_SWAP && is_given(req, FIELD_MEMORY_SWAP))
        return fail_both(id, FIELD_MEMORY_SWAP, err);
    if (id == FIELD_MEMORY_SWAP && is_given(req, FIELD_SWAP) && !is_given(req, FIELD_MEMORY_SWAP))
        return fail_both(id, FIELD_SWAP, err);
    return 0;
}

/* What stands for it is checked as if it had been said. */
static int set(struct cay_request *req, enum field_id id, const char *text, struct cay_error *err)
{
    const struct value *cap = req->caps ? &req->caps[id].value : NULL;

    return field_parse_capped(&req->arena, id, text, cap, &req->values[id], err);
}

static int set_cpus(struct cay_request *req, struct cay_error *err)
{
    const struct value *quota = &req->values[FIELD_CPU_QUOTA];
    const struct value *period = &req->values[FIELD_CPU_PERIOD];
    uint64_t milli =
        (quota->is_set ? quota->num : USUAL_US) * 1000 / (period->is_set ? period->num : USUAL_US);
    const char *text =
        arena_printf(&req->arena, "%" PRIu64 ".%03" PRIu64, milli / 1000, milli % 1000);

    return set(req, FIELD_CPUS, text, err) < 0 ? cay_wrap(err, "cpu_quota / cpu_period") : 0;
}

static int set_swap(struct cay_request *req, struct cay_error *err)
{
    uint64_t both = req->values[FIELD_MEMORY_SWAP].num, memory = req->values[FIELD_MEMORY].num;

    if (!is_given(req, FIELD_MEMORY)) /* it may come yet: request_alias_finish */
        return 0;
    if (both < memory)
        return cay_fail(err, CAY_E_USAGE,
                        "memory_swap: %s is less than memory, %s: it is the sum of memory and swap",
                        req->values[FIELD_MEMORY_SWAP].text, req->values[FIELD_MEMORY].text);
    return set(req, FIELD_SWAP, arena_printf(&req->arena, "%" PRIu64, both - memory), err);
}

int request_alias_apply(struct cay_request *req, enum field_id id, struct cay_error *err)
{
    if (id == FIELD_CPU_QUOTA || id == FIELD_CPU_PERIOD)
        return set_cpus(req, err);
    if ((id == FIELD_MEMORY || id == FIELD_MEMORY_SWAP) && is_given(req, FIELD_MEMORY_SWAP))
        return set_swap(req, err);
    return 0;
}

int request_alias_finish(const struct cay_request *req, struct cay_error *err)
{
    if (is_given(req, FIELD_MEMORY_SWAP) && !is_given(req, FIELD_MEMORY))
        return cay_fail(err, CAY_E_USAGE, "memory_swap: requires memory, which it includes");
    return 0;
}
