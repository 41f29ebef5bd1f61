/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files that make a plan share: plan.c what it runs in, plan-program.c what it runs. */

#include "base/error.h"
#include "core/config.h"
#include "core/fence.h"
#include "core/image.h"
#include "core/plan.h"

/* Everything that the parts of the plan are made from. */
struct plan_ctx {
    const struct cay_request *req;
    const struct config *config;
    const struct plan_host *host;
    const struct profile *profile;
    struct plan *plan;
    struct cay_error *err;
    struct image image; /* while the plan is made; closed where it is the host's own */
    struct fence fence; /* around the code; fence.code is what runs, stripped or not */
};

/* Explicit field, then named profile, then configuration. */
static inline const struct value *setting(const struct plan_ctx *m, enum field_id id)
{
    if (m->req->values[id].is_set)
        return &m->req->values[id];
    if (m->profile && m->profile->values[id].is_set)
        return &m->profile->values[id];
    return &m->config->settings[id].value;
}

static inline const char *text(const struct plan_ctx *m, enum field_id id)
{
    const struct value *value = setting(m, id);
    return value->is_set ? value->text : NULL;
}

/* 0: no limit, unless the administrator has capped what has none of its own. */
static inline uint64_t number(const struct plan_ctx *m, enum field_id id)
{
    const struct value *value = setting(m, id);
    return value->is_set ? value->num : m->config->caps[id].value.num;
}

/* Then the code is no longer what the caller's file holds. */
static inline bool has_stripped_fence(const struct plan_ctx *m)
{
    return m->fence.is_there && m->fence.code.data != m->req->code.data;
}

/* Memory of an exec, with what the language needs at least where nobody said anything. */
uint64_t plan_run_memory(const struct plan_ctx *m);
uint64_t plan_compile_memory(const struct plan_ctx *m);

/* The language alone, which plan_program begins with. */
int plan_choose_language(const struct plan_ctx *m);

/* The language, its runtime and version, and the command of each exec. */
int plan_program(const struct plan_ctx *m);
void plan_environment(const struct plan_ctx *m);
int plan_files(const struct plan_ctx *m);

/* What it may be started from, once its environment is known. */
enum start_kind plan_start(const struct plan_ctx *m);
