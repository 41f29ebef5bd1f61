/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever the text: it is refused with a message that names file and line, or it gives a document
 * that keeps what toml.h says of it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/toml.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_value(const struct toml_value *value, unsigned lines, unsigned depth)
{
    must(value->line >= 1 && value->line <= lines);
    if (value->kind == TOML_STRING || value->kind == TOML_DATETIME) {
        must(utf8_is_valid(value->text, value->len));
        must(value->text[value->len] == '\0');
    }
    if (value->kind != TOML_ARRAY && value->kind != TOML_TABLE)
        return;

    must(depth <= TOML_DEPTH_MAX);
    size_t count = 0;
    for (const struct toml_value *v = value->first; v; v = v->next) {
        count++;
        must(v->next || v == value->last);
        must((v->key != NULL) == (value->kind == TOML_TABLE));
        if (v->key) {
            must(utf8_is_valid(v->key, v->key_len));
            must(v->key[v->key_len] == '\0');
            /* found under its key, so no other value of the table has the same */
            if (strlen(v->key) == v->key_len)
                must(toml_get(value, v->key) == v);
        }
        check_value(v, lines, depth + 1);
    }
    must(count == value->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char prefix[] = "fuzz.toml:";
    struct arena arena = { 0 };
    struct toml_value *root = NULL;
    struct cay_error err = { 0 };
    unsigned lines = 1;

    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    if (toml_parse(&arena, (const char *)data, size, "fuzz.toml", &root, &err) < 0) {
        must(!root && err.kind == CAY_E_USAGE);
        must(strncmp(err.msg, prefix, sizeof prefix - 1) == 0);
        unsigned long line = strtoul(err.msg + sizeof prefix - 1, NULL, 10);
        must(line >= 1 && line <= lines);
        must(utf8_is_valid(err.msg, strlen(err.msg)));
        for (const char *c = err.msg; *c; c++)
            must((unsigned char)*c >= 0x20 && *c != 0x7f);
    } else {
        must(err.kind == CAY_E_OK);
        check_value(root, lines, 0);
    }
    arena_done(&arena);
    return 0;
}
