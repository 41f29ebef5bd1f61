/* SPDX-License-Identifier: Apache-2.0 */
/* `cay run --plan`: everything that would be done, and nothing that may be secret. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "core/language.h"
#include "core/layer.h"
#include "core/limits-json.h"
#include "core/plan.h"
#include "sys/userns.h"

static void put_words(struct json_writer *w, const char *key, const char *const *words)
{
    json_field_array(w, key);
    for (; words && *words; words++)
        json_put_string(w, *words);
    json_end_array(w);
}

static void put_exec(struct json_writer *w, const char *name, const struct plan_exec *exec)
{
    json_begin_object(w);
    json_field_string(w, "name", name);
    put_words(w, "argv", exec->argv);
    json_field_object(w, "limits");
    limits_put(w, &exec->spec.limits);
    json_end_object(w);
    json_end_object(w);
}

static void put_execs(struct json_writer *w, const struct plan *plan)
{
    json_field_array(w, "stages");
    if (plan->has_compile)
        put_exec(w, "compile", &plan->compile);
    put_exec(w, "run", &plan->run);
    json_end_array(w);
}

/* Names only: values may be secrets. */
static void put_environment(struct json_writer *w, const struct plan *plan)
{
    json_field_array(w, "env");
    for (const char *const *variable = plan->env; variable && *variable; variable++)
        json_put_string_len(w, *variable, strcspn(*variable, "="));
    json_end_array(w);
}

static void put_files(struct json_writer *w, const struct plan *plan)
{
    json_field_array(w, "files");
    for (size_t i = 0; i < plan->n_files; i++) {
        json_begin_object(w);
        json_field_string(w, "name", plan->files[i].name);
        json_field_uint(w, "size", plan->files[i].len);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_folders(struct json_writer *w, const struct plan *plan)
{
    json_field_string(w, "workspace", plan->sandbox.writes ? NULL : plan->workspace);
    if (plan->sandbox.writes)
        json_field_string(w, "workspace_rw", plan->workspace);
    json_field_string(w, "workspace_link", plan->workspace_link);
    json_field_array(w, "ro");
    for (size_t i = 0; i < plan->n_folders; i++) {
        json_begin_object(w);
        json_field_string(w, "source", plan->folders[i].source);
        json_field_string(w, "path", plan->folders[i].path);
        json_end_object(w);
    }
    json_end_array(w);
    put_words(w, "collect", plan->globs);
}

static void put_root(struct json_writer *w, const struct op_list *root)
{
    if (root->n == 0)
        return;
    json_field_array(w, "root");
    for (size_t i = 0; i < root->n; i++) {
        const struct op *op = &root->ops[i];
        auto_strbuf struct strbuf path = { 0 };
        strbuf_printf(&path, "/%s", op->path);
        json_begin_object(w);
        json_field_string(w, "op", op_kind_name(op->kind));
        json_field_string(w, "path", strbuf_str(&path));
        if (op->source)
            json_field_string(w, op->kind == OP_FILE ? "text" : "source", op->source);
        if (op->noexec && (op->kind == OP_BIND || op->kind == OP_SCRATCH))
            json_field_bool(w, "noexec", true);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_host_root(struct json_writer *w, const struct plan *plan)
{
    struct arena arena = { 0 };
    struct op_list root;

    op_list_host(&arena, plan->language, SANDBOX_UID, SANDBOX_GID,
                 plan->run.spec.has_terminal ? ROOT_TERMINAL : 0, &root);
    put_root(w, &root);
    arena_done(&arena);
}

char *plan_json(const struct plan *plan)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out, .pretty = true };

    json_begin_object(&w);
    json_field_string(&w, "backend", plan->backend->name);
    json_field_string(&w, "tier", tier_name(plan->tier));
    if (plan->fallback.how) {
        json_field_object(&w, "fallback");
        json_field_string(&w, "asked", plan->fallback.asked);
        json_field_string(&w, "how", plan->fallback.how);
        json_field_string(&w, "why", plan->fallback.why);
        json_end_object(&w);
    }
    json_field_string(&w, "profile", plan->profile);
    json_field_string(&w, "image", plan->image ? plan->image : IMAGE_HOST);
    if (plan->image)
        json_field_string(&w, "image_digest", plan->image_digest);
    json_field_string(&w, "language", plan->language ? plan->language->name : NULL);
    json_field_string(&w, "program", plan->program);
    put_words(&w, "network", plan->network);
    if (plan->sandbox.is_restricted)
        json_field_string(&w, "shell_allow", plan->sandbox.shell_allow);
    json_field_array(&w, "require");
    for (int i = 0; i < LAYER_N; i++)
        if (plan->sandbox.require & (UINT32_C(1) << i))
            json_put_string(&w, layer_name((enum layer)i));
    json_end_array(&w);
    put_execs(&w, plan);
    json_field_bool(&w, "tty", plan->run.spec.has_terminal);
    put_environment(&w, plan);
    put_files(&w, plan);
    json_field_uint(&w, "stdin_bytes", plan->input.len);
    put_folders(&w, plan);
    if (plan->sandbox.image[0] && !plan->image)
        json_field_string(&w, "image", plan->sandbox.image);
    if (plan->sandbox.runtime[0])
        json_field_string(&w, "runtime", plan->sandbox.runtime);
    if (plan->has_host_root)
        put_host_root(&w, plan);
    else
        put_root(&w, &plan->root);
    put_words(&w, "warnings", plan->warnings.list);
    json_end_object(&w);
    return strbuf_take(&out);
}
