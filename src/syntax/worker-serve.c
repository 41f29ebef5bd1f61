/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/worker-serve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "syntax/checker.h"
#include "syntax/guard.h"
#include "syntax/highlight.h"
#include "sys/file.h"

enum { GRACE_S = 2 };

struct server {
    int fd;
    struct checker *checker;
    struct highlighter *highlighter; /* NULL: the grammar has no queries for it */
    enum syntax_status status;       /* of all answers, where loading failed */
    struct cay_error err;
};

int serve_check_head(const struct syntax_ask *ask)
{
    bool is_good = ask->magic == SYNTAX_MAGIC && ask->verb > 0 && ask->verb < SYNTAX_VERBS &&
                   ask->timeout_ms <= SYNTAX_TIMEOUT_MAX_MS && ask->lists_len <= SYNTAX_LISTS_MAX &&
                   ask->code_len <= SYNTAX_CODE_MAX;
    return is_good ? 0 : -EINVAL;
}

int serve_check_lists(const char *lists, size_t len)
{
    if (len > 0 && lists[len - 1] != '\0')
        return -EINVAL;
    for (size_t i = 0; i < len; i += strlen(lists + i) + 1)
        if (lists[i] != '+' && lists[i] != '-')
            return -EINVAL;
    return 0;
}

static int read_all(int fd, void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, (char *)data + done, len - done);
        if (n == 0)
            return done == 0 ? 0 : -EPIPE;
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 1;
}

/* Should the owner be gone or asleep: the kernel ends what takes too long. */
static void set_alarm(unsigned timeout_ms)
{
    struct itimerval timer = { .it_value.tv_sec = timeout_ms / 1000 + GRACE_S };
    setitimer(ITIMER_REAL, timeout_ms ? &timer : &(struct itimerval){ 0 }, NULL);
}

static int answer(int fd, enum syntax_status status, unsigned flags, const char *text, size_t len)
{
    struct syntax_answer head = { SYNTAX_MAGIC, status, flags, (uint32_t)len };
    auto_strbuf struct strbuf out = { 0 };

    /* In one piece: the caller is woken once. */
    strbuf_add(&out, (const char *)&head, sizeof head);
    strbuf_add(&out, text, len);
    return write_all(fd, out.data, out.len);
}

static int serve_ask(struct server *server, const struct syntax_ask *ask, const char *lists,
                     const char *code)
{
    auto_strbuf struct strbuf out = { 0 };
    const struct check_ask check = {
        .code = code,
        .len = ask->code_len,
        .flags = ask->flags,
        .list = lists,
        .list_len = ask->lists_len,
        .deadline_ns = clock_now_ns() + (int64_t)ask->timeout_ms * NS_PER_MSEC,
    };
    bool is_safe = false;

    if (server->status != SYNTAX_DONE)
        return answer(server->fd, server->status, 0, server->err.msg, strlen(server->err.msg));
    if (ask->verb == SYNTAX_CHECK)
        checker_run(server->checker, &check, &out, &is_safe);
    else if (ask->verb == SYNTAX_HIGHLIGHT)
        highlight_code(server->highlighter, checker_grammar(server->checker), code, ask->code_len,
                       check.deadline_ns, &out);
    else
        strbuf_puts(&out, complete_name(complete_code(checker_grammar(server->checker), code,
                                                      ask->code_len, check.deadline_ns)));
    if (out.len > SYNTAX_TEXT_MAX)
        return answer(server->fd, SYNTAX_BAD_ASK, 0, "", 0);
    return answer(server->fd, SYNTAX_DONE, is_safe ? SYNTAX_SAFE : 0, strbuf_str(&out), out.len);
}

/* Returns 1 to go on, 0 at the end, or -errno. */
static int serve_one(struct server *server)
{
    struct syntax_ask ask;
    int rc = read_all(server->fd, &ask, sizeof ask);

    if (rc <= 0)
        return rc;
    if (serve_check_head(&ask) < 0)
        return -EPROTO; /* what follows can't be told from what was meant */
    set_alarm(ask.timeout_ms + 1);
    size_t size = (size_t)ask.lists_len + ask.code_len;
    auto_free char *data = mem_alloc(size + 1);
    rc = size > 0 ? read_all(server->fd, data, size) : 1;
    if (rc <= 0)
        return rc;
    if (serve_check_lists(data, ask.lists_len) < 0)
        rc = answer(server->fd, SYNTAX_BAD_ASK, 0, "", 0);
    else
        rc = serve_ask(server, &ask, data, data + ask.lists_len);
    set_alarm(0);
    if (rc >= 0 && server->checker && checker_is_spent(server->checker))
        return 0; /* the next question gets a new worker */
    return rc < 0 ? rc : 1;
}

int serve_language(const char *language, int fd)
{
    struct server server = { .fd = fd };
    int rc = 1;

    if (checker_open(language, &server.checker, &server.err) < 0)
        server.status =
            server.err.kind == CAY_E_UNSUPPORTED ? SYNTAX_NO_GRAMMAR : SYNTAX_BROKEN_RULES;
    else
        server.highlighter = highlighter_new(checker_grammar(server.checker));
    if (guard_load() < 0)
        return 1;
    while (rc > 0)
        rc = serve_one(&server);
    highlighter_free(server.highlighter);
    checker_close(server.checker);
    return rc < 0;
}
