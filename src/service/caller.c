/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, whether they may, and how much memory their requests and answers get. */
#include <cay/error.h>

#include "base/auto.h"
#include "base/error.h"
#include "service/bodies.h"
#include "service/service-state.h"
#include "service/token.h"

bool service_authenticate(const struct service *service, const char *token, size_t len,
                          struct token_owner *ret)
{
    return tokens_check(service->tokens, token, len, ret);
}

void service_local_owner(struct token_owner *ret)
{
    *ret = (struct token_owner){ .tenant = TENANT_DEFAULT, .scopes = SCOPES_ALL };
}

int service_allows(const struct token_owner *owner, unsigned scopes, struct cay_error *err)
{
    char missing[64];

    if ((owner->scopes & scopes) == scopes)
        return 0;
    scopes_text(scopes, missing);
    cay_fail(err, CAY_E_POLICY, "the token lacks the scope %s", missing);
    return cay_hint(err, "use a token with that scope");
}

bool service_has_room(const struct ask *ask, uint64_t bytes)
{
    return bodies_has_room(&ask->service->bodies, ask->owner.tenant, bytes);
}

bool service_take_room(struct ask *ask, uint64_t bytes)
{
    return bodies_take(&ask->service->bodies, &ask->held, ask->owner.tenant, bytes);
}

void service_give_back(struct ask *ask)
{
    bodies_give_back(&ask->service->bodies, &ask->held);
}

uint64_t service_max_request(const struct service *service)
{
    return MIN(service->settings.max_body_bytes, service->settings.max_bodies_bytes / 2);
}

struct serve_log *service_log(const struct service *service)
{
    return service->log;
}

bool service_is_draining(const struct service *service)
{
    return service->drain.is_on;
}
