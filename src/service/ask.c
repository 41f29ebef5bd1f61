/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ask.h"

#include <cay/run.h>

#include "base/clock.h"
#include "base/error.h"
#include "service/log.h"
#include "service/service-state.h"

void ask_drop(struct ask *ask)
{
    void (*forget)(struct ask *) = ask->forget;

    ask->forget = NULL;
    if (forget)
        forget(ask);
}

void ask_answer(struct ask *ask, const struct answer *answer)
{
    if (!answer->is_lent)
        ask->forget = NULL;
    ask->on_answer(ask, answer);
}

void refusal_set(struct refusal *ret, const struct ask *ask, const struct cay_error *err)
{
    bool is_hosts =
        (err->kind == CAY_E_SYSTEM || err->kind == CAY_E_UNSUPPORTED) && err->hint[0] != '\0';

    if (is_hosts)
        LOG(ask->service->log, WARN, "refused", clock_now_ns(),
            LOG_TEXT("tenant", ask->owner.tenant), LOG_TEXT("error", err->msg),
            LOG_TEXT("hint", err->hint));
    *ret = (struct refusal){ .why = REFUSED_REQUEST };
    cay_client_error(err, &ret->err);
}

void refusal_shortage(struct refusal *ret, const char *message, const char *hint,
                      unsigned retry_after_s)
{
    *ret = (struct refusal){ .why = REFUSED_SHORTAGE, .retry_after_s = retry_after_s };
    cay_fail(&ret->err, CAY_E_BUSY, "%s", message);
    if (hint)
        cay_hint(&ret->err, "%s", hint);
}

void refusal_unread(struct refusal *ret)
{
    refusal_shortage(ret, "too many bytes of answers are still unread",
                     "read the pending answers, then try again", 1);
}

void ask_refuse_with(struct ask *ask, const struct refusal *refusal)
{
    ask_answer(ask, &(struct answer){ .refusal = refusal, .fd = -1 });
}

void ask_refuse(struct ask *ask, const struct cay_error *err)
{
    struct refusal refusal;

    refusal_set(&refusal, ask, err);
    ask_refuse_with(ask, &refusal);
}

void ask_link(struct ask **list, struct ask *ask)
{
    ask->prev = NULL;
    ask->next = *list;
    if (ask->next)
        ask->next->prev = ask;
    *list = ask;
}

void ask_unlink(struct ask **list, struct ask *ask)
{
    if (ask->prev)
        ask->prev->next = ask->next;
    else
        *list = ask->next;
    if (ask->next)
        ask->next->prev = ask->prev;
    ask->prev = ask->next = NULL;
}
