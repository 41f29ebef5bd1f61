/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions: opening, running, and the texts that describe this host's cay. */
#include "engine/engine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "core/floor.h"
#include "core/language.h"
#include "core/limits-json.h"
#include "core/state.h"
#include "engine/run.h"
#include "engine/versions.h"
#include "images/image-store.h"
#include "store/journal.h"

static const char *path_here(struct arena *arena, const char *path)
{
    auto_free char *real = realpath(path, NULL);
    return real ? arena_str(arena, real) : NULL;
}

static const char *installed_version(struct arena *arena, const struct language *language,
                                     const char *program)
{
    auto_close int state_fd = state_open();
    return version_of(arena, state_fd, language, program);
}

/* Programs have the CPUs of whoever starts them, and no more files than he may have. */
static struct plan_host this_host(void)
{
    struct plan_host host = {
        .find_program = language_program,
        .version_of = installed_version,
        .real_path = path_here,
    };
    struct rlimit files;
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        host.max_cpus_milli = (uint32_t)CPU_COUNT(&cpus) * 1000;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < UINT32_MAX)
        host.max_open_files = (uint32_t)files.rlim_max;
    return host;
}

/* While it may still be made for the user that the server will be: the journal's. */
static int open_compiled(const struct cay_journal *journal)
{
    struct stat st;

    if (!journal || fstat(journal->folder_fd, &st) < 0)
        return -1;
    return compiled_open_for(st.st_uid, st.st_gid);
}

int cay_open(const struct cay_options *options, struct cay **ret, struct cay_error *err)
{
    auto_free struct cay *cay = mem_alloc(sizeof *cay);
    struct config_sources sources;
    struct arena arena = { 0 };

    if (options)
        cay->options = *options;
    cay->warden = (struct warden_client)WARDEN_CLIENT_INIT;
    loop_init(&cay->loop);
    cay->host = this_host();
    cay->syntax = (struct syntax_pool)SYNTAX_POOL_INIT;
    config_usual_sources(&arena, &sources);
    if (cay->options.no_project)
        sources.project_file = NULL;
    int rc = config_load(&sources, &cay->config, err);
    arena_done(&arena);
    if (rc < 0)
        return -1;
    cay->compiled_fd = open_compiled(cay->options.journal);
    cay->images_fd = cay->options.journal ? image_store_place() : -1;
    if (cay->options.start_now && warden_open(&cay->warden, &cay->options, &cay->config, err) < 0) {
        close_fd(&cay->compiled_fd);
        close_fd(&cay->images_fd);
        config_done(&cay->config);
        return -1;
    }
    if (cay->options.start_warden) /* whoever needs that can start no workers either */
        syntax_pool_prepare(&cay->syntax, cay->options.helper, cay->options.start_checker,
                            cay->options.start_arg);
    *ret = take_ptr(&cay);
    return 0;
}

const struct config *config_of(const struct cay *cay)
{
    return &cay->config;
}

void cay_close(struct cay *cay)
{
    if (!cay)
        return;
    warden_close(&cay->warden);
    cay->loop.is_closing = true;
    runs_fail(cay);
    loop_done(&cay->loop);
    syntax_pool_close(&cay->syntax);
    versions_forget(&cay->versions);
    close_fd(&cay->compiled_fd);
    close_fd(&cay->images_fd);
    arena_done(&cay->languages);
    config_done(&cay->config);
    errors_cache_done(&cay->errors);
    free(cay);
}

/* ---- runs that come to nothing ---- */

/* The reason is the newest warning. */
static const char *last_of(const struct value *warnings)
{
    const char *last = "not recorded";

    for (const char *const *at = warnings->list; at && *at; at++)
        last = *at;
    return last;
}

/* Of how: id, tenant, timestamp and queue_ns. The result gets that id; and, for whoever tells of
 * it, what is known of the run. Fails where it could not be recorded. */
static int record_without_run(struct cay *cay, const struct cay_request *req,
                              const struct run_params *params, struct cay_result *result,
                              bool is_pending, struct cay_error *err)
{
    const struct record_left left = { .harvest_fd = -1, .workspace_fd = -1 };
    struct arena *arena = result_arena(result);
    struct value warnings = { 0 };
    struct record record;
    struct plan plan;

    if (params->id)
        memcpy(result->id, params->id, sizeof result->id);
    result_stamp(result, params->timestamp);
    result->timing.queue_ns = params->queue_ns;
    if (plan_make(req, &cay->config, &cay->host, &plan, err) < 0)
        plan_of_refused(req, &cay->config, &cay->host, &plan);
    if (plan.language)
        result->language = arena_str(arena, plan.language->name);
    if (plan.backend)
        result->backend = plan.backend->name;
    result->limits = plan.run.spec.limits;
    record_begin(&record, result->id, &cay->config);
    record.journal = cay->options.journal;
    record.tenant = params->tenant;
    record.is_pending = is_pending;
    record.is_unstarted = true;
    record.without_code = params->without_code;
    record_finish(&record, &plan, &left, arena, result, &warnings);
    record_done(&record);
    plan_done(&plan);
    return result->is_unrecorded ? cay_fail(err, CAY_E_SYSTEM, "%s", last_of(&warnings)) : 0;
}

/* A run that is refused is on record like any other, and told of by the events of one. A request
 * that is no request (misuse) is not, nor is one that is only to come again. */
static void refuse(struct cay *cay, const struct cay_request *req, const struct run_params *params,
                   const struct cay_error *err)
{
    if (params->is_probe || params->leaves_refusals || err->kind == CAY_E_USAGE ||
        err->kind == CAY_E_BUSY)
        return;
    struct cay_result *result = cay_result_of_error(err, req);
    struct cay_error unrecorded;
    record_without_run(cay, req, params, result, false, &unrecorded);
    if (!params->is_watched && params->options.on_event) {
        struct cay_event started = { 1, 0, CAY_EVENT_STARTED, result->id, strlen(result->id) };
        struct cay_event finished = { .seq = 2, .kind = CAY_EVENT_FINISHED, .result = result };
        finished.time_ns = clock_now_ns() - params->taken_ns;
        params->options.on_event(params->options.arg, &started);
        params->options.on_event(params->options.arg, &finished);
    }
    cay_result_free(result);
}

/* Every run begins here. */
static int plan_and_start(struct cay *cay, const struct cay_request *req,
                          const struct run_params *params, struct run **ret, struct cay_error *err)
{
    struct plan plan;

    if (plan_make(req, &cay->config, &cay->host, &plan, err) == 0 &&
        run_start(cay, req, &plan, params, ret, err) == 0)
        return 0;
    refuse(cay, req, params, err);
    return -1;
}

/* Where one plan follows another. */
static int read_languages(struct cay *cay, struct cay_error *err)
{
    if (cay->host.languages)
        return 0;
    cay->host.path_cache = &cay->path_cache;
    return language_list(&cay->languages, &cay->host.languages, &cay->host.n_languages, err);
}

int cay_start(struct cay *cay, const struct cay_request *req,
              const struct cay_start_options *options, struct cay_running **ret,
              struct cay_error *err)
{
    struct run_params params = {
        .options = CAY_RUN_OPTIONS_INIT,
        .on_done = options->on_done,
        .done_arg = options->arg,
        .taken_ns = options->taken_ns ? options->taken_ns : clock_now_ns(),
        .queue_ns = options->queue_ns,
        .timestamp = options->timestamp,
        .tenant = options->tenant,
        .id = options->id,
        .is_probe = options->is_probe,
        .leaves_refusals = options->leaves_refusals,
        .is_watched = true,
    };
    struct run *run;

    params.options.on_event = options->on_event;
    params.options.arg = options->arg;
    if (loop_open_epoll(cay, err) < 0 || read_languages(cay, err) < 0 ||
        plan_and_start(cay, req, &params, &run, err) < 0)
        return -1;
    *ret = (struct cay_running *)run;
    return 0;
}

static struct run_params params_of(const struct cay_start_options *options)
{
    return (struct run_params){
        .options = CAY_RUN_OPTIONS_INIT,
        .queue_ns = options->queue_ns,
        .timestamp = options->timestamp,
        .tenant = options->tenant,
        .id = options->id,
        .without_code = options->without_code,
    };
}

void cay_record_unstarted(struct cay *cay, const struct cay_request *req,
                          const struct cay_start_options *options, struct cay_result *result)
{
    const struct run_params params = params_of(options);
    struct cay_error err;

    record_without_run(cay, req, &params, result, false, &err);
}

int cay_record_pending(struct cay *cay, const struct cay_request *req,
                       const struct cay_start_options *options, struct cay_result *result,
                       struct cay_error *err)
{
    const struct run_params params = params_of(options);

    return cay->options.journal ? record_without_run(cay, req, &params, result, true, err) : 0;
}

void cay_record_drop_pending(struct cay *cay, const char *id)
{
    if (cay->options.journal)
        journal_drop_pending(cay->options.journal, id);
}

const char *cay_running_id(const struct cay_running *running)
{
    return ((const struct run *)running)->id;
}

void cay_cancel(struct cay_running *running, int signal)
{
    run_cancel((struct run *)running, signal);
}

/* What became of a run that was waited for. */
struct outcome {
    bool is_over;
    struct cay_result *result;
    struct cay_error err;
};

static void on_outcome(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct outcome *outcome = arg;

    outcome->is_over = true;
    outcome->result = result;
    if (err)
        outcome->err = *err;
}

static int run_to_its_end(struct cay *cay, const struct cay_request *req,
                          const struct cay_run_options *options, bool is_probe,
                          struct cay_result **ret, struct cay_error *err)
{
    struct outcome outcome = { 0 };
    struct run_params params = {
        .options = CAY_RUN_OPTIONS_INIT,
        .on_done = on_outcome,
        .done_arg = &outcome,
        .taken_ns = clock_now_ns(),
        .is_probe = is_probe,
    };
    struct run *run;

    if (options)
        params.options = *options;
    if (plan_and_start(cay, req, &params, &run, err) < 0)
        return -1;
    if (run->is_refused)
        run_refuse(run);
    else
        run_follow(run, &outcome.is_over);
    if (!outcome.result) {
        *err = outcome.err;
        return -1;
    }
    *ret = outcome.result;
    return 0;
}

int cay_run(struct cay *cay, const struct cay_request *req, const struct cay_run_options *options,
            struct cay_result **ret, struct cay_error *err)
{
    return run_to_its_end(cay, req, options, false, ret, err);
}

int engine_probe(struct cay *cay, const struct cay_request *req, struct cay_result **ret,
                 struct cay_error *err)
{
    return run_to_its_end(cay, req, NULL, true, ret, err);
}

bool cay_flag(const struct cay *cay, const struct cay_request *req, const char *field)
{
    enum field_id id = field_find(field);

    if (id == FIELD_N || fields[id].kind != FIELD_BOOL)
        return false;
    const struct value *value =
        req->values[id].is_set ? &req->values[id] : &cay->config.settings[id].value;
    return value->is_set && value->num != 0;
}

int cay_request_tighten(const struct cay *cay, struct cay_request *req,
                        const char *const *loosening, struct cay_error *err)
{
    req->is_remote = true;
    return floor_apply(&cay->config, req, loosening, err);
}

int cay_plan_json(struct cay *cay, const struct cay_request *req, char **ret, struct cay_error *err)
{
    struct plan plan;

    if (plan_make(req, &cay->config, &cay->host, &plan, err) < 0)
        return -1;
    *ret = plan_json(&plan);
    plan_done(&plan);
    return 0;
}

int cay_request_check(struct cay *cay, const struct cay_request *req, struct cay_error *err)
{
    struct plan plan;

    if (plan_make(req, &cay->config, &cay->host, &plan, err) < 0)
        return -1;
    plan_done(&plan);
    return 0;
}

int cay_request_limits(struct cay *cay, const struct cay_request *req, struct cay_limits *ret,
                       struct cay_error *err)
{
    return plan_limits(req, &cay->config, &cay->host, ret, err);
}

char *cay_config_json(struct cay *cay)
{
    return config_json(&cay->config);
}

const char *const *cay_config_warnings(const struct cay *cay)
{
    static const char *const none[] = { NULL };
    return cay->config.warnings.list ? cay->config.warnings.list : none;
}

int cay_warden_main(int front_fd, const char *mode)
{
    if (!mode)
        return warden_serve(front_fd, WARDEN_PLAIN);
    /* What is not known is no reason to trust the front more. */
    return warden_serve(front_fd,
                        strcmp(mode, "prewarm") == 0 ? WARDEN_PREWARM : WARDEN_UNPRIVILEGED);
}

/* ---- languages ---- */

static void put_words(struct json_writer *w, const char *key, const char *const *words)
{
    json_field_array(w, key);
    for (; *words; words++)
        json_put_string(w, *words);
    json_end_array(w);
}

static void put_language(struct json_writer *w, struct arena *arena, struct cay *cay,
                         const struct language *language)
{
    const char *program = language_program(arena, language->programs[0]);

    for (const char *const *name = language->programs; *name && program; name++)
        if (!language_program(arena, *name))
            program = NULL; /* a part of it is not there */
    json_begin_object(w);
    json_field_string(w, "name", language->name);
    json_field_string(w, "title", language->title);
    json_field_string(w, "version",
                      program ? version_remembered(&cay->versions, arena, language, program)
                              : NULL);
    put_words(w, "aliases", language->aliases);
    put_words(w, "extensions", language->extensions);
    json_field_string(w, "path", program);
    put_words(w, "packages", language->packages);
    json_field_bool(w, "compiled", language->compile[0] != NULL);
    if (language->memory_bytes)
        json_field_uint(w, "memory", language->memory_bytes);
    else
        json_field_null(w, "memory");
    json_end_object(w);
}

int cay_languages_json(struct cay *cay, char **ret, struct cay_error *err)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out, .pretty = true };
    struct arena arena = { 0 };
    const struct language *list;
    size_t n = 0;

    int rc = language_list(&arena, &list, &n, err);
    if (rc == 0) {
        json_begin_array(&w);
        for (size_t i = 0; i < n; i++)
            put_language(&w, &arena, cay, &list[i]);
        json_end_array(&w);
        *ret = strbuf_take(&out);
    }
    arena_done(&arena);
    return rc;
}
