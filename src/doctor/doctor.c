/* SPDX-License-Identifier: Apache-2.0 */
/* The report: facts, a finding for each row, the languages, and the run that has the last word. */
#include "doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cay/doctor.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "core/layer.h"
#include "core/state.h"
#include "engine/engine.h"

static const char *const status_names[] = {
    [FINDING_OK] = "ok",
    [FINDING_WARN] = "warn",
    [FINDING_FAIL] = "fail",
    [FINDING_SKIP] = "skip",
};

/* ---- facts about the caller ---- */

static uint64_t hard_limit(int resource)
{
    struct rlimit limit;

    if (prlimit(0, resource, NULL, &limit) < 0 || limit.rlim_max == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_max;
}

/* The program that makes the sandboxes: what a profile of AppArmor has to name. */
static const char *own_program(struct arena *arena, const struct cay_options *options)
{
    char path[PATH_MAX];
    ssize_t len;

    if (!options->fork_warden)
        return options->helper ? options->helper : CAY_COMMAND;
    len = readlink("/proc/self/exe", path, sizeof path);
    return len > 0 ? arena_dup(arena, path, (size_t)len) : CAY_COMMAND;
}

static const char *changed_settings(struct arena *arena, const struct config *config)
{
    static const enum field_id which[] = { FIELD_BACKEND, FIELD_MIN_ISOLATION, FIELD_REQUIRE,
                                           FIELD_PROFILE };
    const char *list = NULL;

    for (size_t i = 0; i < ARRAY_LEN(which); i++) {
        const struct setting *setting = &config->settings[which[i]];
        bool is_changed = setting->origin != ORIGIN_BUILTIN && setting->origin != ORIGIN_OPTION;
        if (!is_changed || !setting->value.is_set)
            continue;
        list = arena_printf(arena, "%s%s%s = %s (%s)", list ? list : "", list ? ", " : "",
                            fields[which[i]].name, field_text(arena, which[i], &setting->value),
                            setting->where ? setting->where : origin_name(setting->origin));
    }
    return list;
}

static void ask_state(struct facts *f, int state_fd)
{
    char path[PATH_MAX];
    struct statvfs fs;

    if (state_path(path, sizeof path) == 0)
        f->state_path = arena_str(f->arena, path);
    f->state_errnum = state_fd < 0 ? -state_fd : 0;
    if (state_fd < 0)
        return;
    /* access() is not enough: it lets root write to what is mounted read-only. */
    int fd = openat(state_fd, "slots", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        f->state_errnum = errno;
    else
        close(fd);
    if (fstatvfs(state_fd, &fs) == 0)
        f->state_free = (uint64_t)fs.f_bavail * fs.f_frsize;
}

static void ask_caller(struct facts *f, const struct cay *cay)
{
    struct utsname system;
    char name[64];
    uint32_t uids, gids;

    f->uid = geteuid();
    f->user = user_name(f->uid, name, sizeof name) ? arena_str(f->arena, name)
                                                   : arena_printf(f->arena, "%u", f->uid);
    f->exe = own_program(f->arena, &cay->options);
    f->settings = changed_settings(f->arena, &cay->config);
    f->clock_s = time(NULL);
    if (uname(&system) == 0) {
        f->machine = arena_str(f->arena, system.machine);
        f->release = arena_str(f->arena, system.release);
    }
    f->nproc = hard_limit(RLIMIT_NPROC);
    f->nofile = hard_limit(RLIMIT_NOFILE);
    f->fsize = hard_limit(RLIMIT_FSIZE);
    subids_count(f->uid, &uids, &gids);
    f->subuids = uids;
    f->subgids = gids;
}

static void ask_engine(struct facts *f, const struct config *config)
{
    const struct setting *settings = config->settings;
    const struct engine_places places = ENGINE_PLACES_HERE(
        settings[FIELD_DOCKER_HOST].value.is_set ? settings[FIELD_DOCKER_HOST].value.text : NULL);
    const struct value *runtime = &settings[FIELD_RUNTIME].value;

    f->engine.is_wanted = strcmp(settings[FIELD_BACKEND].value.text, "docker") == 0;
    f->engine.wants_runsc = runtime->is_set && strcmp(runtime->text, "runsc") == 0;
    facts_ask_engine(f, &places);
}

/* ---- the run ---- */

struct outcome {
    bool ok;
    uint32_t layers;
    const char *tier, *backend;
    struct cay_error err;
};

/* Runs an empty program, by the default request but for this layer (NULL: none). */
static void run_empty(struct cay *cay, struct arena *arena, const char *require,
                      struct outcome *ret)
{
    struct cay_request *req = cay_request_new();
    struct cay_result *result = NULL;

    *ret = (struct outcome){ .tier = "none" };
    if (cay_request_set(req, "command", "true", &ret->err) == 0 &&
        (!require || cay_request_set(req, "require", require, &ret->err) == 0) &&
        engine_probe(cay, req, &result, &ret->err) == 0) {
        for (const char *const *layer = result->layers; layer && *layer; layer++)
            ret->layers |= layer_bits(*layer);
        ret->backend = arena_str(arena, result->backend);
        ret->ok = result->success;
        if (ret->ok)
            ret->tier = arena_str(arena, result->tier);
        else
            cay_fail(&ret->err, CAY_E_UNSUPPORTED, "%s",
                     result->error_message ? result->error_message : "the program failed");
    }
    cay_result_free(result);
    cay_request_free(req);
}

/* The layers that a run here does not have; the watcher is what stands in for one of them. */
static uint32_t missing_layers(const struct outcome *run)
{
    uint32_t all = (UINT32_C(1) << LAYER_N) - 1;
    return all & ~run->layers & ~LAYER_BIT(WATCHER);
}

/* Where a check has failed before, that one's fix is the better one. */
/* Whether somebody answers at the usual socket of this user's server. */
static bool is_answered(const struct facts *f, struct sockaddr_un *ret)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (f->uid == 0)
        snprintf(ret->sun_path, sizeof ret->sun_path, "/run/cay/cay.sock");
    else if (runtime && *runtime == '/')
        snprintf(ret->sun_path, sizeof ret->sun_path, "%s/cay/cay.sock", runtime);
    else
        snprintf(ret->sun_path, sizeof ret->sun_path, "/tmp/cay-%u/cay.sock", f->uid);
    return fd >= 0 && connect(fd, (const struct sockaddr *)ret, sizeof *ret) == 0;
}

static void judge_server(const struct facts *f, struct finding *out)
{
    struct sockaddr_un name;

    *out = (struct finding){
        .id = "server",
        .group = "run",
        .title = "a server of yours",
        .why = "where one is up, runs start warm",
    };
    if (is_answered(f, &name))
        finding_say(f, out, FINDING_OK, "up, at %s", name.sun_path);
    else
        finding_say(f, out, FINDING_OK,
                    "none is running, and none is needed (`cay serve` starts one)");
}

static void judge_run(const struct facts *f, const struct outcome *run, bool is_explained,
                      struct finding *out)
{
    *out = (struct finding){
        .id = "run",
        .group = "run",
        .title = "a sandbox",
        .why = "an empty program, run by the default request: what counts in the end",
    };
    if (run->ok) {
        finding_say(f, out, FINDING_OK, "tier %s by %s, %d layers in force", run->tier,
                    run->backend, __builtin_popcount(run->layers));
        return;
    }
    finding_say(f, out, FINDING_FAIL, "%s", run->err.msg);
    if (is_explained)
        return;
    /* "…; see `cay doctor`" is for who has not done so. */
    const char *end = strstr(run->err.hint, "see `cay doctor`");
    size_t len = end ? (size_t)(end - run->err.hint) : strlen(run->err.hint);
    while (len > 0 && strchr("; ", run->err.hint[len - 1]))
        len--;
    if (len > 0)
        finding_fix(f, out, arena_dup(f->arena, run->err.hint, len), NULL);
    if (f->settings)
        finding_fix(f, out, arena_printf(f->arena, "change the setting: %s", f->settings),
                    "cay config");
    if (out->n_fixes == 0)
        finding_fix(f, out, "see what the run itself says", "cay exec --json -- true");
}

static const char *conclude(const struct facts *f, const struct outcome *run)
{
    uint32_t missing = missing_layers(run);
    const char *list = NULL;

    if (!run->ok)
        return arena_printf(f->arena, "This host gives %s no isolation that cay can use: %s.",
                            f->user, run->err.msg);
    if (!missing)
        return arena_printf(f->arena, "This host gives %s tier %s: all layers, cgroup included.",
                            f->user, run->tier);
    if ((missing & LAYER_CGROUP_BITS) == LAYER_CGROUP_BITS) {
        missing &= ~LAYER_CGROUP_BITS;
        list = "cgroup";
    }
    for (int i = 0; i < LAYER_N; i++)
        if (missing & (UINT32_C(1) << i))
            list = arena_printf(f->arena, "%s%s%s", list ? list : "", list ? ", " : "",
                                layer_name((enum layer)i));
    return arena_printf(
        f->arena, "This host gives %s tier %s: all layers but %s%s.", f->user, run->tier, list,
        run->layers & LAYER_BIT(WATCHER) ? " (a watcher enforces memory and pids instead)" : "");
}

/* ---- JSON ---- */

static void put_finding(struct json_writer *w, const struct finding *finding)
{
    json_begin_object(w);
    json_field_string(w, "id", finding->id);
    json_field_string(w, "group", finding->group);
    json_field_string(w, "title", finding->title);
    json_field_string(w, "status", status_names[finding->status]);
    json_field_string(w, "fact", finding->fact);
    json_field_string(w, "why", finding->why);
    json_field_array(w, "fix");
    for (unsigned i = 0; i < finding->n_fixes; i++) {
        json_begin_object(w);
        json_field_string(w, "text", finding->fixes[i].text);
        json_field_string(w, "command", finding->fixes[i].command);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

/* What works after all was no failure: the run has the last word. Returns how many failures there
 * are. */
static unsigned put_checks(struct json_writer *w, const struct facts *f, const struct check *check,
                           bool works)
{
    unsigned n_failed = 0;

    for (; check->id; check++) {
        struct finding finding;
        doctor_judge(f, check, &finding);
        if (works && finding.status == FINDING_FAIL)
            finding.status = FINDING_WARN;
        n_failed += finding.status == FINDING_FAIL;
        put_finding(w, &finding);
    }
    return n_failed;
}

static const char *text_of(json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static void judge_language(const struct facts *f, json_t *row, struct finding *out)
{
    const char *path = text_of(row, "path"), *version = text_of(row, "version");
    auto_strbuf struct strbuf packages = { 0 };
    json_t *package;
    size_t i;

    *out = (struct finding){
        .id = arena_printf(f->arena, "language:%s", text_of(row, "name")),
        .group = "languages",
        .title = text_of(row, "title"),
        .why = "its runtime is this machine's own",
    };
    if (path) {
        finding_say(f, out, FINDING_OK, "%s%s%s", version ? version : "", version ? ", " : "",
                    path);
        return;
    }
    finding_say(f, out, FINDING_WARN, "not installed");
    json_array_foreach (json_object_get(row, "packages"), i, package)
        strbuf_printf(&packages, "%s%s", i ? " " : "", json_string_value(package));
    const char *install = facts_install(f, strbuf_str(&packages));
    if (install)
        finding_fix(f, out, "install it", "%s", install);
    else
        finding_fix(f, out,
                    arena_printf(f->arena, "install what Debian calls %s", strbuf_str(&packages)),
                    NULL);
}

static int put_languages(struct json_writer *w, struct cay *cay, const struct facts *f,
                         struct cay_error *err)
{
    auto_free char *text = NULL;
    size_t i;
    json_t *row;

    if (cay_languages_json(cay, &text, err) < 0)
        return -1;
    json_t *list = json_loads(text, 0, NULL);
    json_array_foreach (list, i, row) {
        struct finding finding;
        judge_language(f, row, &finding);
        put_finding(w, &finding);
    }
    json_decref(list);
    return 0;
}

static void put_layers(struct json_writer *w, const char *key, uint32_t bits)
{
    json_field_array(w, key);
    for (int i = 0; i < LAYER_N; i++)
        if (bits & (UINT32_C(1) << i))
            json_put_string(w, layer_name((enum layer)i));
    json_end_array(w);
}

/* For each layer that a run here goes without: what is said to who requires it. */
static void put_refused(struct json_writer *w, struct cay *cay, struct arena *arena,
                        const struct outcome *run)
{
    uint32_t missing = run->ok ? missing_layers(run) : 0;

    json_field_array(w, "refused");
    for (int i = 0; i < LAYER_N; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if (!(missing & bit))
            continue;
        bool is_group = (missing & bit & LAYER_CGROUP_BITS) != 0;
        const char *require = is_group ? "cgroup" : layer_name((enum layer)i);
        struct outcome without;
        missing &= is_group ? ~LAYER_CGROUP_BITS : ~bit;
        run_empty(cay, arena, require, &without);
        if (without.ok)
            continue;
        json_begin_object(w);
        json_field_string(w, "require", require);
        json_field_string(w, "message", without.err.msg);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_host(struct json_writer *w, const struct facts *f)
{
    json_field_object(w, "user");
    json_field_string(w, "name", f->user);
    json_field_uint(w, "uid", f->uid);
    json_end_object(w);
    json_field_object(w, "host");
    json_field_string(w, "system", f->os_name);
    json_field_string(w, "kernel", f->release);
    json_field_string(w, "machine", f->machine);
    json_field_array(w, "inside");
    for (int i = 0; i < PLACE_N; i++)
        if (f->places & (UINT32_C(1) << i))
            json_put_string(w, place_name((enum place)i));
    json_end_array(w);
    json_end_object(w);
}

static int put_report(struct json_writer *w, struct cay *cay, const struct facts *f,
                      struct cay_error *err)
{
    struct outcome run;
    struct finding finding;

    run_empty(cay, f->arena, NULL, &run);
    json_begin_object(w);
    json_field_bool(w, "works", run.ok);
    json_field_string(w, "tier", run.tier);
    json_field_string(w, "backend", run.backend);
    json_field_string(w, "conclusion", conclude(f, &run));
    put_host(w, f);
    put_layers(w, "layers", run.layers);
    put_layers(w, "missing", missing_layers(&run));
    put_refused(w, cay, f->arena, &run);
    json_field_array(w, "checks");
    unsigned n_failed = put_checks(w, f, checks_host, run.ok);
    n_failed += put_checks(w, f, checks_kernel, run.ok);
    n_failed += put_checks(w, f, checks_cgroup, run.ok);
    n_failed += put_checks(w, f, checks_user, run.ok);
    if (put_languages(w, cay, f, err) < 0)
        return -1;
    put_checks(w, f, checks_tools, run.ok);
    judge_server(f, &finding);
    put_finding(w, &finding);
    judge_run(f, &run, n_failed > 0, &finding);
    put_finding(w, &finding);
    json_end_array(w);
    json_end_object(w);
    return 0;
}

int cay_doctor_backend(struct cay *cay, const char *name, struct cay_error *err)
{
    struct value value;

    if (field_parse(&cay->config.arena, FIELD_BACKEND, name, &value, err) < 0)
        return -1;
    cay->config.settings[FIELD_BACKEND] = (struct setting){ value, ORIGIN_OPTION, NULL };
    return 0;
}

int cay_doctor_json(struct cay *cay, char **ret, struct cay_error *err)
{
    extern char **environ;
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out, .pretty = true };
    struct arena arena = { 0 };
    auto_free struct facts *f = mem_alloc(sizeof *f);
    auto_close int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int state_fd = state_open();

    f->arena = &arena;
    ask_caller(f, cay);
    facts_read(f, root_fd, (const char *const *)environ);
    ask_state(f, state_fd);
    ask_engine(f, &cay->config);
    facts_try(f, MAX(state_fd, -1));
    facts_try_syntax(f);
    facts_find_prewarm(f);
    int rc = put_report(&w, cay, f, err);
    if (rc == 0)
        *ret = strbuf_take(&out);
    if (state_fd >= 0)
        close(state_fd);
    arena_done(&arena);
    return rc;
}
