/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices: the table [prices] of the system's and the user's file, for the estimate of `cay stats`.
 * What the system's file sets, the user's does not change.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/toml.h"
#include "core/config.h"

enum { CURRENCY_MAX = 12 };

static const double price_max = 1e6;

static const char *const names[PRICE_KEYS] = {
    [PRICE_CPU_SECOND] = "cpu_second",
    [PRICE_MEMORY_GB_SECOND] = "memory_gb_second",
    [PRICE_RUN] = "run",
    [PRICE_CURRENCY] = "currency",
};

/* A word that a terminal and a table can show. */
static bool is_currency(const struct toml_value *entry)
{
    if (entry->kind != TOML_STRING || entry->len < 1 || entry->len > CURRENCY_MAX)
        return false;
    for (size_t i = 0; i < entry->len; i++)
        if ((unsigned char)entry->text[i] <= ' ' || entry->text[i] == 0x7f)
            return false;
    return true;
}

static bool is_price(const struct toml_value *entry, double *ret)
{
    if (entry->kind == TOML_INTEGER)
        *ret = (double)entry->integer;
    else if (entry->kind == TOML_FLOAT)
        *ret = entry->number;
    else
        return false;
    return *ret >= 0 && *ret <= price_max; /* nor what is no number */
}

static void set_price(struct cay_prices *prices, enum price_key key, double price)
{
    double *const places[PRICE_KEYS] = {
        [PRICE_CPU_SECOND] = &prices->cpu_second,
        [PRICE_MEMORY_GB_SECOND] = &prices->memory_gb_second,
        [PRICE_RUN] = &prices->run,
    };

    *places[key] = price;
    prices->is_set = true;
}

static int load_key(struct config *config, const struct tenant_source *source, enum price_key key,
                    const struct toml_value *entry, struct cay_error *err)
{
    struct setting *setting = &config->price_keys[key];
    double price = 0;

    if (key == PRICE_CURRENCY && !is_currency(entry))
        return cay_fail(err, CAY_E_USAGE, "%s:%u: currency: is not a word of 1 to %d bytes",
                        source->name, entry->line, CURRENCY_MAX);
    if (key != PRICE_CURRENCY && !is_price(entry, &price))
        return cay_fail(err, CAY_E_USAGE, "%s:%u: %s: is not a number from 0 to %.0f", source->name,
                        entry->line, names[key], price_max);
    if (setting->origin == ORIGIN_SYSTEM)
        return 0;
    const char *text = key == PRICE_CURRENCY ? arena_str(&config->arena, entry->text)
                                             : arena_printf(&config->arena, "%.12g", price);
    *setting = (struct setting){ { .is_set = true, .text = text }, source->origin, source->name };
    if (key == PRICE_CURRENCY)
        config->prices.currency = text;
    else
        set_price(&config->prices, key, price);
    return 0;
}

int config_load_prices(struct config *config, const struct tenant_source *source,
                       const struct toml_value *table, struct cay_error *err)
{
    for (const struct toml_value *entry = table->first; entry; entry = entry->next) {
        int key = 0;
        while (key < PRICE_KEYS && strcmp(names[key], entry->key) != 0)
            key++;
        if (key < PRICE_KEYS) {
            if (load_key(config, source, (enum price_key)key, entry, err) < 0)
                return -1;
            continue;
        }
        cay_fail(err, CAY_E_USAGE, "%s:%u: %.80s: unknown price", source->name, entry->line,
                 entry->key);
        const char *near = suggest(entry->key, names, PRICE_KEYS);
        if (near)
            return cay_hint(err, "did you mean %s?", near);
        return cay_hint(err, "cpu_second, memory_gb_second, run, currency");
    }
    return 0;
}

void config_put_prices(const struct config *config, struct json_writer *w)
{
    json_field_object(w, "prices");
    for (int i = 0; i < PRICE_KEYS; i++) {
        const struct setting *setting = &config->price_keys[i];
        if (!setting->value.is_set)
            continue;
        json_field_object(w, names[i]);
        json_field_string(w, "value", setting->value.text);
        json_field_string(w, "origin", origin_name(setting->origin));
        json_field_string(w, "where", setting->where);
        json_end_object(w);
    }
    json_end_object(w);
}
