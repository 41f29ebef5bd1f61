/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/json-get.h"
#include "cli/pretty.h"
#include "cli/print.h"
#include "cli/run-view.h"
#include "net/http-client.h"
#include "net/resolver.h"
#include "net/tls-client.h"
#include "net/url.h"

/* An event is a line; the last one holds the result, with two streams of max_output each. */
enum { LINE_BYTES_MAX = 256 << 20, ANSWER_BYTES_MAX = 64 << 10, TOKEN_BYTES_MAX = 4096 };

/* The server says something every 15 s, if only that it is there. */
#define SILENCE_NS (60 * NS_PER_SEC)

/* How often a connection that is lost, or can't be made again, is made anew; the pause before is
 * twice as long each time: 6 s in all. Whatever comes begins the count anew. */
enum { TRIES = 6, PAUSE_MS = 100 };

struct remote;

/* One request and its answer. */
struct call {
    struct remote *remote;
    struct http_call *http;
    int status;   /* 0: there was no answer */
    bool follows; /* its body are events */
    bool is_over;
    bool has_failed;
    struct cay_error err;
    struct strbuf body;
};

struct remote {
    struct run_view *view;
    struct event_base *base;
    struct tls_client *tls;
    struct url url;
    const char *unix_path; /* NULL: by the URL's host */
    struct resolver_answer addresses;
    size_t address; /* the one that answered last */
    bool is_resolved;
    char *token;
    char id[33];
    uint64_t seq; /* of the last event that came */
    struct strbuf line;
    int signal;
    bool is_cancelled, is_deleted;
    struct call deletion;
    bool has_ended; /* the last event has come */
    json_t *result; /* of it */
};

/* ---- what is asked for ---- */

int remote_check(const struct run_view *view, struct cay_error *err)
{
    const struct run_args *args = view->args;
    const struct {
        bool is_given;
        const char *name;
    } rows[] = {
        { args->plan, "plan" }, { args->repeat > 0, "repeat" },   { args->is_watched, "watch" },
        { args->diff, "diff" }, { args->no_server, "no-server" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].is_given)
            return cay_fail(err, CAY_E_USAGE, "--%s and --server are mutually exclusive",
                            rows[i].name);
    const struct cay_field *field;
    for (size_t i = 0; (field = cay_field_at(i)); i++) {
        bool is_here = field->is_local || strcmp(field->name, "tty") == 0 ||
                       strcmp(field->name, "session") == 0;
        if (!is_here || !cay_request_has(args->req, field->name))
            continue;
        cay_fail(err, CAY_E_USAGE, "%s: not available with --server", field->name);
        return field->is_local ? cay_hint(err, "the server sees no folder of this machine; "
                                               "--file sends single files")
                               : -1;
    }
    return 0;
}

/* Its first word: a server's own file of tokens will do. */
static int read_token(const char *path, char **ret, struct cay_error *err)
{
    auto_free char *text = NULL;
    size_t len;

    if (read_input(path, TOKEN_BYTES_MAX, &text, &len, err) < 0)
        return cay_wrap(err, "--token-file");
    auto_free char *copy = mem_dup(text, len); /* with a NUL behind it */
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        line += strspn(line, " \t\r");
        line[strcspn(line, " \t\r")] = '\0';
        if (*line && *line != '#') {
            *ret = str_dup(line);
            return 0;
        }
    }
    return cay_fail(err, CAY_E_USAGE, "--token-file: %s: holds no token", path);
}

static int take_token(struct remote *remote, const char *path, struct cay_error *err)
{
    const char *word = getenv("CAY_TOKEN");

    if (path)
        return read_token(path, &remote->token, err);
    if (word && *word)
        remote->token = str_dup(word);
    return 0;
}

static bool is_this_machine(const char *host)
{
    struct in_addr address;

    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

static int take_server(struct remote *remote, const struct run_args *args, struct cay_error *err)
{
    const char *name = args->server, *why;

    if (strncmp(name, "unix:", 5) == 0)
        name += strncmp(name, "unix://", 7) == 0 ? 7 : 5;
    if (*name == '/') {
        remote->unix_path = name;
        snprintf(remote->url.authority, sizeof remote->url.authority, "localhost");
        return 0;
    }
    if (url_parse(name, &remote->url, &why) < 0) {
        cay_fail(err, CAY_E_USAGE, "--server: '%.200s' is not a server's address: %s", name, why);
        return cay_hint(err, "http://HOST:PORT, https://HOST:PORT or /PATH/OF/SOCKET");
    }
    if (strchr(remote->url.target, '?'))
        return cay_fail(err, CAY_E_USAGE, "--server: '%.200s' has a query", name);
    if (remote->token && !remote->url.is_tls && !is_this_machine(remote->url.host) && !args->quiet)
        print_message(
            "warning: the token and the code go to %s unencrypted; https:// would protect them",
            remote->url.host);
    return remote->url.is_tls ? tls_client_open(args->ca_file, &remote->tls, err) : 0;
}

/* ---- one call ---- */

static void take_event(struct remote *remote, const char *line, size_t len);

static void take_line(struct remote *remote)
{
    static const char lead[] = "data: ";
    const struct strbuf *line = &remote->line;

    if (line->len >= sizeof lead && strncmp(strbuf_str(line), lead, sizeof lead - 1) == 0)
        take_event(remote, strbuf_str(line) + sizeof lead - 1, line->len - (sizeof lead - 1));
    remote->line.len = 0;
}

static void on_head(void *arg, const struct http_head *head)
{
    struct call *call = arg;
    call->status = head->status;
}

static void on_body(void *arg, const void *data, size_t len)
{
    struct call *call = arg;
    struct remote *remote = call->remote;
    const char *pos = data, *end = pos + len;

    if (!call->follows || call->status != 200) {
        strbuf_add(&call->body, data, MIN(len, ANSWER_BYTES_MAX - call->body.len));
        return;
    }
    while (pos < end) {
        const char *newline = memchr(pos, '\n', (size_t)(end - pos));
        size_t piece = (size_t)((newline ? newline : end) - pos);
        if (piece > LINE_BYTES_MAX - remote->line.len)
            piece = LINE_BYTES_MAX - remote->line.len; /* no event is as long: it is no JSON then */
        strbuf_add(&remote->line, pos, piece);
        if (!newline)
            return;
        take_line(remote);
        pos = newline + 1;
    }
}

static void on_end(void *arg, const struct cay_error *err)
{
    struct call *call = arg;

    call->is_over = true;
    call->has_failed = err != NULL;
    if (err)
        call->err = *err;
}

static void put_request(const struct remote *remote, struct strbuf *out, const char *method,
                        const char *path, const char *body, bool follows, struct cay_error *err,
                        int *ret)
{
    struct http_writer head;
    auto_strbuf struct strbuf target = { 0 };
    size_t base = strlen(remote->url.target);

    while (base > 0 && remote->url.target[base - 1] == '/')
        base--;
    strbuf_add(&target, remote->url.target, base);
    strbuf_puts(&target, path);
    http_write_request(&head, out, method, strbuf_str(&target), remote->url.authority);
    if (remote->token)
        http_write_headerf(&head, "Authorization", "Bearer %s", remote->token);
    http_write_header(&head, "Accept", follows ? "text/event-stream" : "application/json");
    if (follows && remote->seq > 0)
        http_write_headerf(&head, "Last-Event-ID", "%llu", (unsigned long long)remote->seq);
    http_write_header(&head, "Connection", "close");
    if (body)
        http_write_header(&head, "Content-Type", "application/json");
    if (body)
        http_write_length(&head, strlen(body));
    *ret = http_write_end(&head);
    if (*ret < 0)
        cay_fail(err, CAY_E_USAGE,
                 "the token holds characters that are not allowed in an HTTP header");
    else if (body)
        strbuf_puts(out, body);
}

static int call_start(struct remote *remote, struct call *call, const char *method,
                      const char *path, const char *body, struct cay_error *err)
{
    static const struct http_limits limits = {
        .head_bytes = 16384,
        .target_bytes = 8192,
        .headers = 100,
        .body_bytes = INT64_MAX, /* of a stream there is no end */
    };
    auto_strbuf struct strbuf out = { 0 };
    struct sockaddr_un path_address;
    int rc;

    put_request(remote, &out, method, path, body, call->follows, err, &rc);
    if (rc < 0)
        return -1;
    struct http_call_options options = {
        .base = remote->base,
        .tls = remote->tls,
        .tls_host = remote->url.host,
        .request = strbuf_str(&out),
        .request_len = out.len,
        .limits = &limits,
        .idle_ns = SILENCE_NS,
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
        .arg = call,
    };
    if (remote->unix_path) {
        if (unix_address(remote->unix_path, &path_address) < 0)
            return cay_fail(err, CAY_E_USAGE, "--server: the socket's path is too long");
        options.address = (struct sockaddr *)&path_address;
        options.address_len = sizeof path_address;
    } else {
        options.address = (struct sockaddr *)&remote->addresses.addresses[remote->address];
        options.address_len = remote->addresses.lens[remote->address];
    }
    call->remote = remote;
    call->is_over = call->has_failed = false;
    call->status = 0;
    call->body.len = 0;
    return http_call_start(&options, &call->http, err);
}

static void call_done(struct call *call)
{
    strbuf_done(&call->body);
}

/* Nobody was there, so nobody has taken the request. */
static bool was_nobody_there(const struct call *call)
{
    int errnum = call->err.errnum;

    return call->has_failed && call->status == 0 &&
           (errnum == ECONNREFUSED || errnum == EHOSTUNREACH || errnum == ENETUNREACH ||
            errnum == ENOENT);
}

/* To its end, whatever that is; each of the host's addresses has its turn. */
static int perform(struct remote *remote, struct call *call, const char *method, const char *path,
                   const char *body, struct cay_error *err)
{
    size_t n = remote->unix_path ? 1 : remote->addresses.n;

    for (size_t tries = 0; tries < n; tries++) {
        remote->line.len = 0;
        if (call_start(remote, call, method, path, body, &call->err) < 0)
            call->is_over = call->has_failed = true;
        while (!call->is_over)
            event_base_loop(remote->base, EVLOOP_ONCE);
        if (!was_nobody_there(call))
            break;
        remote->address = (remote->address + 1) % n;
    }
    if (call->has_failed && call->status == 0) {
        *err = call->err;
        return -1;
    }
    return 0;
}

static void on_addresses(void *arg, const struct resolver_answer *answer)
{
    struct remote *remote = arg;

    remote->addresses = *answer;
    remote->is_resolved = true;
}

static int resolve(struct remote *remote, struct cay_error *err)
{
    if (remote->unix_path)
        return 0;
    struct resolver *resolver = resolver_new(remote->base);
    if (!resolver)
        return cay_fail(err, CAY_E_SYSTEM, "names cannot be resolved");
    struct resolver_query *query =
        resolver_ask(resolver, remote->url.host, remote->url.port, on_addresses, remote);
    while (!remote->is_resolved && !remote->is_cancelled)
        event_base_loop(remote->base, EVLOOP_ONCE);
    if (!remote->is_resolved)
        resolver_cancel(query);
    resolver_free(resolver);
    if (remote->addresses.n == 0)
        return cay_fail(err, CAY_E_SYSTEM, "--server: %s: %s", remote->url.host,
                        remote->is_resolved ? remote->addresses.why : "cancelled");
    return 0;
}

/* ---- what it answers ---- */

static enum cay_errkind kind_of(const char *name, int status)
{
    for (enum cay_errkind kind = CAY_E_OK; name && kind <= CAY_E_BUSY; kind++)
        if (strcmp(cay_error_kind_name(kind), name) == 0)
            return kind;
    return status < 500 ? CAY_E_UNSUPPORTED : CAY_E_SYSTEM;
}

/* Its own words, where it has some. Returns -1. */
static int fail_answer(const struct call *call, struct cay_error *err)
{
    json_t *root = json_loadb(strbuf_str(&call->body), call->body.len, 0, NULL);
    json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *hint = json_string_value(json_object_get(error, "hint"));
    const char *kind = json_string_value(json_object_get(error, "kind"));

    cay_fail(err, kind_of(kind, call->status), "the server answered %d: %.300s", call->status,
             message ? message : "is it cay?");
    if (call->status == 401)
        cay_hint(err, "--token-file FILE, or the variable CAY_TOKEN, gives the server's token");
    else if (hint && *hint)
        cay_hint(err, "%.90s", hint);
    json_decref(root);
    return -1;
}

static int begin(struct remote *remote, const char *request, struct cay_error *err)
{
    struct call call = { 0 };
    int rc = perform(remote, &call, "POST", "/v1/execute", request, err);

    if (rc < 0 && was_nobody_there(&call))
        cay_hint(err, "is `cay serve` running there?");
    json_t *root = rc == 0 ? json_loadb(strbuf_str(&call.body), call.body.len, 0, NULL) : NULL;
    const char *id = json_string_value(json_object_get(root, "id"));
    if (rc == 0 && call.status != 202)
        rc = fail_answer(&call, err);
    else if (rc == 0 && (!id || strlen(id) != 32 || id[strspn(id, "0123456789abcdef")]))
        rc = cay_fail(err, CAY_E_UNSUPPORTED, "the server answered without an id: is it cay?");
    else if (rc == 0)
        snprintf(remote->id, sizeof remote->id, "%s", id);
    json_decref(root);
    call_done(&call);
    return rc;
}

/* ---- events ---- */

static void show_output(struct remote *remote, enum cay_event_kind kind, json_t *event)
{
    json_t *text = json_object_get(event, "data");
    const char *encoded = json_string_value(json_object_get(event, "base64"));
    auto_strbuf struct strbuf bytes = { 0 };
    struct cay_event shown = {
        .kind = kind,
        .data = json_string_value(text),
        .len = json_string_length(text),
    };

    if (encoded && base64_decode(&bytes, encoded, strlen(encoded)) == 0) {
        shown.data = strbuf_str(&bytes);
        shown.len = bytes.len;
    }
    if (shown.data)
        run_view_on_event(remote->view, &shown);
}

static void take_event(struct remote *remote, const char *line, size_t len)
{
    static const struct {
        const char *name;
        enum cay_event_kind kind;
    } rows[] = {
        { "stage", CAY_EVENT_STAGE },       { "stdout", CAY_EVENT_STDOUT },
        { "stderr", CAY_EVENT_STDERR },     { "warning", CAY_EVENT_WARNING },
        { "finished", CAY_EVENT_FINISHED },
    };
    struct run_view *view = remote->view;
    json_t *event = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    const char *name = json_string_value(json_object_get(event, "event"));
    json_int_t seq = json_integer_value(json_object_get(event, "seq"));
    enum cay_event_kind kind = CAY_EVENT_STARTED;

    for (size_t i = 0; name && i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            kind = rows[i].kind;
    if (name && seq > 0 && (uint64_t)seq > remote->seq && !remote->has_ended) {
        remote->seq = (uint64_t)seq;
        if (view->args->events)
            run_view_put_json(view, line);
        else if (kind != CAY_EVENT_STARTED && kind != CAY_EVENT_FINISHED)
            show_output(remote, kind, event);
        if (json_object_get(event, "gap") && !view->args->events)
            print_message("warning: a part of the output is missing: %s",
                          json_string_value(json_object_get(event, "data")));
        if (kind == CAY_EVENT_FINISHED) {
            view->is_finished = true;
            remote->has_ended = true;
            remote->result = json_incref(json_object_get(event, "result"));
        }
    }
    json_decref(event);
}

static void wait_ms(struct remote *remote, int ms)
{
    struct timeval wait = { ms / 1000, ms % 1000 * 1000 };

    event_base_loopexit(remote->base, &wait);
    event_base_dispatch(remote->base);
}

/* Follows the run to its end, over as many connections as that takes. */
static int follow(struct remote *remote, struct cay_error *err)
{
    char path[80];
    int tries = 0;

    snprintf(path, sizeof path, "/v1/executions/%s/events", remote->id);
    while (!remote->has_ended) {
        struct call call = { .follows = true };
        uint64_t before = remote->seq;
        int rc = perform(remote, &call, "GET", path, NULL, err);
        bool is_refused = rc == 0 && call.status != 200 && call.status < 500;
        if (is_refused && !remote->has_ended)
            fail_answer(&call, err);
        call_done(&call);
        tries = remote->seq > before ? 0 : tries + 1;
        if (remote->has_ended)
            break;
        if (is_refused)
            return -1;
        if (tries > TRIES) {
            if (rc == 0)
                cay_fail(err, CAY_E_SYSTEM,
                         "the server keeps ending its answers before the run ends");
            cay_wrap(err, "the connection to the server was lost");
            return cay_hint(err, "the run may still be going on there: %s", remote->id);
        }
        wait_ms(remote, PAUSE_MS << MAX(tries - 1, 0));
    }
    return 0;
}

/* ---- cancelling ---- */

static void cancel_there(struct remote *remote)
{
    char path[64];

    if (!remote->is_cancelled || remote->is_deleted || !remote->id[0])
        return;
    remote->is_deleted = true;
    snprintf(path, sizeof path, "/v1/executions/%s", remote->id);
    if (call_start(remote, &remote->deletion, "DELETE", path, NULL, &remote->deletion.err) < 0)
        remote->deletion.is_over = true;
}

static void on_cancel(evutil_socket_t fd, short what, void *arg)
{
    struct remote *remote = arg;
    unsigned char byte;

    (void)what;
    while (read(fd, &byte, 1) == 1)
        if (!remote->is_cancelled)
            remote->signal = byte;
    remote->is_cancelled = true;
    cancel_there(remote);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct remote *remote = arg;

    (void)fd, (void)what;
    run_view_on_tick(remote->view);
}

/* ---- the end ---- */

static enum cay_cause cause_of(const char *name)
{
    for (enum cay_cause cause = CAY_CAUSE_OK; name && cause < CAY_CAUSE_INFRASTRUCTURE; cause++)
        if (strcmp(cay_cause_name(cause), name) == 0)
            return cause;
    return CAY_CAUSE_INFRASTRUCTURE;
}

/* What our own words are made of, as of a run of our own. */
static void print_end(struct remote *remote)
{
    json_t *json = remote->result, *verdict = json_object_get(json, "verdict");
    json_t *meta = json_object_get(json, "meta"), *error = json_object_get(json, "error");
    json_t *usage = json_object_get(meta, "usage"), *list = json_object_get(meta, "warnings");
    size_t n = json_array_size(list), n_files = 0, i;
    auto_free const char **warnings = mem_alloc((n + 1) * sizeof *warnings);
    json_t *item;

    json_array_foreach (list, i, item)
        warnings[i] = json_string_value(item) ? json_string_value(item) : "";
    const struct cay_failure failure = {
        .type = text_of(error, "type"),
        .file = text_of(error, "file"),
        .line = (unsigned)json_integer_value(json_object_get(error, "line")),
        .suggestion = text_of(error, "suggestion"),
    };
    const char *message = text_of(json, "error_message");
    const struct cay_result result = {
        .success = json_is_true(json_object_get(json, "success")),
        .signal = (int)json_integer_value(json_object_get(json, "signal")),
        .error_message = message ? message : "the server stopped answering",
        .verdict = { .cause = cause_of(text_of(verdict, "cause")),
                     .limit_name = text_of(verdict, "limit_name"),
                     .remedy = text_of(verdict, "remedy") },
        .out.total = (uint64_t)json_integer_value(json_object_get(usage, "stdout_bytes")),
        .err.total = (uint64_t)json_integer_value(json_object_get(usage, "stderr_bytes")),
        .failure = failure.type && failure.file ? &failure : NULL,
        .warnings = warnings,
    };
    run_view_print_result(remote->view, &result);
    json_array_foreach (json_object_get(json, "files"), i, item)
        n_files += json_object_get(item, "base64") != NULL;
    if (n_files > 0 && !remote->view->args->quiet)
        print_message("collected %zu file%s: they are in the result that --json prints", n_files,
                      n_files == 1 ? "" : "s");
}

static void put_result(struct remote *remote)
{
    char *json = json_dumps(remote->result, JSON_COMPACT | JSON_REAL_PRECISION(15));

    if (json)
        run_view_put_json(remote->view, json);
    free(json);
}

static void put_held_back(struct remote *remote)
{
    auto_strbuf struct strbuf out = { 0 };
    json_t *text = json_object_get(remote->result, "stdout");
    const char *data = json_string_value(text);
    size_t len = json_string_length(text);

    if (data && pretty_text(NULL, &out, data, len))
        run_view_put_output(remote->view, STDOUT_FILENO, out.data, out.len);
    else if (data)
        run_view_put_output(remote->view, STDOUT_FILENO, data, len);
}

static int show_end(struct remote *remote)
{
    struct run_view *view = remote->view;
    const char *cause = text_of(json_object_get(remote->result, "verdict"), "cause");
    bool is_cancelled = cause && strcmp(cause, "cancelled") == 0;

    progress_clear(view->progress);
    if (run_view_holds_back(view) && !view->args->json && !view->args->events)
        put_held_back(remote);
    run_view_flush(view);
    if (view->args->json)
        put_result(remote);
    else if (!view->args->events)
        print_end(remote);
    if (view->write_errno != 0) {
        print_message("cannot write to %s: %s",
                      view->is_broken[STDOUT_FILENO] ? "stdout" : "stderr",
                      strerror(view->write_errno));
        return 125;
    }
    /* A server is asked to end it, but does not learn by which signal. */
    if (is_cancelled && remote->signal == SIGINT)
        return 128 + SIGINT;
    return (int)json_integer_value(json_object_get(remote->result, "exit_code"));
}

static void remote_done(struct remote *remote)
{
    call_done(&remote->deletion);
    strbuf_done(&remote->line);
    json_decref(remote->result);
    free(remote->token);
    tls_client_close(remote->tls);
    if (remote->base)
        event_base_free(remote->base);
}

static int run_there(struct remote *remote, struct cay_error *err)
{
    struct run_view *view = remote->view;
    auto_free char *request = NULL;

    if (cay_request_set(view->args->req, "detach", "true", err) < 0 ||
        cay_request_json(view->args->req, &request, err) < 0 || resolve(remote, err) < 0)
        return -1;
    progress_begin(view->progress, "contacting the server", true);
    if (begin(remote, request, err) < 0)
        return -1;
    cancel_there(remote);
    return follow(remote, err);
}

int remote_run(struct run_view *view, int cancel_fd, int *ret_status, struct cay_error *err)
{
    struct remote remote = { .view = view, .base = event_base_new() };
    static const struct timeval often = { 0, 250000 };

    if (!remote.base)
        return cay_fail(err, CAY_E_SYSTEM, "make an event loop");
    struct event *cancel =
        event_new(remote.base, cancel_fd, EV_READ | EV_PERSIST, on_cancel, &remote);
    struct event *tick = event_new(remote.base, -1, EV_PERSIST, on_tick, &remote);
    event_add(cancel, NULL);
    if (view->progress->is_on)
        event_add(tick, &often);
    int rc = take_token(&remote, view->args->token_file, err) < 0 ||
                     take_server(&remote, view->args, err) < 0
                 ? -1
                 : run_there(&remote, err);
    progress_clear(view->progress);
    if (rc == 0)
        *ret_status = show_end(&remote);
    else
        run_view_flush(view);
    if (remote.is_deleted && !remote.deletion.is_over)
        http_call_cancel(remote.deletion.http);
    event_free(cancel);
    event_free(tick);
    remote_done(&remote);
    return rc;
}
