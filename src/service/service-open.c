/* SPDX-License-Identifier: Apache-2.0 */
/* What the service opens, reads and starts before its loop, with the rights it was given. */
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cay/record.h>
#include <cay/run.h>
#include <cay/settings.h>
#include <cay/setup.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "service/admit.h"
#include "service/confine.h"
#include "service/hooks.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/notify.h"
#include "service/service-state.h"
#include "service/token.h"
#include "store/history-client.h"

/* The warden's: a sandbox with its group (backends/native/prewarm/pool-files.h). */
enum { FILES_PER_RUN = 10, WARDEN_FILES_PER_RUN = 32, FILES_RESERVE = 256 };

/* ---- processes ---- */

static int start_warden(void *arg, struct cay_error *err)
{
    struct service *service = arg;
    return monitor_warden(&service->monitor, err);
}

static int start_checker(void *arg, struct cay_error *err)
{
    struct service *service = arg;
    return monitor_checker(&service->monitor, err);
}

static int start_monitor(struct service *service, struct cay_error *err)
{
    char system_file[4096], user_file[4096];

    cay_config_files(system_file, user_file);
    return monitor_open(
        &(struct monitor_plan){
            .warden = service->options.helper,
            .recorder = service->options.recorder,
            .checker_beside = service->options.helper,
            .files = { [MONITOR_TOKENS] = service->options.token_file,
                       [MONITOR_CERT] = service->options.tls_cert,
                       [MONITOR_KEY] = service->options.tls_key,
                       [MONITOR_SYSTEM_CONFIG] = system_file,
                       [MONITOR_USER_CONFIG] = *user_file ? user_file : NULL },
            .on_end = service->options.doors.remove_files,
            .arg = service->options.doors.arg,
        },
        &service->monitor, err);
}

static int open_engine(struct service *service, const struct confine_user *user,
                       struct cay_error *err)
{
    if (cay_journal_open(user->uid, &service->journal, err) < 0)
        return -1;
    const struct cay_options options = {
        .helper = service->options.helper,
        .no_project = true,
        .start_warden = start_warden,
        .start_arg = service,
        .journal = service->journal,
        .start_checker = start_checker,
    };
    return cay_open(&options, &service->cay, err);
}

/* ---- settings, and what is made of them ---- */

static void read_settings(struct service *service)
{
    struct cay *cay = service->cay;

    service->settings = (struct service_settings){
        .max_connections = cay_setting_number(cay, "max_connections"),
        .max_running = cay_setting_number(cay, "max_running"),
        .max_queue = cay_setting_number(cay, "max_queue"),
        .max_body_bytes = cay_setting_number(cay, "max_body"),
        .max_bodies_bytes = cay_setting_number(cay, "max_bodies"),
        .head_ns = (int64_t)cay_setting_number(cay, "head_timeout"),
        .idle_ns = (int64_t)cay_setting_number(cay, "idle_timeout"),
        .write_ns = (int64_t)cay_setting_number(cay, "write_timeout"),
        .drain_ns = (int64_t)cay_setting_number(cay, "drain"),
        .event_log_bytes = cay_setting_number(cay, "event_log"),
    };
    service->bodies.max_bytes = service->settings.max_bodies_bytes;
}

static uint64_t files_wanted(const struct service *service)
{
    return service->settings.max_connections + FILES_RESERVE +
           FILES_PER_RUN * service->settings.max_running;
}

/* Where we may open fewer files than that, connections get a quarter: strangers who connect and say
 * nothing must not take from runs what these need. The warden has the same limit, and a quarter for
 * what it makes ahead. */
static void fit_to_files(struct service *service)
{
    struct service_settings *settings = &service->settings;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    uint64_t quarter = files.rlim_max / 4;
    uint64_t runs =
        (files.rlim_max - quarter - MIN(quarter, (uint64_t)FILES_RESERVE)) / WARDEN_FILES_PER_RUN;
    if (files.rlim_max >= files_wanted(service) && runs >= settings->max_running)
        return;
    settings->max_connections = MIN(settings->max_connections, MAX(quarter, UINT64_C(1)));
    settings->max_running = MIN(settings->max_running, MAX(runs, UINT64_C(1)));
    service_progress(service,
                     "warning: the hard limit of %llu open files allows %llu connections and %llu "
                     "runs at once; raise it for more (ulimit -Hn, LimitNOFILE=)",
                     (unsigned long long)files.rlim_max,
                     (unsigned long long)settings->max_connections,
                     (unsigned long long)settings->max_running);
}

static void open_log(struct service *service)
{
    enum log_level level = LOG_INFO;
    enum log_format format = LOG_LOGFMT;
    const char *level_word = cay_setting(service->cay, "log_level");
    const char *format_word = cay_setting(service->cay, "log_format");

    if (level_word)
        log_level_parse(level_word, &level);
    if (format_word)
        log_format_parse(format_word, &format);
    service->log = log_open(STDERR_FILENO, format, level);
}

/* What a stranger may ask for where nobody has said so: of memory what admission counts one run for
 * at most; of the rest, what this process and the state folder can hold for many at once. */
static void cap_requests(struct service *service, const struct admit_host *host, uint64_t reserve)
{
    uint64_t quarter = (host->total_bytes - MIN(host->total_bytes, reserve)) / 4 >> 20 << 20;

    cay_set_max(service->cay, "memory", quarter);
    cay_set_max(service->cay, "swap", quarter);
    cay_set_max(service->cay, "pids", 4096);
    cay_set_max(service->cay, "inodes", 50000); /* each is looked at when files are collected */
    cay_set_max(service->cay, "open_files",
                4096); /* of each process; the kernel's are all tenants' */
    cay_set_max(service->cay, "max_output", 4 << 20);
    cay_set_max(service->cay, "output_cap", UINT64_C(1) << 30);
}

static void open_admission(struct service *service)
{
    struct admit_settings settings = ADMIT_SETTINGS_INIT;
    struct admit_host host;

    settings.max_running = (uint32_t)service->settings.max_running;
    settings.max_queue = (uint32_t)service->settings.max_queue;
    settings.overcommit_milli = (uint32_t)cay_setting_number(service->cay, "memory_overcommit");
    settings.runs_per_core = (uint32_t)cay_setting_number(service->cay, "runs_per_core");
    settings.reserve_bytes = cay_setting_number(service->cay, "memory_reserve");
    service->host_files = admit_files_open("/");
    admit_host_read(service->host_files, &host);
    cap_requests(service, &host, settings.reserve_bytes);
    service->admit = admit_new(&settings, &host);
    service_load_quotas(service);
}

/* Asked for now: a version that is not known yet is asked of the program itself. */
static int read_languages(struct service *service, struct cay_error *err)
{
    const char *names[METRICS_LANGUAGES_MAX];
    size_t n = 0, i;
    json_t *row;

    if (cay_languages_json(service->cay, &service->languages, err) < 0)
        return -1;
    service->languages_len = strlen(service->languages);
    json_t *list = json_loads(service->languages, 0, NULL);
    json_array_foreach (list, i, row)
        if (n < ARRAY_LEN(names))
            names[n++] = json_string_value(json_object_get(row, "name"));
    service->metrics = metrics_new(names, n, clock_now_ns());
    json_decref(list);
    return 0;
}

static int open_base(struct service *service, struct cay_error *err)
{
    struct event_config *config = event_config_new();

    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    service->base = event_base_new_with_config(config);
    event_config_free(config);
    service->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    return service->base ? 0 : cay_fail(err, CAY_E_SYSTEM, "make an event loop");
}

int service_open_all(struct service *service, struct cay_error *err)
{
    struct confine_user *user = &service->user;

    /* Large blocks are mapped, always: what is freed of them is gone at once. */
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    service->monitor.fd = service->notify_fd = service->statm_fd = -1;
    confine_find_user(user);
    service->notify_fd = notify_open();
    cay_setup_command(service->setup_command, sizeof service->setup_command);
    if (start_monitor(service, err) < 0 || open_engine(service, user, err) < 0 ||
        cay_require(service->cay, service->options.require, err) < 0)
        return -1;
    read_settings(service);
    fit_to_files(service);
    open_log(service);
    open_admission(service);
    if (hooks_setup(service, err) < 0 || service_open_tokens(service, err) < 0 ||
        read_languages(service, err) < 0 ||
        history_client_open(service->options.recorder, &service->history, err) < 0 ||
        open_base(service, err) < 0 || hooks_open(service, err) < 0)
        return -1;
    service_count_tenants(service);
    service_idle_tenants(service, service_warn_idle_tenant);
    return 0;
}

int service_confine(struct service *service, struct cay_error *err)
{
    struct cay_error no_landlock = { .kind = CAY_E_OK };

    /* The state folder is that of who started it, whoever we are from here on. */
    if (service->user.is_changed)
        setenv("XDG_STATE_HOME", "/var/lib", 1);
    if (cay_fd(service->cay) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "the engine has no fd to wait for");
    if (confine(&service->user, service->cay, files_wanted(service), &no_landlock, err) < 0)
        return -1;
    if (no_landlock.kind != CAY_E_OK)
        service_progress(service, "warning: the server is not held to its own files: %s",
                         no_landlock.msg);
    return 0;
}

void service_close_all(struct service *service)
{
    hooks_close(service);                /* again, where there never was a loop */
    cay_journal_close(service->journal); /* first: so it is taken in to its end */
    history_client_close(service->history);
    monitor_close(&service->monitor);
    tokens_free(service->tokens);
    if (service->admit)
        admit_free(service->admit);
    admit_files_close(service->host_files);
    if (service->metrics)
        metrics_free(service->metrics);
    log_close(service->log);
    free(service->languages);
    close_fd(&service->statm_fd);
    close_fd(&service->notify_fd);
}
