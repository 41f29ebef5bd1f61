/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/imports.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"

enum { PARTS_MAX = 512 };

static bool is_type(TSNode node, const char *type)
{
    return !ts_node_is_null(node) && strcmp(ts_node_type(node), type) == 0;
}

static TSNode field(TSNode node, const char *name)
{
    return ts_node_child_by_field_name(node, name, (uint32_t)strlen(name));
}

/* Binds the text of a node to a full name. */
static void alias(struct names *names, TSNode name, const char *full)
{
    size_t len;
    const char *text = node_text(names_tree(names), name, &len);
    if (full)
        names_alias(names, text, len, full);
}

static const char *dotted(struct names *names, const char *whole, const char *separator,
                          const char *name)
{
    return whole && whole[0]
               ? arena_printf(names_arena(names), "%.200s%s%.200s", whole, separator, name)
               : name;
}

/* ---- Python ---- */

static void python_name(struct names *names, TSNode node, const char *from, TSNode statement)
{
    TSNode name = is_type(node, "aliased_import") ? field(node, "name") : node;
    TSNode as = is_type(node, "aliased_import") ? field(node, "alias") : (TSNode){ 0 };

    if (!is_type(name, "dotted_name"))
        return;
    const char *text = names_text(names, name);
    if (from) {
        alias(names, ts_node_is_null(as) ? name : as, dotted(names, from, ".", text));
        return;
    }
    names_report_import(names, text, ts_node_is_null(node) ? statement : name);
    if (!ts_node_is_null(as))
        alias(names, as, text);
    else /* `import os.path` binds os */
        alias(names, ts_node_named_child(name, 0),
              arena_dup(names_arena(names), text, strcspn(text, ".")));
}

void imports_python(struct names *names, TSNode node, enum role role)
{
    TSNode module = field(node, "module_name");
    const char *from = NULL;

    (void)role;
    if (is_type(module, "relative_import"))
        return; /* a file of the caller's */
    if (!ts_node_is_null(module)) {
        from = names_text(names, module);
        names_report_import(names, from, module);
    }
    uint32_t n = MIN(ts_node_named_child_count(node), (uint32_t)PARTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        TSNode child = ts_node_named_child(node, i);
        if (!ts_node_is_null(module) && ts_node_eq(child, module))
            continue;
        python_name(names, child, from, node);
    }
}

/* ---- JavaScript and TypeScript ---- */

static void javascript_clause(struct names *names, TSNode clause, const char *module)
{
    struct tree_walk walk;
    TSNode node;
    unsigned n = 0;

    for (tree_walk_begin(&walk, clause); n < PARTS_MAX && tree_walk_next(&walk, &node); n++) {
        if (is_type(node, "import_specifier")) {
            TSNode name = field(node, "name"), as = field(node, "alias");
            if (!ts_node_is_null(name))
                alias(names, ts_node_is_null(as) ? name : as,
                      dotted(names, module, ".", names_text(names, name)));
            tree_walk_skip(&walk);
        } else if (is_type(node, "identifier")) {
            alias(names, node, module);
        }
    }
    tree_walk_end(&walk);
}

void imports_javascript(struct names *names, TSNode node, enum role role)
{
    TSNode source = field(node, "source");
    const char *module = ts_node_is_null(source) ? NULL : fold_node(names, source, 0);

    (void)role;
    for (uint32_t i = 0; !module && i < MIN(ts_node_named_child_count(node), 4U); i++) {
        TSNode clause = ts_node_named_child(node, i); /* import cp = require("…") */
        if (is_type(clause, "import_require_clause") && !ts_node_is_null(field(clause, "source"))) {
            module = fold_node(names, field(clause, "source"), 0);
            if (module)
                alias(names, ts_node_named_child(clause, 0),
                      strncmp(module, "node:", 5) == 0 ? module + 5 : module);
        }
    }
    if (!module)
        return;
    if (strncmp(module, "node:", 5) == 0)
        module += 5;
    names_report_import(names, module, node);
    uint32_t n = MIN(ts_node_named_child_count(node), (uint32_t)PARTS_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (is_type(ts_node_named_child(node, i), "import_clause"))
            javascript_clause(names, ts_node_named_child(node, i), module);
}

/* ---- the others ---- */

void imports_php(struct names *names, TSNode node, enum role role)
{
    TSNode path = ts_node_named_child(node, 0);

    (void)role;
    if (is_type(node, "namespace_use_declaration")) { /* use function system as run; */
        for (uint32_t i = 0; i < MIN(ts_node_named_child_count(node), (uint32_t)PARTS_MAX); i++) {
            TSNode clause = ts_node_named_child(node, i), as = field(clause, "alias");
            if (is_type(clause, "namespace_use_clause") && ts_node_is_null(as))
                as = ts_node_named_child_count(clause) > 1 ? ts_node_named_child(clause, 1) : as;
            if (is_type(as, "namespace_aliasing_clause"))
                as = ts_node_named_child(as, 0);
            if (!ts_node_is_null(as))
                alias(names, as, names_text(names, ts_node_named_child(clause, 0)));
        }
        return;
    }
    if (!ts_node_is_null(path))
        names_report_import(names, fold_node(names, path, 0), node);
}

void imports_go(struct names *names, TSNode node, enum role role)
{
    TSNode path = field(node, "path"), name = field(node, "name");
    const char *module = ts_node_is_null(path) ? NULL : fold_node(names, path, 0);

    (void)role;
    if (!module)
        return;
    names_report_import(names, module, path);
    const char *slash = strrchr(module, '/'), *base = slash ? slash + 1 : module;
    if (!ts_node_is_null(name))
        alias(names, name, module);
    else
        names_alias(names, base, strlen(base), module);
}

void imports_c(struct names *names, TSNode node, enum role role)
{
    TSNode path = field(node, "path");

    (void)role;
    if (ts_node_is_null(path))
        return;
    const char *text = names_text(names, path);
    size_t len = strlen(text);
    if (len > 2)
        names_report_import(names, arena_dup(names_arena(names), text + 1, len - 2), path);
}

void imports_java(struct names *names, TSNode node, enum role role)
{
    TSNode path = ts_node_named_child(node, 0);

    (void)role;
    if (ts_node_is_null(path))
        return;
    const char *text = names_text(names, path), *dot = strrchr(text, '.');
    names_report_import(names, text, path);
    if (dot && ts_node_named_child_count(node) == 1)
        names_alias(names, dot + 1, strlen(dot + 1), text);
}

/* use a::{b, c as d}: a list of what is left to do, for lists nest. */
void imports_rust(struct names *names, TSNode node, enum role role)
{
    struct {
        TSNode node;
        const char *prefix;
    } todo[64];
    unsigned n = 0;
    TSNode argument = field(node, "argument");

    (void)role;
    if (!ts_node_is_null(argument)) {
        todo[n].node = argument;
        todo[n++].prefix = "";
    }
    while (n > 0) {
        TSNode at = todo[--n].node;
        const char *prefix = todo[n].prefix;
        TSNode path = field(at, "path"), list = field(at, "list");
        bool is_group = is_type(at, "scoped_use_list") || is_type(at, "use_list");
        if (is_group) {
            const char *inner = ts_node_is_null(path)
                                    ? prefix
                                    : dotted(names, prefix, "::", names_text(names, path));
            TSNode group = is_type(at, "use_list") ? at : list;
            uint32_t count = ts_node_is_null(group) ? 0 : ts_node_named_child_count(group);
            for (uint32_t i = 0; i < count && n < ARRAY_LEN(todo); i++) {
                todo[n].node = ts_node_named_child(group, i);
                todo[n++].prefix = inner;
            }
            continue;
        }
        bool is_as = is_type(at, "use_as_clause");
        TSNode what = is_as ? path : at;
        const char *own = ts_node_is_null(what) ? "" : names_text(names, what);
        const char *full = strcmp(own, "self") == 0 ? prefix : dotted(names, prefix, "::", own);
        const char *last = strstr(full, "::") ? strrchr(full, ':') + 1 : full;
        names_report_import(names, full, at);
        if (is_as)
            alias(names, field(at, "alias"), full);
        else
            names_alias(names, last, strlen(last), full);
    }
}
