/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/explain.h"

#include <dirent.h>
#include <string.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "core/failure-json.h"
#include "core/language.h"
#include "core/plan.h"
#include "core/request.h"
#include "explain/errors.h"

/* The program first, then the other files; names are looked for in those of its language. */
static const struct errors_source *sources_of(struct arena *arena, const struct plan *plan,
                                              size_t *ret_n)
{
    struct errors_source *list = arena_alloc(arena, (plan->n_files + 1) * sizeof *list);
    const char *own = plan->is_source_there ? plan->source : plan->source_name;
    size_t n = 0;

    if (!plan->language) {
        *ret_n = 0;
        return list;
    }
    list[n++] = (struct errors_source){
        .name = own,
        .data = plan->code.data,
        .len = plan->code.len,
    };
    for (size_t i = 0; i < plan->n_files; i++) {
        const struct payload_file *file = &plan->files[i];
        bool is_ours = strncmp(file->name, ".cay", 4) == 0; /* a driver */
        if (!is_ours && strcmp(file->name, own) != 0)
            list[n++] = (struct errors_source){
                .name = file->name,
                .data = file->data,
                .len = file->len,
                .is_other = !language_has_file(plan->language, file->name),
            };
    }
    *ret_n = n;
    return list;
}

enum { BESIDE_MAX = 1000 /* names of a folder that are looked at */ };

/* What is in the folder that the code is from. With a workspace the program sees what its caller
 * meant it to see. NULL: no folder is known, or it can't be read. */
static const struct errors_beside *beside_of(struct arena *arena, const struct cay_request *req,
                                             const struct plan *plan)
{
    DIR *dir = req->beside && !plan->workspace ? opendir(req->beside) : NULL;
    const char **names = dir ? arena_alloc(arena, BESIDE_MAX * sizeof *names) : NULL;
    struct errors_beside *beside = arena_alloc(arena, sizeof *beside);

    if (!dir)
        return NULL;
    for (const struct dirent *entry; beside->n < BESIDE_MAX && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            names[beside->n++] =
                arena_printf(arena, "%s%s", entry->d_name, entry->d_type == DT_DIR ? "/" : "");
    closedir(dir);
    beside->folder = req->beside;
    beside->code = req->file_name ? plan->source_name : NULL;
    beside->names = names;
    return beside;
}

void explain_result(struct arena *arena, struct errors_cache *cache, const struct cay_request *req,
                    const struct plan *plan, struct cay_result *result)
{
    struct arena scratch = { 0 };
    /* On a terminal there is one stream for both. */
    const struct cay_stream *stream = result->err.len > 0 ? &result->err : &result->out;
    struct errors_facts facts = {
        .language = plan->language ? plan->language->name : NULL,
        .stage = result->verdict.cause == CAY_CAUSE_COMPILE ? ERRORS_COMPILE : ERRORS_RUN,
        .text = stream->data,
        .len = stream->len,
        .is_remote = req->is_remote,
        .cache = cache,
        .result = result,
    };

    if (result->success)
        return;
    if (result->err.len == 0 && !plan->run.spec.has_terminal && facts.stage == ERRORS_RUN)
        facts.len = 0;
    facts.sources = sources_of(&scratch, plan, &facts.n_sources);
    if (facts.len > 0)
        facts.beside = beside_of(&scratch, req, plan);
    result->failure = errors_analyse(arena, &facts);
    arena_done(&scratch);
}

int cay_explain_json(const struct cay_explain *explain, char **ret, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out, .pretty = true };
    const struct language *language;
    const char *version;

    if (language_find(&arena, explain->language, &language, &version, err) < 0) {
        arena_done(&arena);
        return -1;
    }
    const struct errors_source source = {
        explain->code_name ? explain->code_name : language->source,
        explain->code,
        explain->code_len,
    };
    struct errors_facts facts = {
        .language = language->name,
        .text = explain->text,
        .len = explain->len,
        .sources = &source,
        .n_sources = explain->code != NULL,
    };
    const struct cay_failure *failure = errors_analyse(&arena, &facts);
    if (failure)
        failure_put(&w, failure);
    else
        json_put_null(&w);
    *ret = strbuf_take(&out);
    arena_done(&arena);
    return 0;
}
