/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says, for those above the line who are not making a plan. */
#include <cay/settings.h>

#include "base/error.h"
#include "core/state.h"
#include "engine/engine.h"

int cay_state_open(int *ret_fd, struct cay_error *err)
{
    int fd = state_open();

    if (fd < 0)
        return cay_fail_errno(err, -fd, "open the state folder");
    *ret_fd = fd;
    return 0;
}

const char *cay_setting(struct cay *cay, const char *name)
{
    enum field_id id = field_find(name);

    if (id == FIELD_N)
        return NULL;
    return field_text(&cay->config.arena, id, &cay->config.settings[id].value);
}

uint64_t cay_setting_number(const struct cay *cay, const char *name)
{
    enum field_id id = field_find(name);
    return id == FIELD_N ? 0 : cay->config.settings[id].value.num;
}

const struct cay_tenant *cay_tenant_at(const struct cay *cay, size_t i)
{
    const struct tenant_table *table = cay->config.tenants;

    while (table && i-- > 0)
        table = table->next;
    return table ? &table->tenant : NULL;
}
