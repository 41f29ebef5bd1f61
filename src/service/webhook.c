/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One list of jobs, each with the time from which it may be tried, and one timer for the earliest.
 * A try resolves the name, judges the addresses, posts, and ends in settle_try.
 */

#include "service/webhook.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "net/address.h"
#include "net/hmac.h"
#include "net/http-client.h"
#include "net/resolver.h"
#include "net/url.h"

#define ANSWER_MAX   65536              /* of an answer that nobody reads */
#define RETRY_MAX_NS (300 * NS_PER_SEC) /* what a Retry-After may ask for */

struct job {
    struct webhooks *hooks;
    struct job *next;
    struct url url;
    char *secret;
    char *id;
    char *tenant;
    char *body;
    size_t body_len;

    int tries;
    int64_t due_ns; /* not to be tried before */
    bool is_running;
    struct resolver_query *query; /* one of both, while it is running */
    struct http_call *call;
    int status;             /* of this try's answer, or 0 */
    int64_t retry_after_ns; /* what it asked for */
};

struct webhooks {
    struct webhook_options options;
    struct resolver *resolver;
    struct event *timer;
    struct job *jobs; /* the oldest first */
    size_t n_jobs;
    size_t n_running;
    uint64_t bytes;
};

static void pump(struct webhooks *hooks);

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    pump(arg);
}

struct webhooks *webhooks_new(const struct webhook_options *options)
{
    struct resolver *resolver = resolver_new(options->base);
    if (!resolver)
        return NULL;
    struct webhooks *hooks = mem_alloc(sizeof(*hooks));
    hooks->options = *options;
    hooks->resolver = resolver;
    struct webhook_options *set = &hooks->options;
    set->max_waiting = set->max_waiting ? set->max_waiting : 256;
    set->max_bytes = set->max_bytes ? set->max_bytes : UINT64_C(32) << 20;
    set->max_at_once = set->max_at_once ? set->max_at_once : 8;
    set->max_per_host = set->max_per_host ? set->max_per_host : 2;
    set->try_ns = set->try_ns ? set->try_ns : 15 * NS_PER_SEC;
    set->first_pause_ns = set->first_pause_ns ? set->first_pause_ns : NS_PER_SEC;
    hooks->timer = event_new(options->base, -1, 0, on_timer, hooks);
    return hooks;
}

static void free_job(struct job *job)
{
    if (job->query)
        resolver_cancel(job->query);
    if (job->call)
        http_call_cancel(job->call);
    if (job->secret)
        explicit_bzero(job->secret, strlen(job->secret));
    free(job->secret);
    free(job->id);
    free(job->tenant);
    free(job->body);
    free(job);
}

void webhooks_use_tls(struct webhooks *hooks, struct tls_client *tls)
{
    hooks->options.tls = tls;
}

void webhooks_free(struct webhooks *hooks)
{
    if (!hooks)
        return;
    while (hooks->jobs) {
        struct job *job = hooks->jobs;
        hooks->jobs = job->next;
        free_job(job);
    }
    event_free(hooks->timer);
    resolver_free(hooks->resolver);
    free(hooks);
}

size_t webhooks_pending(const struct webhooks *hooks)
{
    return hooks->n_jobs;
}

/* What a numeric host is, when it is not public; NULL for names. */
static const char *judge_literal(const char *host)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

    if (inet_pton(AF_INET, host, &in.sin_addr) == 1)
        return address_not_public((struct sockaddr *)&in);
    if (inet_pton(AF_INET6, host, &in6.sin6_addr) == 1)
        return address_not_public((struct sockaddr *)&in6);
    return NULL;
}

static int refuse_address(struct cay_error *err, const char *host, const char *what)
{
    cay_fail(err, CAY_E_POLICY, "webhook: the address of %.100s is not public: %s", host, what);
    return cay_hint(err, "the operator can list it in webhook_allow");
}

static int check(const char *text, const struct webhook_options *options, struct url *ret,
                 struct cay_error *err)
{
    const char *why = NULL;

    if (url_parse(text, ret, &why) < 0) {
        cay_fail(err, CAY_E_USAGE, "webhook: '%.100s' is not an address to post to: %s", text, why);
        return cay_hint(err, "an address like https://example.com/path");
    }
    if (ret->is_tls && !options->tls)
        return cay_fail(err, CAY_E_UNSUPPORTED, "webhook: this server has no https");
    const char *what = judge_literal(ret->host);
    if (what && !url_is_listed(ret, options->allow, options->n_allow))
        return refuse_address(err, ret->host, what);
    return 0;
}

int webhook_check(const char *url, const struct webhook_options *options, struct cay_error *err)
{
    struct url parsed;

    return check(url, options, &parsed, err);
}

static void drop(struct job *job, bool is_delivered, const char *why);

/* What a job takes of the room: its bytes, and its place in the list as bytes. */
static uint64_t size_of(const struct webhooks *hooks, size_t body_len)
{
    return body_len + hooks->options.max_bytes / hooks->options.max_waiting;
}

static uint64_t sizes_of(const struct webhooks *hooks, const char *tenant)
{
    uint64_t sum = 0;

    for (const struct job *job = hooks->jobs; job; job = job->next)
        if (strcmp(job->tenant, tenant) == 0)
            sum += size_of(hooks, job->body_len);
    return sum;
}

/* The newest that is not under way of whoever takes most, if that is more than `little`. */
static struct job *find_surplus(const struct webhooks *hooks, uint64_t little)
{
    struct job *found = NULL;

    for (struct job *job = hooks->jobs; job; job = job->next) {
        uint64_t sum = job->is_running ? 0 : sizes_of(hooks, job->tenant);
        if (sum > little || (found && sum == little)) {
            found = job;
            little = sum;
        }
    }
    return found;
}

/* One tenant's flood to a place that never answers, be it of many or of large ones, is not the
 * others' loss. */
static bool make_room(struct webhooks *hooks, const char *tenant, size_t len)
{
    const struct webhook_options *options = &hooks->options;
    struct job *job = NULL;

    if (len > options->max_bytes)
        return false;
    while (hooks->n_jobs >= options->max_waiting || len > options->max_bytes - hooks->bytes) {
        job = find_surplus(hooks, sizes_of(hooks, tenant) + size_of(hooks, len));
        if (!job)
            return false;
        drop(job, false, "this tenant has more waiting than others");
    }
    return true;
}

int webhooks_post(struct webhooks *hooks, const struct webhook *webhook, struct cay_error *err)
{
    const char *tenant = webhook->tenant ? webhook->tenant : "";
    struct url url;

    if (check(webhook->url, &hooks->options, &url, err) < 0)
        return -1;
    if (!make_room(hooks, tenant, webhook->body_len))
        return cay_fail(err, CAY_E_LIMIT, "webhook: too many are waiting (%zu)", hooks->n_jobs);

    struct job *job = mem_alloc(sizeof(*job));
    job->hooks = hooks;
    job->url = url;
    job->secret = str_dup(webhook->secret);
    job->id = str_dup(webhook->id);
    job->tenant = str_dup(tenant);
    job->body = mem_dup(webhook->body, webhook->body_len);
    job->body_len = webhook->body_len;
    struct job **last = &hooks->jobs;
    while (*last)
        last = &(*last)->next;
    *last = job;
    hooks->n_jobs++;
    hooks->bytes += job->body_len;
    /* From the loop: no report comes before the caller knows of its success. */
    event_active(hooks->timer, EV_TIMEOUT, 0);
    return 0;
}

static void drop(struct job *job, bool is_delivered, const char *why)
{
    struct webhooks *hooks = job->hooks;
    struct webhook_report report = {
        .id = job->id,
        .host = job->url.host,
        .is_delivered = is_delivered,
        .tries = job->tries,
        .status = job->status,
        .why = why,
    };

    for (struct job **at = &hooks->jobs; *at; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            break;
        }
    }
    hooks->n_jobs--;
    hooks->bytes -= job->body_len;
    if (hooks->options.on_done)
        hooks->options.on_done(hooks->options.arg, &report);
    free_job(job);
}

/* The pause behind this many tries: varied, so that those that failed together part. */
static int64_t pause_ns(const struct webhooks *hooks, int tries)
{
    uint32_t random = 0;
    int64_t pause = hooks->options.first_pause_ns;

    for (int i = 1; i < tries; i++)
        pause *= 4;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint32_t)clock_now_ns();
    return pause / 2 + (int64_t)((double)pause * ((double)random / UINT32_MAX));
}

/* A try is over: with an answer (job->status), or with why. */
static void settle_try(struct job *job, bool can_retry, const char *why)
{
    struct webhooks *hooks = job->hooks;
    bool is_delivered = job->status >= 200 && job->status < 300;

    job->is_running = false;
    hooks->n_running--;
    if (is_delivered || !can_retry || job->tries >= WEBHOOK_TRIES) {
        drop(job, is_delivered, is_delivered ? NULL : why);
    } else {
        int64_t pause = MAX(pause_ns(hooks, job->tries), job->retry_after_ns);
        job->due_ns = clock_now_ns() + pause;
    }
    event_active(hooks->timer, EV_TIMEOUT, 0);
}

static void on_head(void *arg, const struct http_head *head)
{
    struct job *job = arg;
    const char *after = http_header(head, "Retry-After");

    job->status = head->status;
    /* Seconds; the other form, a date, is passed over. */
    if (after && strlen(after) <= 9 && after[strspn(after, "0123456789")] == '\0')
        job->retry_after_ns = MIN(strtoll(after, NULL, 10) * NS_PER_SEC, RETRY_MAX_NS);
}

static void on_end(void *arg, const struct cay_error *err)
{
    struct job *job = arg;
    int status = job->status;
    char why[64];

    job->call = NULL;
    /* The head says it all: what becomes of the body does not matter. */
    if (status == 0) {
        settle_try(job, true, err ? err->msg : "no answer");
        return;
    }
    snprintf(why, sizeof why, "it answered %d%s", status,
             status >= 300 && status < 400 ? " (redirects are not followed)" : "");
    settle_try(job, status == 408 || status == 429 || status >= 500, why);
}

static int make_request(const struct job *job, struct strbuf *out)
{
    struct http_writer head;
    char timestamp[24];
    char signature[HMAC_HEX_LEN + 1];

    snprintf(timestamp, sizeof timestamp, "%lld", (long long)time(NULL));
    http_write_request(&head, out, "POST", job->url.target, job->url.authority);
    http_write_header(&head, "Content-Type", "application/json");
    http_write_header(&head, "User-Agent", "cay");
    http_write_header(&head, "Connection", "close");
    http_write_header(&head, "X-Cay-Event", "finished");
    http_write_header(&head, "X-Cay-Delivery", job->id);
    http_write_header(&head, "X-Cay-Timestamp", timestamp);
    if (job->secret && *job->secret) {
        const struct hmac_piece pieces[] = { { timestamp, strlen(timestamp) },
                                             { ".", 1 },
                                             { job->body, job->body_len } };
        hmac_sha256_hex(job->secret, strlen(job->secret), pieces, ARRAY_LEN(pieces), signature);
        http_write_headerf(&head, "X-Cay-Signature", "sha256=%s", signature);
    }
    http_write_length(&head, job->body_len);
    if (http_write_end(&head) < 0)
        return -1;
    strbuf_add(out, job->body, job->body_len);
    return 0;
}

static void post(struct job *job, const struct sockaddr *address, socklen_t address_len)
{
    const struct webhooks *hooks = job->hooks;
    struct http_limits limits = http_default_limits;
    auto_strbuf struct strbuf request = { 0 };
    struct cay_error err = { 0 };

    if (make_request(job, &request) < 0) {
        settle_try(job, false, "the request can't be written");
        return;
    }
    limits.body_bytes = ANSWER_MAX;
    struct http_call_options options = {
        .base = hooks->options.base,
        .address = address,
        .address_len = address_len,
        .tls = job->url.is_tls ? hooks->options.tls : NULL,
        .tls_host = job->url.host,
        .request = request.data,
        .request_len = request.len,
        .limits = &limits,
        .total_ns = hooks->options.try_ns,
        .on_head = on_head,
        .on_end = on_end,
        .arg = job,
    };
    if (http_call_start(&options, &job->call, &err) < 0)
        settle_try(job, true, err.msg);
}

static void on_addresses(void *arg, const struct resolver_answer *answer)
{
    struct job *job = arg;
    const struct webhook_options *options = &job->hooks->options;
    struct cay_error err = { 0 };

    job->query = NULL;
    if (answer->n == 0) {
        cay_fail(&err, CAY_E_NOTFOUND, "resolve %.100s: %s", job->url.host, answer->why);
        settle_try(job, true, err.msg);
        return;
    }
    if (!url_is_listed(&job->url, options->allow, options->n_allow)) {
        for (size_t i = 0; i < answer->n; i++) {
            const char *what = address_not_public((const struct sockaddr *)&answer->addresses[i]);
            if (what) {
                refuse_address(&err, job->url.host, what);
                settle_try(job, false, err.msg);
                return;
            }
        }
    }
    /* Another one each time: this machine may lack a way to the first. */
    size_t which = (size_t)(job->tries - 1) % answer->n;
    post(job, (const struct sockaddr *)&answer->addresses[which], answer->lens[which]);
}

static void start_try(struct job *job)
{
    job->is_running = true;
    job->hooks->n_running++;
    job->tries++;
    job->status = 0;
    job->retry_after_ns = 0;
    job->query =
        resolver_ask(job->hooks->resolver, job->url.host, job->url.port, on_addresses, job);
}

static bool has_room(const struct webhooks *hooks, const struct job *job)
{
    size_t same = 0;

    for (const struct job *one = hooks->jobs; one; one = one->next)
        same += one->is_running && strcmp(one->url.host, job->url.host) == 0;
    return hooks->n_running < hooks->options.max_at_once && same < hooks->options.max_per_host;
}

static size_t running_of(const struct webhooks *hooks, const char *tenant)
{
    size_t n = 0;

    for (const struct job *job = hooks->jobs; job; job = job->next)
        n += job->is_running && strcmp(job->tenant, tenant) == 0;
    return n;
}

/* The oldest that is due and has room, of whoever has the fewest under way. */
static struct job *find_due(const struct webhooks *hooks, int64_t now)
{
    struct job *found = NULL;
    size_t few = SIZE_MAX;

    for (struct job *job = hooks->jobs; job && few > 0; job = job->next) {
        if (job->is_running || job->due_ns > now || !has_room(hooks, job))
            continue;
        size_t n = running_of(hooks, job->tenant);
        if (n < few) {
            found = job;
            few = n;
        }
    }
    return found;
}

/* Starts what is due and has room; the timer is for what will be due next. */
static void pump(struct webhooks *hooks)
{
    int64_t now = clock_now_ns();
    int64_t next = INT64_MAX;

    for (struct job *job; (job = find_due(hooks, now));)
        start_try(job);
    for (const struct job *job = hooks->jobs; job; job = job->next)
        if (!job->is_running && job->due_ns > now)
            next = MIN(next, job->due_ns);
    if (next == INT64_MAX)
        return;
    struct timeval wait = { (next - now) / NS_PER_SEC, (next - now) % NS_PER_SEC / 1000 + 1 };
    event_add(hooks->timer, &wait);
}
