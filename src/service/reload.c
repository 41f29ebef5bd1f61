/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens, quotas and certificates again, without a run that notices: the monitor opens the files. */
#include <errno.h>
#include <unistd.h>

#include <cay/settings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "service/execution.h"
#include "service/log.h"
#include "service/service-state.h"
#include "service/token.h"

#define RELOAD_NS (500 * NS_PER_MSEC) /* for the monitor to open a few files */

static void reload_tokens(struct service *service)
{
    struct cay_error err;
    struct tokens *fresh;

    if (!service->options.token_file)
        return;
    auto_close int fd = monitor_file(&service->monitor, MONITOR_TOKENS, &err);
    if (fd < 0 || tokens_load_fd(fd, service->options.token_file, &fresh, &err) < 0) {
        LOG(service->log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
        return;
    }
    tokens_free(service->tokens);
    service->tokens = fresh;
    service_count_tenants(service);
    LOG(service->log, INFO, "tokens-reloaded", clock_now_ns(),
        LOG_INT("count", (int64_t)tokens_count(fresh)),
        LOG_INT("weak", (int64_t)tokens_weak(fresh)));
}

static void log_idle_tenant(const struct service *service, const char *name, const char *near)
{
    LOG(service->log, WARN, "tenant-without-token", clock_now_ns(), LOG_TEXT("tenant", name),
        LOG_TEXT("near", near));
}

/* Of a configuration file: it need not be there. -1: there is none; -2, and err: it can't be read.
 */
static int open_config(struct service *service, enum monitor_file file, struct cay_error *err)
{
    int fd = monitor_file(&service->monitor, file, err);

    /* The user's is passed over where it can't be read (core/config.c), or nobody knows where it
     * would be. */
    bool is_none =
        err->errnum == ENOENT || err->errnum == ENOTDIR ||
        (file == MONITOR_USER_CONFIG && (err->errnum == EACCES || err->errnum == EINVAL));
    return fd >= 0 ? fd : is_none ? -1 : -2;
}

static void reload_quotas(struct service *service)
{
    struct cay_error err = { 0 };
    auto_close int system_fd = open_config(service, MONITOR_SYSTEM_CONFIG, &err);
    auto_close int user_fd = system_fd == -2 ? -2 : open_config(service, MONITOR_USER_CONFIG, &err);

    if (user_fd == -2 || cay_tenants_reload(service->cay, system_fd, user_fd, &err) < 0) {
        LOG(service->log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
        return;
    }
    service_load_quotas(service);
    service_idle_tenants(service, log_idle_tenant);
    LOG(service->log, INFO, "quotas-reloaded", clock_now_ns());
    execution_start_waiting(service);
}

/* Once all files are there; one that hangs is said to, and may still answer. */
void service_go_on_reloading(struct service *service, int64_t now_ns)
{
    if (!service->is_reloading)
        return;
    for (unsigned i = 0; i < MONITOR_FILES; i++) {
        if (!monitor_is_asked(&service->monitor, i))
            continue;
        if (service->reload_by_ns > 0 && now_ns > service->reload_by_ns) {
            service->reload_by_ns = 0;
            LOG(service->log, ERROR, "reload-failed", now_ns,
                LOG_TEXT("error", "the monitor does not answer"));
        }
        return;
    }
    service->is_reloading = false;
    reload_tokens(service);
    reload_quotas(service);
    service->options.doors.on_reload(service->options.doors.arg);
}

void service_reload(struct service *service)
{
    const bool is_wanted[MONITOR_FILES] = {
        [MONITOR_TOKENS] = service->options.token_file,
        [MONITOR_CERT] = service->options.tls_cert,
        [MONITOR_KEY] = service->options.tls_key,
        [MONITOR_SYSTEM_CONFIG] = true,
        [MONITOR_USER_CONFIG] = true,
    };
    struct cay_error err;

    service->is_reloading = true;
    service->reload_by_ns = clock_now_ns() + RELOAD_NS;
    for (unsigned i = 0; i < MONITOR_FILES; i++)
        if (is_wanted[i] && monitor_ask(&service->monitor, i, &err) < 0)
            LOG(service->log, ERROR, "reload-failed", clock_now_ns(), LOG_TEXT("error", err.msg));
}
