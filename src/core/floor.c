/* SPDX-License-Identifier: Apache-2.0 */
#include "core/floor.h"

#include <string.h>

#include "base/error.h"
#include "core/config.h"

static bool is_set_by_somebody(const struct setting *setting)
{
    return setting->value.is_set && setting->origin != ORIGIN_BUILTIN;
}

/* What the configuration sets, or its own profile does; NULL: nobody set anything. */
static const struct value *set_of(const struct config *config, enum field_id id)
{
    const struct setting *chosen = &config->settings[FIELD_PROFILE];
    const struct profile *profile =
        is_set_by_somebody(chosen) ? config_profile(config, chosen->value.text) : NULL;

    if (is_set_by_somebody(&config->caps[id]))
        return NULL;
    if (profile && profile->values[id].is_set)
        return &profile->values[id];
    return is_set_by_somebody(&config->settings[id]) ? &config->settings[id].value : NULL;
}

/* Strict mode is "block" unless something else was said too. */
static const struct value *floor_of(const struct config *config, enum field_id id)
{
    static const struct value block = { .is_set = true, .text = "block" };
    const struct value *value = set_of(config, id);
    const struct value *strict = id == FIELD_POLICY ? set_of(config, FIELD_POLICY_STRICT) : NULL;

    return !value && strict && strict->num ? &block : value;
}

/* What the request would have; NULL: what the configuration has. */
static const struct value *asked_of(const struct config *config, const struct cay_request *req,
                                    const struct profile *profile, enum field_id id)
{
    if (req->values[id].is_set)
        return &req->values[id];
    if (!profile)
        return NULL;
    return profile->values[id].is_set ? &profile->values[id] : &config->settings[id].value;
}

static bool is_in(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static int add_all(struct cay_request *req, const struct value *layers, struct cay_error *err)
{
    for (const char *const *name = layers->list; name && *name; name++)
        if (cay_request_set(req, fields[FIELD_REQUIRE].name, *name, err) < 0)
            return -1;
    return 0;
}

static int refuse(struct cay_request *req, enum field_id id, const struct value *asked,
                  const struct value *floor, struct cay_error *err)
{
    bool is_profiles = !req->values[id].is_set;
    const char *value = field_text(&req->arena, id, asked);

    cay_fail(err, CAY_E_POLICY, "%s%.60s%s%s: %.60s is looser than this server's, %.60s",
             is_profiles ? "profile: " : "", is_profiles ? req->values[FIELD_PROFILE].text : "",
             is_profiles ? ": " : "", fields[id].name, value ? value : "none",
             field_text(&req->arena, id, floor));
    return cay_hint(err, "leave it out: a request can only tighten what the server sets");
}

int floor_apply(const struct config *config, struct cay_request *req, const char *const *loosening,
                struct cay_error *err)
{
    const struct value *name = &req->values[FIELD_PROFILE];
    const struct profile *profile = name->is_set ? config_profile(config, name->text) : NULL;

    for (int i = 0; i < FIELD_N; i++) {
        enum field_id id = (enum field_id)i;
        const struct value *floor = fields[i].flags & FIELD_ORDERED ? floor_of(config, id) : NULL;
        const struct value *asked = floor ? asked_of(config, req, profile, id) : NULL;
        if (!asked || is_in(loosening, fields[i].name) || field_is_tighter(id, asked, floor))
            continue;
        if (id != FIELD_REQUIRE)
            return refuse(req, id, asked, floor, err);
        if ((asked != &req->values[id] && add_all(req, asked, err) < 0) ||
            add_all(req, floor, err) < 0)
            return -1;
    }
    return 0;
}
