/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which backend a plan gets, and which one where that can't be had on this host:
 *
 *     auto       the first of the list that is isolated and strong enough; then the next of them
 *     by name    that one; where it can't be had, as `fallback` says:
 *       never      none: the run is refused
 *       isolated   the first of the list that is isolated and strong enough
 *       unsafe     likewise; and if there is none, the one without isolation
 *
 * That a backend can't be had is known once it was tried: the warden alone has what it takes to
 * try. The engine then makes the plan again, for a host that lacks it (engine/run-again.c).
 */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/plan.h"

static bool is_unavailable(const struct plan_host *host, size_t place)
{
    return host->unavailable >> place & 1;
}

/* gVisor's, by the name that its packages give it. Whether the engine has it, its answer tells. */
#define GVISOR_RUNTIME "runsc"

/* The one that was named; else gVisor's, where that is what it takes to be strong enough. */
static const char *runtime_of(const struct backend_request *request,
                              const struct backend_kind *backend)
{
    if (!(backend->abilities & BACKEND_RUNTIMES))
        return NULL;
    if (request->runtime)
        return request->runtime;
    bool is_needed = backend->tier < TIER_GVISOR && tier_find(request->min) == TIER_GVISOR;
    return is_needed ? GVISOR_RUNTIME : NULL;
}

/* gVisor's runtime is a kernel of its own between the program and the host's. */
static enum tier tier_of(const struct backend_request *request, const struct backend_kind *backend)
{
    const char *runtime = runtime_of(request, backend);
    bool is_gvisor = runtime && strncmp(runtime, GVISOR_RUNTIME, strlen(GVISOR_RUNTIME)) == 0;

    return is_gvisor ? TIER_GVISOR : backend->tier;
}

static int take_runtime(struct plan *plan, const struct backend_request *request,
                        struct cay_error *err)
{
    const char *runtime = runtime_of(request, plan->backend);

    if (!runtime)
        return 0;
    if (strlen(runtime) >= sizeof plan->sandbox.runtime)
        return cay_fail(err, CAY_E_USAGE, "runtime: '%.60s' is not a runtime name", runtime);
    snprintf(plan->sandbox.runtime, sizeof plan->sandbox.runtime, "%s", runtime);
    return 0;
}

/* The first that is isolated, strong enough, and takes a runtime if one is named, past the one at
 * `but`. */
static const struct backend_kind *find_isolated(const struct backend_request *request,
                                                const struct plan_host *host, int min,
                                                const struct backend_kind *but)
{
    for (size_t i = 0; backend_kinds[i]; i++)
        if (backend_kinds[i]->tier != TIER_NONE && (int)tier_of(request, backend_kinds[i]) >= min &&
            (!request->runtime || (backend_kinds[i]->abilities & BACKEND_RUNTIMES)) &&
            backend_kinds[i] != but && !is_unavailable(host, i))
            return backend_kinds[i];
    return NULL;
}

static const struct backend_kind *find_unsafe(const struct plan_host *host,
                                              const struct backend_kind *but)
{
    for (size_t i = 0; backend_kinds[i]; i++)
        if (backend_kinds[i]->tier == TIER_NONE && backend_kinds[i] != but &&
            !is_unavailable(host, i))
            return backend_kinds[i];
    return NULL;
}

static bool is_tried(const struct plan_host *host, const struct backend_kind *backend)
{
    for (size_t i = 0; backend_kinds[i]; i++)
        if (backend_kinds[i] == backend)
            return is_unavailable(host, i);
    return false;
}

/* What has been said for isolation holds against a flag that goes without. */
static int check_unsafe(const struct backend_request *request, struct cay_error *err)
{
    if (request->is_sandbox_on) {
        cay_fail(
            err, CAY_E_POLICY,
            "fallback: unsafe is refused: enable_sandbox is true, nothing runs without isolation");
        return cay_hint(err,
                        "use isolated, or set SECURITY_ENABLE_SANDBOX=false too if you mean it");
    }
    if (request->is_min_explicit && tier_find(request->min) > TIER_NONE) {
        cay_fail(err, CAY_E_POLICY, "fallback: unsafe is below min_isolation %s", request->min);
        return cay_hint(err, "use isolated, or set min_isolation to \"none\" if you mean it");
    }
    return 0;
}

/* The one that was asked for, or NULL with an error that says why not. */
static const struct backend_kind *find_asked(const struct backend_request *request,
                                             const struct plan_host *host, int min,
                                             struct cay_error *err)
{
    if (strcmp(request->name, "auto") == 0) {
        const struct backend_kind *backend = find_isolated(request, host, min, NULL);
        if (!backend)
            cay_fail(err, CAY_E_UNSUPPORTED,
                     "min_isolation: no backend of this build gives tier %s", request->min);
        return backend;
    }
    const struct backend_kind *backend = backend_find(request->name);
    if (!backend)
        cay_fail(err, CAY_E_UNSUPPORTED, "backend: %s is not built yet", request->name);
    else if (is_tried(host, backend))
        cay_fail(err, CAY_E_UNSUPPORTED, "backend: %s is not available on this host",
                 request->name);
    return backend && !is_tried(host, backend) ? backend : NULL;
}

static int check_tier(const struct backend_request *request, const struct backend_kind *backend,
                      struct cay_error *err)
{
    enum tier tier = tier_of(request, backend);
    bool is_refused = tier == TIER_NONE && request->is_sandbox_on;

    if ((int)tier < tier_find(request->min)) {
        cay_fail(err, CAY_E_UNSUPPORTED, "backend: %s gives tier %s, below min_isolation %s",
                 backend->name, tier_name(tier), request->min);
        return cay_hint(err, "use another backend, or set min_isolation to \"%s\"%s if you mean it",
                        tier_name(tier), is_refused ? " and SECURITY_ENABLE_SANDBOX=false" : "");
    }
    if (!is_refused)
        return 0;
    cay_fail(err, CAY_E_POLICY,
             "backend: %s is refused: enable_sandbox is true, nothing runs without isolation",
             backend->name);
    return cay_hint(err, "use another, or set SECURITY_ENABLE_SANDBOX=false too if you mean it");
}

/* In place of the one that can't be had; NULL: nothing may be. */
static const struct backend_kind *find_instead(const struct backend_request *request,
                                               const struct plan_host *host, int min,
                                               bool is_unsafe, const struct backend_kind *but,
                                               const char **ret_how)
{
    const struct backend_kind *backend = NULL;

    if (strcmp(request->name, "auto") == 0 || strcmp(request->fallback, "never") != 0) {
        *ret_how = strcmp(request->fallback, "never") == 0 ? "auto" : "isolated";
        backend = find_isolated(request, host, min, but);
    }
    if (!backend && is_unsafe) {
        *ret_how = "unsafe";
        backend = find_unsafe(host, but);
    }
    return backend;
}

int plan_backend(struct plan *plan, const struct backend_request *request,
                 const struct plan_host *host, struct cay_error *err)
{
    bool is_unsafe = strcmp(request->fallback, "unsafe") == 0 && request->is_fallback_explicit;
    int min = tier_find(request->min);
    struct cay_error missing = { 0 };
    const char *how = NULL;

    if (is_unsafe && check_unsafe(request, err) < 0)
        return -1;
    if (!is_unsafe && strcmp(request->fallback, "unsafe") == 0)
        field_append(&plan->arena, &plan->warnings,
                     "fallback: unsafe only counts as a command-line flag; isolated is in force");
    const struct backend_kind *asked = find_asked(request, host, min, &missing);
    plan->backend = asked;
    if (!asked)
        plan->backend = find_instead(request, host, min, is_unsafe, NULL, &how);
    if (!plan->backend) {
        *err = missing;
        return -1;
    }
    if (asked && check_tier(request, asked, err) < 0)
        return -1;
    if (take_runtime(plan, request, err) < 0)
        return -1;
    plan->tier = tier_of(request, plan->backend);
    if (host->unavailable && !how) /* auto went on by itself */
        how = "auto";
    if (how)
        plan->fallback = (struct plan_fallback){
            .asked = arena_str(&plan->arena, request->name),
            .how = how,
            .why = arena_str(&plan->arena,
                             host->unavailable_why ? host->unavailable_why : missing.msg),
        };
    plan->has_next = find_instead(request, host, min, is_unsafe, plan->backend, &how) != NULL;
    return 0;
}

void plan_warn_of_backend(struct plan *plan)
{
    const struct plan_fallback *fallback = &plan->fallback;
    bool is_auto = fallback->how && strcmp(fallback->asked, "auto") == 0;
    const char *asked = is_auto         ? "the backend that comes first"
                        : fallback->how ? arena_printf(&plan->arena, "backend %s", fallback->asked)
                                        : NULL;
    const char *text = NULL;

    if (fallback->how && plan->backend->tier == TIER_NONE)
        text = arena_printf(&plan->arena,
                            "UNSAFE: %s is not available (%s), and fallback is unsafe: the program "
                            "runs WITHOUT ISOLATION and can do what you can do",
                            asked, fallback->why);
    else if (fallback->how)
        text = arena_printf(&plan->arena, "fallback: %s is not available (%s): using %s", asked,
                            fallback->why, plan->backend->name);
    else if (plan->backend->tier == TIER_NONE)
        text = "backend process: no isolation, only rlimits; the program can do what you can do";
    if (text)
        field_append(&plan->arena, &plan->warnings, text);
}
