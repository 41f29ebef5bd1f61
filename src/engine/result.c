/* SPDX-License-Identifier: Apache-2.0 */
/* Results own an arena that everything in them lives in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/language.h"
#include "core/result-json.h"
#include "engine/engine.h"
#include "explain/errors.h"

struct owned_result {
    struct cay_result result; /* first, so that one is the other */
    struct arena arena;
};

void cay_make_id(char id[33])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        abort();
    for (size_t i = 0; i < sizeof bytes; i++) {
        id[2 * i] = digits[bytes[i] >> 4];
        id[2 * i + 1] = digits[bytes[i] & 15];
    }
    id[32] = '\0';
}

struct cay_result *result_new(const char *id, struct arena **ret_arena)
{
    struct owned_result *owned = mem_alloc(sizeof *owned);

    if (id)
        snprintf(owned->result.id, sizeof owned->result.id, "%s", id);
    else
        cay_make_id(owned->result.id);
    *ret_arena = &owned->arena;
    return &owned->result;
}

struct arena *result_arena(struct cay_result *result)
{
    return &((struct owned_result *)result)->arena;
}

void cay_result_free(struct cay_result *result)
{
    struct owned_result *owned = (struct owned_result *)result;

    if (!owned)
        return;
    result_text_free(owned->result.text);
    arena_done(&owned->arena);
    free(owned);
}

/* NULL: it is a command, or nobody knows. */
static const char *language_of(struct arena *arena, const struct cay_request *req)
{
    const struct value *name = &req->values[FIELD_LANGUAGE];
    const struct language *language = NULL;
    struct cay_error unknown;
    const char *version;
    int rc = 0;

    if (name->is_set)
        rc = language_find(arena, name->text, &language, &version, &unknown);
    else if (req->code.data)
        rc = language_guess(arena, req->file_name, req->code.data, req->code.len, &language,
                            &unknown);
    return rc == 0 && language ? language->name : NULL;
}

void result_fail(struct cay_result *result, const struct cay_error *err)
{
    struct arena *arena = result_arena(result);

    result->success = false;
    result->exit_code = cay_error_exit_status(err->kind);
    result->error_message = arena_str(arena, err->msg);
    result->verdict.cause = err->kind == CAY_E_POLICY ? CAY_CAUSE_POLICY : CAY_CAUSE_INFRASTRUCTURE;
    result->verdict.remedy = err->hint[0] ? arena_str(arena, err->hint) : NULL;
    result->failure = errors_analyse(arena, &(struct errors_facts){ .text = "", .result = result });
}

void result_stamp(struct cay_result *result, const char *timestamp)
{
    if (timestamp)
        snprintf(result->timestamp, sizeof result->timestamp, "%s", timestamp);
    else
        clock_timestamp(result->timestamp);
}

struct cay_result *cay_result_of_error(const struct cay_error *err, const struct cay_request *req)
{
    struct arena *arena;
    struct cay_result *result = result_new(NULL, &arena);

    clock_timestamp(result->timestamp);
    result->language = req ? language_of(arena, req) : NULL;
    result->timing.compile_ns = -1;
    result->start = "cold";
    result->tier = "none";
    result->out.data = result->err.data = "";
    result_fail(result, err);
    return result;
}
