/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/print.h"

static void put_setting(struct strbuf *out, const char *prefix, const char *name, json_t *setting)
{
    auto_strbuf struct strbuf full = { 0 };
    const char *value = json_string_value(json_object_get(setting, "value"));
    const char *where = json_string_value(json_object_get(setting, "where"));
    const char *unset = json_string_value(json_object_get(setting, "unset"));

    strbuf_printf(&full, "%s%s", prefix, name);
    value = value ? value : unset ? unset : "-";
    strbuf_printf(out, "%-18s %-28s %s%s%s\n", strbuf_str(&full), value,
                  json_string_value(json_object_get(setting, "origin")), where ? ": " : "",
                  where ? where : "");
}

static void put_profiles(struct strbuf *out, json_t *profiles)
{
    auto_strbuf struct strbuf list = { 0 };
    json_t *name;
    size_t i;

    json_array_foreach (profiles, i, name)
        strbuf_printf(&list, "%s%s", i ? "," : "", json_string_value(name));
    strbuf_printf(out, "%-18s %-28s values for --profile\n", "profiles", strbuf_str(&list));
}

static int put_table(const char *json)
{
    auto_strbuf struct strbuf out = { 0 };
    json_t *root = json_loads(json, 0, NULL), *table, *setting;
    const char *tenant, *name;

    strbuf_printf(&out, "%-18s %-28s %s\n", "SETTING", "VALUE", "FROM");
    json_object_foreach (root, name, setting)
        if (json_is_object(setting) && strcmp(name, "max") != 0 && strcmp(name, "tenant") != 0 &&
            strcmp(name, "prices") != 0)
            put_setting(&out, "", name, setting);
    json_object_foreach (json_object_get(root, "max"), name, setting)
        put_setting(&out, "max.", name, setting);
    json_object_foreach (json_object_get(root, "prices"), name, setting)
        put_setting(&out, "prices.", name, setting);
    json_object_foreach (json_object_get(root, "tenant"), tenant, table) {
        auto_strbuf struct strbuf prefix = { 0 };
        strbuf_printf(&prefix, "tenant.%s.", tenant);
        json_object_foreach (table, name, setting)
            put_setting(&out, strbuf_str(&prefix), name, setting);
    }
    put_profiles(&out, json_object_get(root, "profiles"));
    json_decref(root);
    return print_text(strbuf_str(&out));
}

int cmd_config(int argc, char **argv)
{
    bool json = false, help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 0, "json", NULL, "print the settings as JSON", &json },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay *cay;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help(
            "cay config [--json]",
            "Shows each setting in force and where it came from: built-in, the system's file\n"
            "(/etc/cay/cay.toml), the user's (~/.config/cay/cay.toml), ./.cay.toml, the\n"
            "environment, or a profile that one of them chose.",
            opts, "  cay config\n  CAY_MEMORY=1g cay config\n");
    if (first < argc)
        return print_unexpected_argument("config", argv[first]);
    if (cay_open(NULL, &cay, &err) < 0)
        return print_error(&err);
    auto_free char *text = cay_config_json(cay);
    print_warnings(cay_config_warnings(cay));
    cay_close(cay);
    return json ? print_text(text) | print_text("\n") : put_table(text);
}
