/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The configuration: built-in values, the system's file, the user's file, ./.cay.toml, and the
 * environment, each over the ones before. A project file comes with code that nobody has read: it
 * may hold limits, policy, network and min_isolation only, and only tighten what was there before.
 *
 *     system   /etc/cay/cay.toml
 *     user     $XDG_CONFIG_HOME/cay/cay.toml (~/.config/cay/cay.toml)
 *     project  ./.cay.toml
 */

#include <cay/settings.h>

#include "base/arena.h"
#include "core/field.h"

struct json_writer;
struct toml_value;

enum origin {
    ORIGIN_BUILTIN,
    ORIGIN_SYSTEM,
    ORIGIN_USER,
    ORIGIN_PROJECT,
    ORIGIN_ENVIRONMENT,
    ORIGIN_PROFILE, /* only as config_json tells it */
    ORIGIN_OPTION,  /* of `cay doctor`, which looks at it as if it was set */
};

struct setting {
    struct value value;
    enum origin origin;
    const char *where; /* the file or variable; of a built-in one: why it is lowered, or NULL */
};

struct profile {
    const char *name;
    struct value values[FIELD_N];
    struct profile *next;
};

/* A table [tenant.NAME]; see config-tenant.c. */
enum tenant_key {
    TENANT_CONCURRENCY,
    TENANT_RUNS_PER_MINUTE,
    TENANT_CPU_SECONDS_PER_DAY,
    TENANT_MEMORY,
    TENANT_WEBHOOK_SECRET,
    TENANT_KEYS
};

struct tenant_table {
    struct cay_tenant tenant;
    struct setting keys[TENANT_KEYS];
    struct tenant_table *next;
};

/* The keys of the table [prices]; see config-prices.c. */
enum price_key { PRICE_CPU_SECOND, PRICE_MEMORY_GB_SECOND, PRICE_RUN, PRICE_CURRENCY, PRICE_KEYS };

struct tenant_source {
    const char *name;
    enum origin origin;
    bool is_private; /* nobody but its owner can read it */
};

struct config {
    struct arena arena;
    struct setting settings[FIELD_N];
    struct setting caps[FIELD_N]; /* the most that a request can ask for */
    struct profile *profiles;
    struct tenant_table *tenants;
    struct cay_prices prices;
    struct setting price_keys[PRICE_KEYS];
    struct arena tenant_arena; /* has them once they were read again */
    struct value warnings;     /* a list of what was asked for in vain */
    bool requires_all;         /* a run needs all that its backend can have, whatever it asks for */
};

/* Where to read from; NULL: not at all. For tests, everything can be given. */
struct config_sources {
    const char *system_file;
    const char *user_file;
    const char *project_file;
    const char *const *environment; /* "NAME=value", NULL-terminated */
};

/* The usual places, for this process. */
void config_usual_sources(struct arena *arena, struct config_sources *ret);

int config_load(const struct config_sources *sources, struct config *ret, struct cay_error *err);
void config_done(struct config *config);

/* That of a `struct cay`, for those who need nothing else of it. */
struct cay;
const struct config *config_of(const struct cay *cay);

/* NULL when there is no such profile. */
const struct profile *config_profile(const struct config *config, const char *name);

const char *origin_name(enum origin origin);

/* Every setting with its value and origin, as JSON; of a profile that is set, its values. The
 * caller frees it. */
char *config_json(struct config *config);

/* The tables in [tenant], and how `cay config` shows them: all but the secrets. */
int config_load_tenants(struct config *config, const struct tenant_source *source,
                        const struct toml_value *table, struct cay_error *err);

/* Takes the tables from these files anew, all else in them unread: the system's and the user's,
 * each open or -1: it is not there. On failure the old ones stay. What was had of those is gone. */
int config_reload_tenants(struct config *config, int system_fd, int user_fd, struct cay_error *err);
void config_put_tenants(const struct config *config, struct json_writer *w);

/* The table [prices], and how `cay config` shows it. */
int config_load_prices(struct config *config, const struct tenant_source *source,
                       const struct toml_value *table, struct cay_error *err);
void config_put_prices(const struct config *config, struct json_writer *w);
