/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/setup.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cay/record.h>
#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "doors/http/openapi.h"
#include "doors/http/server-state.h"
#include "doors/http/tls.h"
#include "service/admit.h"
#include "service/confine.h"
#include "service/hooks.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/notify.h"
#include "service/token.h"
#include "store/history-client.h"

/* The warden's: a sandbox with its group, backends/native/prewarm/pool-files.h. */
enum { FILES_PER_RUN = 10, WARDEN_FILES_PER_RUN = 32, FILES_SPARE = 256 };

__attribute__((format(printf, 2, 3))) static void progress(const struct server *server,
                                                           const char *fmt, ...)
{
    auto_strbuf struct strbuf line = { 0 };
    va_list args;

    if (!server->options.on_progress)
        return;
    va_start(args, fmt);
    strbuf_vprintf(&line, fmt, args);
    va_end(args);
    server->options.on_progress(server->options.arg, strbuf_str(&line));
}

/* ---- where it can be reached ---- */

/* The names by which we are called: ours, those of the addresses, and what was said. */
static void allow_host(struct server *server, const char *name)
{
    if (server->n_hosts < ARRAY_LEN(server->hosts))
        server->hosts[server->n_hosts++] = name;
}

static int open_tcp(struct server *server, const char *where, struct cay_error *err)
{
    struct listener *listener = &server->listeners[server->n_listeners];

    if (listen_tcp(where, listener, err) < 0)
        return -1;
    server->n_listeners++;
    char *name = server->host_names[server->n_listeners - 1];
    memcpy(name, listener->text, sizeof listener->text);
    *strrchr(name, ':') = '\0';
    allow_host(server, name);
    if (!listener->is_loopback && !server->options.tls_cert)
        progress(server,
                 "warning: tokens and code cross the network unencrypted on %s; --tls-cert and "
                 "--tls-key encrypt them",
                 listener->text);
    return 0;
}

static int open_listeners(struct server *server, struct cay_error *err)
{
    const struct serve_options *options = &server->options;
    char path[LISTEN_TEXT_SIZE];

    allow_host(server, "localhost");
    allow_host(server, "127.0.0.1");
    allow_host(server, "[::1]");
    for (size_t i = 0; i < options->n_allow_hosts; i++)
        allow_host(server, options->allow_hosts[i]);
    for (size_t i = 0; i < options->n_listen; i++)
        if (open_tcp(server, options->listen[i], err) < 0)
            return -1;
    if (options->socket && strcmp(options->socket, "none") == 0)
        return server->n_listeners > 0 ? 0 : cay_fail(err, CAY_E_USAGE, "nothing to listen on");
    if (!options->socket && listen_unix_path(path, sizeof path, err) < 0)
        return -1;
    if (listen_unix(options->socket ? options->socket : path,
                    &server->listeners[server->n_listeners], err) < 0)
        return -1;
    server->n_listeners++;
    return 0;
}

/* ---- who may come ---- */

/* The token itself only when it was just made, and only to a terminal: what is redirected becomes a
 * log that others read. Later the file has it. */
static void show_token(struct server *server, int state_fd, const char *token, bool is_new)
{
    char link[64], folder[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", state_fd);
    ssize_t len = readlink(link, folder, sizeof folder - 1);
    folder[len > 0 ? len : 0] = '\0';
    if (is_new && server->options.shows_token)
        progress(server, "token: %s (shown once; kept in %s/token)", token, folder);
    else
        progress(server, "token: in %s/token", folder);
}

static int open_tokens(struct server *server, struct cay_error *err)
{
    char token[TOKEN_TEXT_SIZE];
    bool has_tcp = server->options.n_listen > 0;

    if (server->options.token_file) {
        if (tokens_load(server->options.token_file, &server->tokens, err) < 0)
            return -1;
        if (tokens_weak(server->tokens) > 0)
            progress(server,
                     "warning: %s: %zu of %zu tokens are short enough to be guessed; use at least "
                     "%d characters",
                     server->options.token_file, tokens_weak(server->tokens),
                     tokens_count(server->tokens), TOKEN_LEN_GOOD);
        return 0;
    }
    auto_close int state_fd = -1;
    if (cay_state_open(&state_fd, err) < 0)
        return -1;
    int made = token_keep(state_fd, "token", token, err);
    if (made < 0)
        return -1;
    server->tokens = tokens_single(token);
    if (has_tcp)
        show_token(server, state_fd, token, made > 0);
    explicit_bzero(token, sizeof token);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void setup_tenants(struct server *server)
{
    size_t n = tokens_count(server->tokens), n_tenants = 0;
    auto_free const char **names = mem_alloc((n + 1) * sizeof *names);

    for (size_t i = 0; i < n; i++)
        names[i] = tokens_tenant_at(server->tokens, i);
    for (size_t i = 0; i < server->n_listeners; i++)
        if (server->listeners[i].is_unix && n == tokens_count(server->tokens))
            names[n++] = TENANT_DEFAULT; /* who comes by it */
    qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++) {
        n_tenants += i == 0 || strcmp(names[i], names[i - 1]) != 0;
        metrics_tenant(server->metrics, names[i]);
    }
    admit_expect(server->admit, n_tenants);
}

static bool has_unix(const struct server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        if (server->listeners[i].is_unix)
            return true;
    return false;
}

void setup_idle_tenants(const struct server *server,
                        void (*tell)(const struct server *server, const char *name,
                                     const char *near))
{
    size_t n = tokens_count(server->tokens);
    auto_free const char **names = mem_alloc((n + 1) * sizeof *names);
    const struct cay_tenant *tenant;

    for (size_t i = 0; i < n; i++)
        names[i] = tokens_tenant_at(server->tokens, i);
    if (has_unix(server))
        names[n++] = TENANT_DEFAULT; /* who comes by it */
    for (size_t i = 0; (tenant = cay_tenant_at(server->cay, i)); i++) {
        bool is_there = false;
        for (size_t k = 0; k < n && !is_there; k++)
            is_there = strcmp(names[k], tenant->name) == 0;
        if (!is_there)
            tell(server, tenant->name, suggest(tenant->name, names, n));
    }
}

static void tell_idle_tenant(const struct server *server, const char *name, const char *near)
{
    progress(server, "warning: [tenant.%s]: no token belongs to this tenant%s%s%s", name,
             near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int open_tls(struct server *server, struct cay_error *err)
{
    if (!server->options.tls_cert)
        return 0;
    auto_close int cert = monitor_file(&server->monitor, MONITOR_CERT, err);
    if (cert < 0)
        return cay_wrap(err, "%.100s", server->options.tls_cert);
    auto_close int key = monitor_file(&server->monitor, MONITOR_KEY, err);
    if (key < 0)
        return cay_wrap(err, "%.100s", server->options.tls_key);
    return tls_open(cert, key, &server->tls, err);
}

/* ---- processes ---- */

static int start_warden(void *arg, struct cay_error *err)
{
    struct server *server = arg;
    return monitor_warden(&server->monitor, err);
}

static int start_checker(void *arg, struct cay_error *err)
{
    struct server *server = arg;
    return monitor_checker(&server->monitor, err);
}

static int start_monitor(struct server *server, struct cay_error *err)
{
    char system_file[4096], user_file[4096];

    cay_config_files(system_file, user_file);
    return monitor_open(
        &(struct monitor_plan){
            .warden = server->options.helper,
            .recorder = server->options.recorder,
            .checker_beside = server->options.helper,
            .files = { [MONITOR_TOKENS] = server->options.token_file,
                       [MONITOR_CERT] = server->options.tls_cert,
                       [MONITOR_KEY] = server->options.tls_key,
                       [MONITOR_SYSTEM_CONFIG] = system_file,
                       [MONITOR_USER_CONFIG] = *user_file ? user_file : NULL },
            .listeners = server->listeners,
            .n_listeners = server->n_listeners,
        },
        &server->monitor, err);
}

static int open_engine(struct server *server, const struct confine_user *user,
                       struct cay_error *err)
{
    if (cay_journal_open(user->uid, &server->journal, err) < 0)
        return -1;
    const struct cay_options options = {
        .helper = server->options.helper,
        .no_project = true,
        .start_warden = start_warden,
        .start_arg = server,
        .journal = server->journal,
        .start_checker = start_checker,
    };
    return cay_open(&options, &server->cay, err);
}

/* ---- settings, and what is made of them ---- */

static void read_settings(struct server *server)
{
    struct cay *cay = server->cay;

    server->settings = (struct serve_settings){
        .max_connections = cay_setting_number(cay, "max_connections"),
        .max_running = cay_setting_number(cay, "max_running"),
        .max_body_bytes = cay_setting_number(cay, "max_body"),
        .max_bodies_bytes = cay_setting_number(cay, "max_bodies"),
        .head_ns = (int64_t)cay_setting_number(cay, "head_timeout"),
        .idle_ns = (int64_t)cay_setting_number(cay, "idle_timeout"),
        .write_ns = (int64_t)cay_setting_number(cay, "write_timeout"),
        .drain_ns = (int64_t)cay_setting_number(cay, "drain"),
        .event_log_bytes = cay_setting_number(cay, "event_log"),
    };
    server->bodies.max_bytes = server->settings.max_bodies_bytes;
    server->max_queue = cay_setting_number(cay, "max_queue");
}

static uint64_t files_wanted(const struct server *server)
{
    return server->settings.max_connections + FILES_SPARE +
           FILES_PER_RUN * server->settings.max_running;
}

/* Where we may open fewer files than that, connections get a quarter: strangers who connect and say
 * nothing must not take from runs what these need. The warden has the same limit, and a quarter for
 * what it makes ahead. */
static void fit_to_files(struct server *server)
{
    struct serve_settings *settings = &server->settings;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    uint64_t quarter = files.rlim_max / 4;
    uint64_t runs =
        (files.rlim_max - quarter - MIN(quarter, (uint64_t)FILES_SPARE)) / WARDEN_FILES_PER_RUN;
    if (files.rlim_max >= files_wanted(server) && runs >= settings->max_running)
        return;
    settings->max_connections = MIN(settings->max_connections, MAX(quarter, UINT64_C(1)));
    settings->max_running = MIN(settings->max_running, MAX(runs, UINT64_C(1)));
    progress(server,
             "warning: the hard limit of %llu open files allows %llu connections and %llu runs at "
             "once; raise it for more (ulimit -Hn, LimitNOFILE=)",
             (unsigned long long)files.rlim_max, (unsigned long long)settings->max_connections,
             (unsigned long long)settings->max_running);
}

static void open_log(struct server *server)
{
    enum log_level level = LOG_INFO;
    enum log_format format = LOG_LOGFMT;
    const char *level_word = cay_setting(server->cay, "log_level");
    const char *format_word = cay_setting(server->cay, "log_format");

    if (level_word)
        log_level_parse(level_word, &level);
    if (format_word)
        log_format_parse(format_word, &format);
    server->log = log_open(STDERR_FILENO, format, level);
}

/* What a stranger may ask for where nobody has said so: of memory what admission counts one run for
 * at most; of the rest, what this process and the state folder can hold for many at once. */
static void cap_requests(struct server *server, const struct admit_host *host, uint64_t reserve)
{
    uint64_t quarter = (host->total_bytes - MIN(host->total_bytes, reserve)) / 4 >> 20 << 20;

    cay_set_max(server->cay, "memory", quarter);
    cay_set_max(server->cay, "swap", quarter);
    cay_set_max(server->cay, "pids", 4096);
    cay_set_max(server->cay, "inodes", 50000); /* each is looked at when files are collected */
    cay_set_max(server->cay, "open_files",
                4096); /* of each process; the kernel's are all tenants' */
    cay_set_max(server->cay, "max_output", 4 << 20);
    cay_set_max(server->cay, "output_cap", UINT64_C(1) << 30);
}

static int by_name(const void *a, const void *b)
{
    const struct cay_tenant *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

/* Both lists are by name. */
void setup_quotas(struct server *server)
{
    size_t n = 0, k = 0;
    struct tenant *tenant;

    while (cay_tenant_at(server->cay, n))
        n++;
    auto_free const struct cay_tenant **quotas = mem_alloc((n + 1) * sizeof *quotas);
    for (size_t i = 0; i < n; i++) {
        quotas[i] = cay_tenant_at(server->cay, i);
        admit_tenant(server->admit, quotas[i]->name);
    }
    qsort(quotas, n, sizeof *quotas, by_name);
    for (size_t i = 0; (tenant = admit_tenant_at(server->admit, i)); i++) {
        while (k < n && strcmp(quotas[k]->name, tenant_name(tenant)) < 0)
            k++; /* there was no room for more tenants */
        bool is_there = k < n && strcmp(quotas[k]->name, tenant_name(tenant)) == 0;
        tenant_set_quota(tenant, is_there ? quotas[k] : NULL);
    }
}

static void open_admission(struct server *server)
{
    struct admit_settings settings = ADMIT_SETTINGS_INIT;
    struct admit_host host;

    settings.max_running = (uint32_t)server->settings.max_running;
    settings.max_queue = (uint32_t)server->max_queue;
    settings.overcommit_milli = (uint32_t)cay_setting_number(server->cay, "memory_overcommit");
    settings.runs_per_core = (uint32_t)cay_setting_number(server->cay, "runs_per_core");
    settings.reserve_bytes = cay_setting_number(server->cay, "memory_reserve");
    server->host_files = admit_files_open("/");
    admit_host_read(server->host_files, &host);
    cap_requests(server, &host, settings.reserve_bytes);
    server->admit = admit_new(&settings, &host);
    setup_quotas(server);
}

/* Asked for now: a version that is not known yet is asked of the program itself. */
static int read_languages(struct server *server, struct cay_error *err)
{
    const char *names[METRICS_LANGUAGES_MAX];
    size_t n = 0, i;
    json_t *row;

    if (cay_languages_json(server->cay, &server->languages, err) < 0)
        return -1;
    server->languages_len = strlen(server->languages);
    json_t *list = json_loads(server->languages, 0, NULL);
    json_array_foreach (list, i, row)
        if (n < ARRAY_LEN(names))
            names[n++] = json_string_value(json_object_get(row, "name"));
    server->metrics = metrics_new(names, n, clock_now_ns());
    json_decref(list);
    return 0;
}

static int open_base(struct server *server, struct cay_error *err)
{
    struct event_config *config = event_config_new();

    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    server->base = event_base_new_with_config(config);
    event_config_free(config);
    server->scratch = mem_alloc(SCRATCH_BYTES);
    server->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    return server->base ? 0 : cay_fail(err, CAY_E_SYSTEM, "make an event loop");
}

/* Of an address that stands for all of them no client makes anything. */
static bool is_any(const struct listener *listener)
{
    return strncmp(listener->text, "0.0.0.0:", 8) == 0 || strncmp(listener->text, "[::]:", 5) == 0;
}

static void make_openapi(struct server *server)
{
    char urls[SERVE_LISTEN_MAX][LISTEN_TEXT_SIZE + sizeof "https://"];
    const char *list[SERVE_LISTEN_MAX];
    struct openapi_facts facts = { .cay = server->cay, .urls = list };

    for (size_t i = 0; i < server->n_listeners; i++) {
        const struct listener *listener = &server->listeners[i];
        if (listener->is_unix || is_any(listener))
            continue;
        snprintf(urls[facts.n_urls], sizeof urls[0], "%s://%s", server->tls ? "https" : "http",
                 listener->text);
        list[facts.n_urls] = urls[facts.n_urls];
        facts.n_urls++;
    }
    server->openapi = openapi_json(&facts);
    server->openapi_len = strlen(server->openapi);
}

int setup_all(struct server *server, struct cay_error *err)
{
    struct confine_user user;

    /* Large blocks are mapped, always: what is freed of them is gone at once. */
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    server->monitor.fd = server->notify_fd = server->statm_fd = -1;
    server->owner = geteuid();
    confine_find_user(&user);
    server->notify_fd = notify_open();
    if (open_listeners(server, err) < 0 || start_monitor(server, err) < 0 ||
        open_tls(server, err) < 0 || open_engine(server, &user, err) < 0 ||
        cay_require(server->cay, server->options.require, err) < 0)
        return -1;
    read_settings(server);
    fit_to_files(server);
    open_log(server);
    open_admission(server);
    if (hooks_setup(server, err) < 0 || open_tokens(server, err) < 0 ||
        read_languages(server, err) < 0 ||
        history_client_open(server->options.recorder, &server->history, err) < 0 ||
        open_base(server, err) < 0 || hooks_open(server, err) < 0)
        return -1;
    setup_tenants(server);
    setup_idle_tenants(server, tell_idle_tenant);
    make_openapi(server);
    /* The state folder is that of who started it, whoever we are from here on. */
    if (user.is_changed)
        setenv("XDG_STATE_HOME", "/var/lib", 1);
    if (cay_fd(server->cay) < 0)
        return cay_fail(err, CAY_E_SYSTEM, "the engine has no fd to wait for");
    struct cay_error no_landlock = { .kind = CAY_E_OK };
    if (confine(&user, server->cay, files_wanted(server), &no_landlock, err) < 0)
        return -1;
    if (no_landlock.kind != CAY_E_OK)
        progress(server, "warning: the server is not held to its own files: %s", no_landlock.msg);
    return 0;
}

void setup_undo(struct server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        close_fd(&server->listeners[i].fd);
    hooks_close(server);                /* again, where there never was a loop */
    cay_journal_close(server->journal); /* first: so it is taken in to its end */
    history_client_close(server->history);
    monitor_close(&server->monitor);
    tokens_free(server->tokens);
    if (server->admit)
        admit_free(server->admit);
    admit_files_close(server->host_files);
    if (server->metrics)
        metrics_free(server->metrics);
    log_close(server->log);
    tls_close(server->tls);
    free(server->languages);
    free(server->openapi);
    free(server->scratch);
    close_fd(&server->statm_fd);
    close_fd(&server->notify_fd);
}
