/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sandbox.h"

#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/payload.h"
#include "engine/engine.h"
#include "engine/exec.h"

static const struct loop_kind sandbox_kind = { NULL };

static struct open_sandbox *sandbox_of(struct loop_entry *entry)
{
    return entry ? (struct open_sandbox *)((char *)entry - offsetof(struct open_sandbox, entry))
                 : NULL;
}

static struct open_sandbox *find(struct cay *cay, uint32_t number)
{
    return sandbox_of(loop_find(&cay->loop, number, &sandbox_kind));
}

int sandbox_open(struct open_sandbox *sandbox, struct cay *cay,
                 const struct sandbox_options *options, struct cay_error *err)
{
    struct warden_request request = { .kind = WARDEN_OPEN, .spec = *options->spec };
    int fds[WARDEN_FDS];

    *sandbox = (struct open_sandbox){
        .cay = cay,
        .on_report = options->on_report,
        .arg = options->arg,
        .n_lost = sandbox->n_lost,
    };
    for (int i = 0; i < WARDEN_FDS; i++)
        fds[i] = -1;
    memcpy(fds + WARDEN_FOLDERS, options->folder_fds, SANDBOX_FOLDERS * sizeof *fds);
    while (backend_kinds[request.backend] != options->backend)
        request.backend++;
    memcpy(request.spec.id, options->id, sizeof request.spec.id);
    const struct payload_source places = { .folders = options->places };
    if (options->places && payload_write(&places, &fds[WARDEN_PLACES], err) < 0)
        return -1;
    auto_close int places_fd = fds[WARDEN_PLACES];
    if (loop_connect(cay, err) < 0 ||
        loop_add(cay, &sandbox->entry, &sandbox_kind, options->is_watched, err) < 0)
        return -1;
    request.sandbox = sandbox->entry.number;
    if (loop_send(cay, &request, fds, true, &sandbox->is_queued, err) < 0) {
        loop_remove(cay, &sandbox->entry);
        return -1;
    }
    for (int i = 0; i < SANDBOX_FOLDERS && !options->keeps_folders; i++)
        close_fd(&options->folder_fds[i]);
    return 0;
}

void sandbox_close(struct open_sandbox *sandbox, enum stop_reason reason)
{
    const struct warden_request request = {
        .kind = WARDEN_CLOSE,
        .sandbox = sandbox->entry.number,
        .reason = reason,
    };
    struct cay_error err;

    if (!sandbox_is_open(sandbox) || sandbox->cay->warden.fd < 0 ||
        (sandbox->is_closing && reason == STOP_NONE))
        return;
    sandbox->is_closing = true;
    loop_send(sandbox->cay, &request, NULL, false, NULL, &err);
}

/* It is gone: nothing is expected of it, or of its execs, any more. */
static void forget(struct open_sandbox *sandbox)
{
    loop_remove(sandbox->cay, &sandbox->entry);
    for (struct exec *exec = sandbox->execs; exec; exec = exec->next)
        exec->sandbox = NULL;
    sandbox->execs = NULL;
}

void sandbox_done(struct open_sandbox *sandbox)
{
    if (!sandbox_is_open(sandbox))
        return;
    if (sandbox->is_queued)
        loop_drop(&sandbox->cay->loop, sandbox->entry.number);
    else
        sandbox_close(sandbox, STOP_NONE);
    forget(sandbox);
}

/* ---- what the warden says ---- */

static struct exec *find_exec(const struct open_sandbox *sandbox, uint32_t number)
{
    struct exec *exec = sandbox->execs;

    while (exec && exec->spec.number != number)
        exec = exec->next;
    return exec;
}

static void on_closed(struct open_sandbox *sandbox, const struct warden_reply *reply)
{
    const struct sandbox_report report = {
        .kind = SANDBOX_CLOSED,
        .stop = reply->stop,
        .teardown_ns = reply->teardown_ns,
    };

    forget(sandbox);
    sandbox->on_report(sandbox->arg, &report);
}

void sandbox_on_reply(struct cay *cay, const struct warden_reply *reply)
{
    struct open_sandbox *sandbox = find(cay, reply->sandbox);
    struct exec *exec = sandbox ? find_exec(sandbox, reply->exec) : NULL;

    if (!sandbox)
        return;
    switch (reply->kind) {
    case WARDEN_OPENED:
        sandbox->on_report(sandbox->arg, &(struct sandbox_report){ .kind = SANDBOX_OPENED,
                                                                   .layers = reply->layers });
        break;
    case WARDEN_FAILED:
        sandbox->on_report(sandbox->arg, &(struct sandbox_report){ .kind = SANDBOX_FAILED,
                                                                   .error = reply->error });
        break;
    case WARDEN_CLOSED:
        on_closed(sandbox, reply);
        break;
    case WARDEN_EXEC_STARTED:
    case WARDEN_EXEC_ENDED:
    case WARDEN_EXEC_FAILED:
    case WARDEN_USAGE:
        if (exec)
            exec_on_reply(exec, reply);
        break;
    case WARDEN_POOL: /* is no sandbox's */
        break;
    }
}

static void on_lost(struct open_sandbox *sandbox, const struct cay_error *err, bool was_server)
{
    struct sandbox_report report = { .kind = SANDBOX_LOST,
                                     .was_server = was_server,
                                     .error = *err };

    loop_drop(&sandbox->cay->loop, sandbox->entry.number);
    forget(sandbox);
    sandbox->on_report(sandbox->arg, &report);
}

static struct open_sandbox *find_doomed(struct loop *loop, uint32_t newest)
{
    for (int i = 0; i < LOOP_BUCKETS; i++)
        for (struct loop_entry *entry = loop->entries[i]; entry; entry = entry->next)
            if (entry->kind == &sandbox_kind && entry->number <= newest &&
                !sandbox_of(entry)->survives_loss)
                return sandbox_of(entry);
    return NULL;
}

/* All but those that the warden was never asked for, once. A report may open others, and end some.
 */
void sandboxes_on_lost(struct cay *cay, const struct cay_error *err, bool was_server)
{
    struct loop *loop = &cay->loop;
    uint32_t newest = loop->last_number;
    struct open_sandbox *doomed;

    for (int i = 0; i < LOOP_BUCKETS; i++)
        for (struct loop_entry *entry = loop->entries[i]; entry; entry = entry->next)
            if (entry->kind == &sandbox_kind) {
                struct open_sandbox *sandbox = sandbox_of(entry);
                sandbox->survives_loss = sandbox->is_queued && sandbox->n_lost++ == 0;
            }
    while ((doomed = find_doomed(loop, newest)) != NULL)
        on_lost(doomed, err, was_server);
}

bool sandboxes_are_open(const struct cay *cay, const struct open_sandbox *but)
{
    for (int i = 0; i < LOOP_BUCKETS; i++)
        for (const struct loop_entry *entry = cay->loop.entries[i]; entry; entry = entry->next)
            if (entry->kind == &sandbox_kind && entry != &but->entry)
                return true;
    return false;
}

void sandbox_on_sent(struct cay *cay, uint32_t number)
{
    struct open_sandbox *sandbox = find(cay, number);

    if (sandbox)
        sandbox->is_queued = false;
}

void sandbox_on_unsent(struct cay *cay, uint32_t number, const struct cay_error *err)
{
    struct open_sandbox *sandbox = find(cay, number);

    if (sandbox)
        on_lost(sandbox, err, false);
    else
        loop_drop(&cay->loop, number);
}
