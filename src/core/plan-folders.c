/* SPDX-License-Identifier: Apache-2.0 */
/* The host's folders in a plan: workspace and read-only ones, what is collected, where the code is.
 */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/language.h"
#include "core/plan.h"

static const char *real_path(const struct plan_host *host, struct arena *arena, const char *path)
{
    return host->real_path ? host->real_path(arena, path) : NULL;
}

/* The part of path below folder, or NULL when it is not below it. */
static const char *below(const char *folder, const char *path)
{
    size_t len = strlen(folder);

    if (strcmp(folder, "/") == 0)
        return path + 1;
    return strncmp(path, folder, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static int fail_path(struct cay_error *err, const char *field, const char *path, const char *why)
{
    return cay_fail(err, CAY_E_USAGE, "%s: '%.200s' %s", field, path, why);
}

/* Said before the program does anything, whatever is quiet. */
static void note_writes(struct plan *plan, const char *name)
{
    plan->workspace_rw = arena_str(&plan->arena, name);
    plan->sandbox.writes = 1;
    plan->writes_note = arena_printf(&plan->arena,
                                     "UNSAFE: workspace_rw: the program can change and delete "
                                     "everything in %s, and none of that can be undone",
                                     plan->workspace);
    field_append(&plan->arena, &plan->warnings, plan->writes_note);
}

static int take_workspace(struct plan *plan, const struct folders_request *request,
                          const struct plan_host *host, struct cay_error *err)
{
    bool writes = request->workspace_rw->is_set;
    const struct value *asked = writes ? request->workspace_rw : request->workspace;
    const char *field = writes ? "workspace_rw" : "workspace";

    if (!asked->is_set)
        return 0;
    plan->workspace = real_path(host, &plan->arena, asked->text);
    if (!plan->workspace)
        return fail_path(err, field, asked->text, "is not a folder that can be opened");
    if (strcmp(plan->workspace, "/") == 0)
        return fail_path(err, field, asked->text, "is the whole system; name a folder in it");
    if (writes)
        note_writes(plan, asked->text);
    return 0;
}

/* "DIR" or "DIR=PATH". A folder whose own name has a '=' needs the second form. */
static int take_folder(struct plan *plan, const char *text, const struct plan_host *host,
                       struct cay_error *err)
{
    const char *equals = strrchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    struct plan_folder *folder = &plan->folders[plan->n_folders];

    folder->source = real_path(host, &plan->arena, arena_dup(&plan->arena, text, len));
    if (!folder->source)
        return fail_path(err, "ro", text, "is not a folder that can be opened");
    folder->path = equals ? arena_str(&plan->arena, equals + 1) : folder->source;
    if (!payload_folder_ok(folder->path)) {
        fail_path(err, "ro", folder->path, "is not a place where a folder can be shown");
        return cay_hint(err, "use DIR=PATH with a PATH that the sandbox does not use itself: "
                             "/data, /home/me/x, /tmp/x");
    }
    for (size_t i = 0; i < plan->n_folders; i++)
        if (payload_names_clash(plan->folders[i].path + 1, folder->path + 1))
            return cay_fail(err, CAY_E_USAGE, "ro: '%.200s' and '%.200s' cannot both be shown",
                            plan->folders[i].path, folder->path);
    plan->n_folders++;
    return 0;
}

static int take_folders(struct plan *plan, const struct folders_request *request,
                        const struct plan_host *host, struct cay_error *err)
{
    const char *const *list = request->ro->list;
    struct value paths = { 0 };

    plan->folders = arena_alloc(&plan->arena, PAYLOAD_FOLDERS_MAX * sizeof *plan->folders);
    for (; list && *list; list++) {
        if (plan->n_folders == PAYLOAD_FOLDERS_MAX)
            return cay_fail(err, CAY_E_USAGE, "ro: more than %d folders", PAYLOAD_FOLDERS_MAX);
        if (take_folder(plan, *list, host, err) < 0)
            return -1;
        field_append(&plan->arena, &paths, plan->folders[plan->n_folders - 1].path);
    }
    plan->folder_paths = paths.list;
    return 0;
}

static const char *find_venv(struct plan *plan, const struct plan_host *host)
{
    static const char *const venvs[] = { ".venv", "venv", "env" };

    for (size_t i = 0; plan->workspace && i < ARRAY_LEN(venvs); i++) {
        const char *mark =
            arena_printf(&plan->arena, "%s/%s/pyvenv.cfg", plan->workspace, venvs[i]);
        if (real_path(host, &plan->arena, mark))
            return venvs[i];
    }
    return NULL;
}

/* A virtualenv's scripts (pip, pytest) begin with "#!" and its own path on the host, and so does
 * what is installed to be edited in place: the workspace is there by that path too, where it can
 * be. */
static void link_workspace(struct plan *plan, const struct plan_host *host)
{
    struct value paths = { .list = plan->folder_paths };

    if (!find_venv(plan, host) || !payload_folder_ok(plan->workspace) ||
        plan->n_folders == PAYLOAD_FOLDERS_MAX)
        return;
    for (size_t i = 0; i < plan->n_folders; i++)
        if (payload_names_clash(plan->folders[i].path + 1, plan->workspace + 1))
            return;
    plan->workspace_link = plan->workspace;
    field_append(&plan->arena, &paths, plan->workspace);
    plan->folder_paths = paths.list;
}

/* As seen by the program: a relative one begins where it starts. */
static int take_globs(struct plan *plan, const struct folders_request *request,
                      struct cay_error *err)
{
    const char *const *list = request->collect->list;
    struct value globs = { 0 };
    size_t n = 0;

    for (; list && *list; list++, n++) {
        const char *glob = *list;
        if (n == PAYLOAD_GLOBS_MAX)
            return cay_fail(err, CAY_E_USAGE, "collect: more than %d globs", PAYLOAD_GLOBS_MAX);
        while (strncmp(glob, "./", 2) == 0)
            glob += 2;
        if (glob[0] != '/')
            glob = arena_printf(&plan->arena, "%s/%s", plan->workspace ? "/workspace" : "/sandbox",
                                glob);
        bool is_there = below("/sandbox", glob) || (plan->workspace && below("/workspace", glob));
        if (!is_there || strstr(glob, "/../") || strlen(glob) >= 4096) {
            fail_path(err, "collect", *list, "is not below /sandbox or /workspace");
            return plan->workspace ? -1 : cay_hint(err, "/workspace exists only with a workspace");
        }
        const char *last = strrchr(glob, '/') + 1;
        if (*last == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
            return fail_path(err, "collect", *list, "names no file; DIR/** is all of a folder");
        field_append(&plan->arena, &globs, glob);
    }
    plan->globs = globs.list;
    return 0;
}

/* The code is where the caller has it, if that is in the workspace, so that what lies beside it is
 * found; else it is put into /sandbox. */
static void place_source(struct plan *plan, const struct folders_request *request,
                         const struct plan_host *host)
{
    if (!plan->language)
        return;
    const char *name = plan->source_name;
    plan->source = plan->workspace ? arena_printf(&plan->arena, "/sandbox/%s", name) : name;
    if (!plan->workspace || !request->file_name)
        return;
    const char *file = real_path(host, &plan->arena, request->file_name);
    const char *part = file ? below(plan->workspace, file) : NULL;
    if (part) {
        plan->source = arena_printf(&plan->arena, "/workspace/%s", part);
        plan->is_source_there = true;
    }
}

int plan_folders(struct plan *plan, const struct folders_request *request,
                 const struct plan_host *host, struct cay_error *err)
{
    const struct {
        const char *name;
        const struct value *value;
    } needs[] = {
        { "workspace", request->workspace },
        { "ro", request->ro },
        { "collect", request->collect },
    };

    if (request->workspace_rw->is_set && request->workspace->is_set)
        return cay_fail(err, CAY_E_USAGE, "workspace and workspace_rw are mutually exclusive");
    if (request->workspace_rw->is_set && !(plan->backend->abilities & BACKEND_WRITES))
        return cay_fail(err, CAY_E_UNSUPPORTED, "workspace_rw: not supported by backend %s",
                        plan->backend->name);
    if (!(plan->backend->abilities & BACKEND_FOLDERS))
        for (size_t i = 0; i < ARRAY_LEN(needs); i++)
            if (needs[i].value->is_set)
                return cay_fail(err, CAY_E_UNSUPPORTED, "%s: not supported by backend %s",
                                needs[i].name, plan->backend->name);
    if (take_workspace(plan, request, host, err) < 0 ||
        take_folders(plan, request, host, err) < 0 || take_globs(plan, request, err) < 0)
        return -1;
    link_workspace(plan, host);
    place_source(plan, request, host);
    return 0;
}

void plan_workspace_env(struct plan *plan, const struct plan_host *host, struct value *env)
{
    struct arena *arena = &plan->arena;
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    const char *venv = find_venv(plan, host);

    if (!plan->workspace)
        return;
    if (venv) {
        field_append(arena, env, arena_printf(arena, "VIRTUAL_ENV=/workspace/%s", venv));
        path = arena_printf(arena, "/workspace/%s/bin:%s", venv, path);
    }
    if (real_path(host, arena, arena_printf(arena, "%s/node_modules", plan->workspace))) {
        field_append(arena, env, "NODE_PATH=/workspace/node_modules");
        path = arena_printf(arena, "/workspace/node_modules/.bin:%s", path);
    }
    if (plan->language && !plan->is_source_there)
        field_append(arena, env, "PYTHONPATH=/workspace");
    field_append(arena, env, arena_printf(arena, "PATH=%s", path));
}
