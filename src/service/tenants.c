/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come: tokens, their tenants, and what each of these may have. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/record.h>
#include <cay/run.h>
#include <cay/settings.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/suggest.h"
#include "service/admit.h"
#include "service/metrics.h"
#include "service/service-state.h"
#include "service/token.h"

/* The token itself only when it was just made, and only to a terminal: what is redirected becomes a
 * log that others read. Later the file has it. */
static void show_token(struct service *service, int state_fd, const char *token, bool is_new)
{
    char link[64], folder[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", state_fd);
    ssize_t len = readlink(link, folder, sizeof folder - 1);
    folder[len > 0 ? len : 0] = '\0';
    if (is_new && service->options.shows_token)
        service_progress(service, "token: %s (shown once; kept in %s/token)", token, folder);
    else
        service_progress(service, "token: in %s/token", folder);
}

int service_open_tokens(struct service *service, struct cay_error *err)
{
    char token[TOKEN_TEXT_SIZE];

    if (service->options.token_file) {
        if (tokens_load(service->options.token_file, &service->tokens, err) < 0)
            return -1;
        if (tokens_weak(service->tokens) > 0)
            service_progress(service,
                             "warning: %s: %zu of %zu tokens are short enough to be guessed; use "
                             "at least %d characters",
                             service->options.token_file, tokens_weak(service->tokens),
                             tokens_count(service->tokens), TOKEN_LEN_GOOD);
        return 0;
    }
    auto_close int state_fd = -1;
    if (cay_state_open(&state_fd, err) < 0)
        return -1;
    int made = token_keep(state_fd, "token", token, err);
    if (made < 0)
        return -1;
    service->tokens = tokens_single(token);
    if (service->options.has_tokens)
        show_token(service, state_fd, token, made > 0);
    explicit_bzero(token, sizeof token);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void service_count_tenants(struct service *service)
{
    size_t n = tokens_count(service->tokens), n_tenants = 0;
    auto_free const char **names = mem_alloc((n + 1) * sizeof *names);

    for (size_t i = 0; i < n; i++)
        names[i] = tokens_tenant_at(service->tokens, i);
    if (service->options.has_local)
        names[n++] = TENANT_DEFAULT; /* who comes by it */
    qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++) {
        n_tenants += i == 0 || strcmp(names[i], names[i - 1]) != 0;
        metrics_tenant(service->metrics, names[i]);
    }
    admit_expect(service->admit, n_tenants);
}

void service_idle_tenants(const struct service *service, idle_tenant_fn *report)
{
    size_t n = tokens_count(service->tokens);
    auto_free const char **names = mem_alloc((n + 1) * sizeof *names);
    const struct cay_tenant *tenant;

    for (size_t i = 0; i < n; i++)
        names[i] = tokens_tenant_at(service->tokens, i);
    if (service->options.has_local)
        names[n++] = TENANT_DEFAULT; /* who comes by it */
    for (size_t i = 0; (tenant = cay_tenant_at(service->cay, i)); i++) {
        bool is_there = false;
        for (size_t k = 0; k < n && !is_there; k++)
            is_there = strcmp(names[k], tenant->name) == 0;
        if (!is_there)
            report(service, tenant->name, suggest(tenant->name, names, n));
    }
}

void service_warn_idle_tenant(const struct service *service, const char *name, const char *near)
{
    service_progress(service, "warning: [tenant.%s]: no token belongs to this tenant%s%s%s", name,
                     near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int by_name(const void *a, const void *b)
{
    const struct cay_tenant *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

/* Both lists are by name. */
void service_load_quotas(struct service *service)
{
    size_t n = 0, k = 0;
    struct tenant *tenant;

    while (cay_tenant_at(service->cay, n))
        n++;
    auto_free const struct cay_tenant **quotas = mem_alloc((n + 1) * sizeof *quotas);
    for (size_t i = 0; i < n; i++) {
        quotas[i] = cay_tenant_at(service->cay, i);
        admit_tenant(service->admit, quotas[i]->name);
    }
    qsort(quotas, n, sizeof *quotas, by_name);
    for (size_t i = 0; (tenant = admit_tenant_at(service->admit, i)); i++) {
        while (k < n && strcmp(quotas[k]->name, tenant_name(tenant)) < 0)
            k++; /* there was no room for more tenants */
        bool is_there = k < n && strcmp(quotas[k]->name, tenant_name(tenant)) == 0;
        tenant_set_quota(tenant, is_there ? quotas[k] : NULL);
    }
}
