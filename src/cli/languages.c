/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/print.h"

static void join(struct strbuf *out, json_t *words)
{
    size_t i;
    json_t *word;

    json_array_foreach (words, i, word)
        strbuf_printf(out, "%s%s", i ? " " : "", json_string_value(word));
}

static int put_table(const char *json)
{
    auto_strbuf struct strbuf out = { 0 };
    json_t *list = json_loads(json, 0, NULL), *row;
    size_t i;

    strbuf_printf(&out, "%-12s %-10s %-22s %s\n", "LANGUAGE", "VERSION", "ALIASES", "PATH");
    json_array_foreach (list, i, row) {
        auto_strbuf struct strbuf aliases = { 0 }, packages = { 0 };
        const char *version = json_string_value(json_object_get(row, "version"));
        const char *path = json_string_value(json_object_get(row, "path"));
        join(&aliases, json_object_get(row, "aliases"));
        join(&packages, json_object_get(row, "packages"));
        strbuf_printf(&out, "%-12s %-10s %-22s ", json_string_value(json_object_get(row, "name")),
                      version ? version : "-", strbuf_str(&aliases));
        json_t *memory = json_object_get(row, "memory");
        char size[32] = "";
        if (json_is_integer(memory))
            format_bytes(size, (uint64_t)json_integer_value(memory));
        if (path)
            strbuf_printf(&out, "%s%s%s\n", path, *size ? "  memory " : "", size);
        else
            strbuf_printf(&out, "missing: apt-get install %s\n", strbuf_str(&packages));
    }
    json_decref(list);
    return print_text(strbuf_str(&out));
}

int cmd_languages(int argc, char **argv)
{
    bool json = false, help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 0, "json", NULL, "print the list as JSON", &json },
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
            "cay languages [--json]",
            "Lists the languages: name, installed version, aliases, and where the runtime\n"
            "is, or what to install where it is missing.",
            opts, "  cay languages\n  cay languages --json\n");
    if (first < argc)
        return print_unexpected_argument("languages", argv[first]);
    if (cay_open(NULL, &cay, &err) < 0)
        return print_error(&err);
    auto_free char *text = NULL;
    int rc = cay_languages_json(cay, &text, &err);
    cay_close(cay);
    if (rc < 0)
        return print_error(&err);
    return json ? print_text(text) | print_text("\n") : put_table(text);
}
