/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "core/config.h"
#include "core/image.h"
#include "core/language.h"
#include "core/layer.h"
#include "core/limits.h"
#include "core/plan-ctx.h"
#include "core/request-alias.h"
#include "sys/userns.h"

/* ---- settings ---- */

static int choose_profile(struct plan_ctx *m)
{
    const struct value *asked = &m->req->values[FIELD_PROFILE];
    const char *name = asked->is_set ? asked->text : m->config->settings[FIELD_PROFILE].value.text;
    const char *names[64];
    size_t n = 0;

    m->plan->profile = arena_str(&m->plan->arena, name);
    m->profile = config_profile(m->config, name);
    if (m->profile)
        return 0;
    for (const struct profile *p = m->config->profiles; p && n < ARRAY_LEN(names); p = p->next)
        names[n++] = p->name;
    cay_fail(m->err, CAY_E_USAGE, "profile: unknown profile '%.60s'", name);
    const char *near = suggest(name, names, n);
    return near ? cay_hint(m->err, "did you mean %s?", near)
                : cay_hint(m->err, "use default, hardened, light, restricted, or one of cay.toml");
}

/* What a server sees to itself, and takes out of a request before it gets here. */
static int refuse_servers_own(const struct plan_ctx *m)
{
    bool is_webhook = setting(m, FIELD_WEBHOOK)->is_set;

    if (!is_webhook && !number(m, FIELD_DETACH))
        return 0;
    cay_fail(m->err, CAY_E_UNSUPPORTED, "%s: only available on a server",
             fields[is_webhook ? FIELD_WEBHOOK : FIELD_DETACH].name);
    return cay_hint(m->err, "send the request to `cay serve`");
}

/* What has its own place in the product but is not part of it yet. */
static int refuse_unbuilt(const struct plan_ctx *m)
{
    const struct value *network = setting(m, FIELD_NETWORK);

    if (setting(m, FIELD_SESSION)->is_set)
        return cay_fail(m->err, CAY_E_UNSUPPORTED, "session: not built yet");
    for (const char *const *word = network->list; word && *word; word++)
        if (strcmp(*word, "none") != 0)
            return cay_fail(m->err, CAY_E_UNSUPPORTED,
                            "network: '%.60s' is not built yet; allowed is none", *word);
    m->plan->network = network->list;
    return 0;
}

/* ---- backend ---- */

/* Whether anybody said it: a language's own value takes the place of the built-in one only. */
static bool is_explicit(const struct plan_ctx *m, enum field_id id)
{
    return m->req->values[id].is_set || (m->profile && m->profile->values[id].is_set) ||
           m->config->settings[id].origin != ORIGIN_BUILTIN;
}

/* Whether only a project's file said it, which can lower what else would hold, and never raise it.
 */
static bool is_only_tightened(const struct plan_ctx *m, enum field_id id)
{
    return !m->req->values[id].is_set && !(m->profile && m->profile->values[id].is_set) &&
           m->config->settings[id].origin == ORIGIN_PROJECT;
}

static int choose_backend(const struct plan_ctx *m)
{
    const struct backend_request request = {
        .name = text(m, FIELD_BACKEND),
        .min = text(m, FIELD_MIN_ISOLATION),
        .fallback = text(m, FIELD_FALLBACK),
        .is_fallback_explicit = m->req->values[FIELD_FALLBACK].is_set,
        .is_min_explicit = is_explicit(m, FIELD_MIN_ISOLATION),
        .runtime = text(m, FIELD_RUNTIME),
        .is_sandbox_on = number(m, FIELD_ENABLE_SANDBOX) != 0,
    };
    return plan_backend(m->plan, &request, m->host, m->err);
}

/* A container engine's, which knows it by its name. */
static int choose_engine_image(const struct plan_ctx *m)
{
    const char *image = text(m, FIELD_IMAGE);
    struct plan *plan = m->plan;

    if (strcmp(image, IMAGE_HOST) == 0)
        image = text(m, FIELD_DOCKER_IMAGE);
    if (!image || !*image || strlen(image) >= sizeof plan->sandbox.image)
        return cay_fail(m->err, CAY_E_USAGE, "image: '%.60s' is not an image name",
                        image ? image : "");
    plan->sandbox.engine = backend_engine(text(m, FIELD_DOCKER_HOST));
    snprintf(plan->sandbox.image, sizeof plan->sandbox.image, "%s", image);
    plan->image_ref = arena_str(&plan->arena, image); /* what it holds, the engine tells */
    return 0;
}

/* The image is opened by the warden too, by its name; this one is for what a plan has to know. */
static int choose_stored_image(struct plan_ctx *m, const char *name)
{
    struct plan *plan = m->plan;
    struct image_facts facts;
    struct stat st;

    int rc = image_open(-1, name, &m->image);
    if (rc < 0)
        return image_fail(rc, name, m->err);
    if (image_facts(&plan->arena, &m->image, &facts, m->err) < 0)
        return cay_wrap(m->err, "image '%s'", name);
    if (fstat(m->image.fd, &st) < 0)
        return cay_fail_errno(m->err, errno, "image: look at '%s'", name);
    memcpy(plan->sandbox.image, name, strlen(name) + 1);
    plan->sandbox.image_inode = st.st_ino;
    plan->image = arena_str(&plan->arena, name);
    plan->image_digest = facts.digest;
    plan->image_ref = arena_printf(&plan->arena, "%s@%s", name, facts.digest);
    return 0;
}

static int choose_image(struct plan_ctx *m)
{
    const char *name = text(m, FIELD_IMAGE);
    const struct backend_kind *backend = m->plan->backend;

    if (backend->abilities & BACKEND_IMAGES)
        return choose_engine_image(m);
    if (text(m, FIELD_RUNTIME))
        return cay_fail(m->err, CAY_E_UNSUPPORTED, "runtime: not supported by backend %s",
                        backend->name);
    if (strcmp(name, IMAGE_HOST) == 0)
        return 0;
    if (backend->abilities & BACKEND_STORED_IMAGES)
        return choose_stored_image(m, name);
    cay_fail(m->err, CAY_E_UNSUPPORTED, "image: backend %s cannot use '%.60s'", backend->name,
             name);
    return cay_hint(m->err, "use backend native, or image host");
}

static int choose_terminal(const struct plan_ctx *m)
{
    m->plan->run.spec.has_terminal = number(m, FIELD_TTY) != 0;
    if (!m->plan->run.spec.has_terminal || (m->plan->backend->abilities & BACKEND_TERMINAL))
        return 0;
    cay_fail(m->err, CAY_E_UNSUPPORTED, "tty: not supported by backend %s", m->plan->backend->name);
    return cay_hint(m->err, "use backend native, or leave out -t");
}

static int choose_layers(const struct plan_ctx *m)
{
    const struct value *require = setting(m, FIELD_REQUIRE);
    const char *const *words = require->list;
    const struct backend_kind *backend = m->plan->backend;
    bool is_all = m->config->requires_all;

    while (words && *words && layer_is_none(*words))
        words++;
    if (backend->tier == TIER_NONE) {
        const char *first = is_all ? "cgroup" : words ? *words : NULL;
        return first ? cay_fail(m->err, CAY_E_UNSUPPORTED, "require: backend %s has no layer %.60s",
                                backend->name, first)
                     : 0;
    }
    if (!require->is_set || is_all) {
        m->plan->sandbox.require = backend->layers | (is_all ? LAYER_CGROUP_BITS : 0);
        /* It has neither; what it has instead is stronger. */
        if (m->plan->tier == TIER_GVISOR)
            m->plan->sandbox.require &= ~(LAYER_BIT(SECCOMP) | LAYER_BIT(LANDLOCK));
    }
    for (; words && *words; words++) {
        uint32_t bits = layer_bits(*words);
        if (bits == 0 && !layer_is_none(*words))
            return layer_fail_unknown(*words, m->err);
        m->plan->sandbox.require |= bits;
    }
    return 0;
}

/* ---- limits ---- */

static int check_caps(const struct plan_ctx *m)
{
    for (int i = 0; i < FIELD_N; i++) {
        const struct setting *cap = &m->config->caps[i];
        const struct value *value = setting(m, (enum field_id)i);
        if (!cap->value.is_set || !value->is_set || value->num <= cap->value.num)
            continue;
        cay_fail(m->err, CAY_E_USAGE, "%s: %s exceeds the configured maximum of %s", fields[i].name,
                 field_text(&m->plan->arena, (enum field_id)i, value),
                 field_text(&m->plan->arena, (enum field_id)i, &cap->value));
        return i == FIELD_TIMEOUT ? cay_hint(m->err, "SECURITY_MAX_EXECUTION_TIME raises it")
                                  : cay_hint(m->err, "[max] in the configuration raises it");
    }
    return 0;
}

uint64_t plan_run_memory(const struct plan_ctx *m)
{
    const struct language *language = m->plan->language;
    const struct value *cap = &m->config->caps[FIELD_MEMORY].value;
    uint64_t asked = number(m, FIELD_MEMORY);
    uint64_t own = language && language->memory_bytes ? language->memory_bytes : asked;

    if (is_only_tightened(m, FIELD_MEMORY))
        return MIN(own, asked);
    if (is_explicit(m, FIELD_MEMORY))
        return asked;
    return cap->is_set ? MIN(own, cap->num) : own;
}

uint64_t plan_compile_memory(const struct plan_ctx *m)
{
    return MAX(number(m, FIELD_COMPILE_MEMORY), plan_run_memory(m));
}

/* The result states what was in force: not what this host can't give. */
static void clamp(const struct plan_ctx *m, enum field_id id, uint32_t most, uint32_t *value)
{
    struct arena *arena = &m->plan->arena;
    const struct value had = { .is_set = true, .num = *value };
    const struct value have = { .is_set = true, .num = most };

    if (most == 0 || *value <= most)
        return;
    *value = most;
    field_append(arena, &m->plan->warnings,
                 arena_printf(arena, "%s %s exceeds this host's %s; using %s", fields[id].name,
                              field_text(arena, id, &had), field_text(arena, id, &have),
                              field_text(arena, id, &have)));
}

static uint64_t limit_number(const void *arg, enum field_id id)
{
    const struct plan_ctx *m = arg;
    return id == FIELD_MEMORY ? plan_run_memory(m) : number(m, id);
}

/* Of the program. A plan that came to nothing has no backend; it may be the native one's. */
static struct cay_limits run_limits(const struct plan_ctx *m)
{
    const struct backend_kind *backend = m->plan->backend;
    struct cay_limits run = limits_from_fields(limit_number, m);

    if (!backend || !(backend->abilities & BACKEND_IMAGES)) { /* else it is the engine's to give */
        clamp(m, FIELD_CPUS, m->host->max_cpus_milli, &run.cpus_milli);
        clamp(m, FIELD_OPEN_FILES, m->host->max_open_files, &run.open_files);
    }
    return run;
}

/* One that is alone with its sandbox, as every program of a plan is. */
static struct exec_spec exec_alone(const struct cay_limits *limits)
{
    return (struct exec_spec){
        .owns_sandbox = true,
        .limits = *limits,
        .std_fds = { -1, -1, -1 },
        .payload_fd = -1,
        .harvest_fd = -1,
    };
}

static void fill_execs(const struct plan_ctx *m)
{
    struct plan *plan = m->plan;
    const struct cay_limits run = run_limits(m);
    const struct cay_limits compile = limits_for_compiler(
        &run, (int64_t)number(m, FIELD_COMPILE_TIMEOUT), plan_compile_memory(m));

    plan->compile.spec = exec_alone(&compile);
    plan->compile.spec.is_compiler = true;
    bool has_terminal = plan->run.spec.has_terminal;
    plan->run.spec = exec_alone(&run);
    plan->run.spec.has_terminal = plan->sandbox.has_terminals = has_terminal;
    plan->run.spec.in_workspace = true; /* a compiler works in /sandbox in any case */
    if ((plan->workspace && !plan->sandbox.writes) || plan->globs)
        plan->run.spec.harvest = HARVEST_ALL;
    plan->sandbox.limits = plan_first(plan)->spec.limits;
    plan->sandbox.payload_fd = -1;
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        plan->sandbox.folder_fds[i] = -1;
}

struct payload_source plan_payload(const struct plan *plan, const struct plan_exec *exec)
{
    struct payload_source source = { .argv = exec->argv, .env = plan->env };

    if (exec == plan_first(plan)) {
        source.files = plan->files;
        source.n_files = plan->n_files;
    }
    if (exec == &plan->run)
        source.globs = plan->globs;
    return source;
}

/* ---- root ---- */

/* A profile's list is for every machine: what is not installed here is left out of it. */
static const char *const *allowed_commands(const struct plan_ctx *m)
{
    const struct value *value = setting(m, FIELD_SHELL_ALLOW);
    struct value list = { 0 };

    if (m->req->values[FIELD_SHELL_ALLOW].is_set)
        return value->list;
    for (const char *const *name = value->list; name && *name; name++)
        if (shell_has_command(*name))
            field_push(&m->plan->arena, &list, *name);
    return list.list;
}

static int plan_root(const struct plan_ctx *m)
{
    struct plan *plan = m->plan;
    unsigned flags = plan->run.spec.has_terminal ? ROOT_TERMINAL : 0;

    if (plan->image && setting(m, FIELD_SHELL_ALLOW)->is_set)
        return cay_fail(m->err, CAY_E_UNSUPPORTED,
                        "shell_allow: only available with image host, not with '%s'", plan->image);
    if (plan->image) {
        int rc = image_root(&plan->arena, &m->image, flags, &plan->root);
        return rc < 0 ? cay_fail_errno(m->err, -rc, "image: read '%s'", plan->image) : 0;
    }
    if (!setting(m, FIELD_SHELL_ALLOW)->is_set && (plan->backend->abilities & BACKEND_IMAGES))
        return 0;
    if (!setting(m, FIELD_SHELL_ALLOW)->is_set) {
        plan->has_host_root = true;
        return 0;
    }
    if (!(plan->backend->abilities & BACKEND_SHELL)) {
        cay_fail(m->err, CAY_E_UNSUPPORTED, "shell_allow: not supported by backend %s",
                 plan->backend->name);
        return cay_hint(m->err, "use backend native, or an image that has only these commands");
    }
    if (plan->version)
        return cay_fail(m->err, CAY_E_UNSUPPORTED,
                        "shell_allow: only available with %s itself, not a version of it",
                        plan->language->name);
    plan->sandbox.is_restricted = true;
    if (shell_pack(allowed_commands(m), plan->sandbox.shell_allow, m->err) < 0)
        return -1;
    return shell_root(&plan->arena, plan->language, plan->sandbox.shell_allow, SANDBOX_UID,
                      SANDBOX_GID, flags, &plan->root, m->err);
}

struct bytes plan_import_lists(struct arena *arena, const struct config *config)
{
    const struct {
        enum field_id id;
        char sign;
    } rows[] = { { FIELD_BLOCK_IMPORTS, '+' }, { FIELD_ALLOW_IMPORTS, '-' } };
    struct strbuf out = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const *name = config->settings[rows[i].id].value.list;
        for (; name && *name; name++) {
            strbuf_putc(&out, rows[i].sign);
            strbuf_add(&out, *name, strlen(*name) + 1);
        }
    }
    struct bytes lists = { arena_dup(arena, strbuf_str(&out), out.len), out.len };
    strbuf_done(&out);
    return lists;
}

static void choose_policy(const struct plan_ctx *m)
{
    const char *name = text(m, FIELD_POLICY);
    struct plan *plan = m->plan;

    plan->policy = strcmp(name, "block") == 0  ? POLICY_BLOCK
                   : strcmp(name, "warn") == 0 ? POLICY_WARN
                                               : POLICY_OFF;
    plan->policy_strict = number(m, FIELD_POLICY_STRICT) != 0;
    plan->is_policy_explicit = is_explicit(m, FIELD_POLICY) || plan->policy_strict;
    /* Without a wall, and for who asks for more than is usual, what nobody let pass does not run. A
     * project's file lets nothing pass. */
    bool is_said = is_explicit(m, FIELD_POLICY) && !is_only_tightened(m, FIELD_POLICY);
    if (!is_said && (plan->backend->tier == TIER_NONE || plan->policy_strict))
        plan->policy = POLICY_BLOCK;
    plan->policy_bypass = number(m, FIELD_POLICY_BYPASS) != 0;
    plan->has_network = plan->network && plan->network[0] && strcmp(plan->network[0], "none") != 0;
    plan->import_lists = plan_import_lists(&plan->arena, m->config);
}

/* What language models wrap code in; it is never taken off unasked, for the code is the caller's.
 */
static int find_fence(struct plan_ctx *m)
{
    m->fence = fence_find(m->req->code);
    if (number(m, FIELD_STRIP_FENCE) == 0)
        m->fence.code = m->req->code;
    return 0;
}

static void note_warnings(const struct plan_ctx *m)
{
    struct plan *plan = m->plan;

    if (m->fence.is_there && !has_stripped_fence(m))
        field_append(&plan->arena, &plan->warnings,
                     "the code is wrapped in a Markdown fence, which runs as part of it: pass "
                     "--strip-fence (in a request \"strip_fence\": true) to take it off");
    for (const char *const *note = m->config->warnings.list; note && *note; note++)
        field_append(&plan->arena, &plan->warnings, *note);
    plan_warn_of_backend(plan);
}

int plan_make(const struct cay_request *req, const struct config *config,
              const struct plan_host *host, struct plan *ret, struct cay_error *err)
{
    struct plan plan = { 0 };
    struct plan_ctx m = { req, config, host, NULL, &plan, err, IMAGE_INIT, { .code = req->code } };

    int rc = request_alias_finish(req, err) < 0 || choose_profile(&m) < 0 || find_fence(&m) < 0 ||
                     refuse_servers_own(&m) < 0 || refuse_unbuilt(&m) < 0 ||
                     choose_backend(&m) < 0 || choose_image(&m) < 0 || choose_terminal(&m) < 0 ||
                     choose_layers(&m) < 0 || check_caps(&m) < 0 || plan_program(&m) < 0 ||
                     plan_files(&m) < 0 || plan_root(&m) < 0
                 ? -1
                 : 0;
    image_close(&m.image);
    if (rc < 0) {
        arena_done(&plan.arena);
        return -1;
    }
    fill_execs(&m);
    choose_policy(&m);
    plan_environment(&m);
    m.plan->sandbox.start = (uint8_t)plan_start(&m);
    note_warnings(&m);
    plan.is_strict = number(&m, FIELD_STRICT) != 0;
    *ret = plan;
    return 0;
}

int plan_limits(const struct cay_request *req, const struct config *config,
                const struct plan_host *host, struct cay_limits *ret, struct cay_error *err)
{
    struct plan plan = { 0 };
    struct cay_error unknown;
    struct plan_ctx m = { req, config, host, NULL, &plan, err, IMAGE_INIT, { .code = req->code } };

    int rc = choose_profile(&m) < 0 || check_caps(&m) < 0 ? -1 : 0;
    if (rc == 0) {
        find_fence(&m);
        /* A language that is not there has no limits of its own; nor has a command. */
        m.err = &unknown;
        if (req->code.data)
            plan_choose_language(&m);
        choose_backend(&m);
        *ret = run_limits(&m);
    }
    arena_done(&plan.arena);
    return rc;
}

void plan_of_refused(const struct cay_request *req, const struct config *config,
                     const struct plan_host *host, struct plan *ret)
{
    struct cay_error unknown;
    struct plan_ctx m = { req, config, host, NULL, ret, &unknown, IMAGE_INIT };

    *ret = (struct plan){
        .code = req->code,
        .input = req->input,
        .run.argv = req->code.data ? NULL : req->command.list,
        .files = req->files.items,
        .n_files = req->files.n,
    };
    if (choose_profile(&m) < 0)
        return;
    if (req->code.data)
        plan_choose_language(&m);
    ret->run.spec.limits = run_limits(&m);
}

void plan_done(struct plan *plan)
{
    arena_done(&plan->arena);
}
