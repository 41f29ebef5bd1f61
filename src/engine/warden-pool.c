/* SPDX-License-Identifier: Apache-2.0 */
/* What a server asks its warden beside sandboxes: what there is ahead of them, and to come to an
 * end. */
#include <stdio.h>

#include "core/language.h"
#include "engine/engine.h"

static void ask(struct cay *cay, const struct warden_request *request)
{
    if (cay->warden.fd >= 0)
        message_send_request(cay->warden.fd, request, NULL);
}

void cay_drain(struct cay *cay)
{
    ask(cay, &(struct warden_request){ WARDEN_DRAIN });
}

void cay_drain_now(struct cay *cay)
{
    ask(cay, &(struct warden_request){ .kind = WARDEN_DRAIN, .reason = STOP_CANCELLED });
}

unsigned cay_others_runs(const struct cay *cay)
{
    return cay->others_runs;
}

size_t cay_pool(struct cay *cay, struct cay_pool *list, size_t room, uint64_t *ret_memory)
{
    size_t n = 0;

    ask(cay, &(struct warden_request){ .kind = WARDEN_STATS });
    *ret_memory = cay->pool.memory_bytes;
    for (int i = 0; i <= POOL_LANGUAGES && n < room; i++) {
        if (cay->pool.classes[i].target == 0)
            continue;
        list[n++] = (struct cay_pool){
            .ready = cay->pool.classes[i].ready,
            .making = cay->pool.classes[i].making,
            .target = cay->pool.classes[i].target,
            .has_zygote = cay->pool.classes[i].has_zygote,
            .taken = cay->pool.classes[i].taken,
            .missed = cay->pool.classes[i].missed,
            .failed = cay->pool.classes[i].failed,
        };
        struct cay_pool *last = &list[n - 1];
        if (i == POOL_LANGUAGES)
            snprintf(last->language, sizeof last->language, "command");
        else
            language_name_at(i, last->language, sizeof last->language);
    }
    return n;
}

int64_t cay_pool_answers(const struct cay *cay)
{
    return cay->warden.fd < 0 ? -1 : cay->pool_answers;
}
