/* SPDX-License-Identifier: Apache-2.0 */
#include "syntax/names.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/siphash.h"

enum {
    TABLE = 4096,
    SMALL_TABLE = 256,
    SMALL_BYTES = 8192,
    STEPS = 8 << 20,
    DEPTH = 64,
    MEMOS = 256
};

struct binding {
    struct binding *next;
    const char *name;
    size_t len;
    const char *full; /* what an import bound it to, or NULL */
    TSNode value;     /* of the first assignment */
    unsigned n;       /* assignments and definitions */
    bool is_busy;     /* its value is being looked at: it refers to itself */
    bool is_folded, is_resolved;
    const char *folded, *resolved;
};

/* What came of a node when it was last asked for. */
struct memo {
    const void *id; /* of the node */
    const char *text;
    int depth; /* from less far down there may be more to it; 0: no */
};

struct names {
    struct arena *arena;
    const struct syntax_tree *tree;
    const struct roles *roles;
    names_import_fn *on_import;
    void *arg;
    struct siphash_key key; /* the names are those of the code */
    struct binding **table;
    uint32_t n_table;
    struct memo memos[MEMO_KINDS][MEMOS];
    size_t steps;
    size_t cuts; /* expressions that were too deep to be followed */
};

/* Python takes ｏｓ and 𝐨𝐬 for os (PEP 3131, NFKC): letters and digits that have a form of their
 * own in Unicode for their width or fount. */
static char plain_letter(const unsigned char *c, size_t len)
{
    if (len >= 3 && c[0] == 0xef && (c[1] == 0xbc || c[1] == 0xbd)) {
        unsigned code = (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU); /* of U+F000 on */
        return code > 0xf00 && code <= 0xf5e ? (char)(code - 0xf00 + ' ') : '\0';
    }
    if (len >= 4 && c[0] == 0xf0 && c[1] == 0x9d && c[2] >= 0x90 && c[2] < 0xa0) {
        unsigned code = (c[2] & 0x0fU) << 6 | (c[3] & 0x3fU); /* of U+1D400 on */
        if (code >= 0x3ce)
            return (char)('0' + (code - 0x3ce) % 10);
        return code < 0x2a4 ? (char)((code % 52 < 26 ? 'A' : 'a' - 26) + code % 52) : '\0';
    }
    return '\0';
}

/* The name as it counts; as it is written, but for such letters. */
static const char *plain_text(struct names *names, const char *text, size_t *len)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t n = 0, i = 0;

    while (i < *len && bytes[i] < 0x80)
        i++;
    if (i == *len || strcmp(names->roles->dialect->name, "python") != 0)
        return text;
    char *copy = arena_dup(names->arena, text, *len);
    for (i = 0; i < *len;) {
        char plain = plain_letter(bytes + i, *len - i);
        copy[n++] = plain ? plain : text[i];
        i += !plain ? 1 : bytes[i] == 0xef ? 3 : 4;
    }
    copy[n] = '\0';
    *len = n;
    return copy;
}

/* ---- bindings ---- */

static struct binding **slot_of(struct names *names, const char *name, size_t len)
{
    return &names->table[siphash(&names->key, name, len) % names->n_table];
}

static struct binding *find(struct names *names, const char *name, size_t len)
{
    for (struct binding *b = *slot_of(names, name, len); b; b = b->next)
        if (b->len == len && memcmp(b->name, name, len) == 0)
            return b;
    return NULL;
}

static struct binding *find_or_add(struct names *names, const char *name, size_t len)
{
    struct binding *binding = find(names, name, len);

    if (!binding) {
        struct binding **slot = slot_of(names, name, len);
        binding = arena_alloc(names->arena, sizeof *binding);
        *binding = (struct binding){ .next = *slot, .name = name, .len = len };
        *slot = binding;
    }
    return binding;
}

/* A null value: the name is the code's own, whatever it holds. */
static void bind(struct names *names, TSNode name, TSNode value)
{
    size_t len;
    const char *text = node_text(names->tree, name, &len);
    struct binding *binding = find_or_add(names, text, len);

    if (binding->n++ == 0)
        binding->value = value;
}

void names_alias(struct names *names, const char *name, size_t len, const char *full)
{
    struct binding *binding = find_or_add(names, name, len);
    if (!binding->full)
        binding->full = full;
}

void names_report_import(struct names *names, const char *module, TSNode node)
{
    if (names->on_import && module && module[0])
        names->on_import(names->arg, module, node);
}

/* ---- reading ---- */

static enum role role_at(const struct names *names, TSNode node)
{
    return (enum role)role_of(names->roles, node)->role;
}

static TSNode part(TSNode node, TSFieldId id)
{
    return id ? ts_node_child_by_field_id(node, id) : (TSNode){ 0 };
}

/* `{exec: e, spawn} = require("child_process")`: each name becomes a part of the whole. */
static void bind_object_pattern(struct names *names, TSNode pattern, TSNode value)
{
    const char *whole = resolve_node(names, value, 0);
    uint32_t n = MIN(ts_node_named_child_count(pattern), 64U);

    for (uint32_t i = 0; i < n; i++) {
        TSNode child = ts_node_named_child(pattern, i), name = child;
        const char *type = ts_node_type(child), *key = names_text(names, child);
        if (strcmp(type, "pair_pattern") == 0) {
            TSNode at = ts_node_child_by_field_name(child, "key", 3);
            name = ts_node_child_by_field_name(child, "value", 5);
            key = ts_node_is_null(at) ? NULL : names_text(names, at);
            const char *folded = ts_node_is_null(at) ? NULL : fold_node(names, at, 0);
            key = folded ? folded : key;
        } else if (strcmp(type, "shorthand_property_identifier_pattern") != 0) {
            continue;
        }
        if (!whole || !key || ts_node_is_null(name))
            continue;
        size_t len;
        const char *text = node_text(names->tree, name, &len);
        names_alias(names, text, len, arena_printf(names->arena, "%.200s.%.200s", whole, key));
    }
}

/* Default values and types in it are not names that it binds. */
static void bind_all(struct names *names, TSNode node)
{
    static const char *const values[] = { "value", "right", "type", "default_value" };
    struct tree_walk walk;
    TSNode at;
    unsigned n = 0;

    for (tree_walk_begin(&walk, node); n < 256 && tree_walk_next(&walk, &at); n++) {
        const char *field = ts_tree_cursor_current_field_name(&walk.cursor);
        enum role role = role_at(names, at);
        bool is_value = role == ROLE_MEMBER || role == ROLE_CALL || role == ROLE_METHOD;
        for (size_t i = 0; field && i < ARRAY_LEN(values); i++)
            is_value = is_value || strcmp(field, values[i]) == 0;
        if (role == ROLE_NAME && !is_value)
            bind(names, at, (TSNode){ 0 });
        if (role == ROLE_NAME || is_value)
            tree_walk_skip(&walk);
    }
    tree_walk_end(&walk);
}

/* The name within a declarator of C: *(f)(int). */
static TSNode innermost(const struct names *names, TSNode node)
{
    for (int i = 0; i < 8 && role_at(names, node) != ROLE_NAME; i++) {
        TSNode inner = ts_node_child_by_field_name(node, "declarator", 10);
        if (ts_node_is_null(inner))
            inner = ts_node_named_child(node, 0);
        if (ts_node_is_null(inner))
            break;
        node = inner;
    }
    return node;
}

static void bind_assignment(struct names *names, TSNode left, TSNode right)
{
    if (ts_node_is_null(left))
        return;
    if (role_at(names, left) == ROLE_LIST) {
        bool is_list = !ts_node_is_null(right) && role_at(names, right) == ROLE_LIST &&
                       ts_node_named_child_count(right) == ts_node_named_child_count(left);
        uint32_t n = MIN(ts_node_named_child_count(left), 64U);
        for (uint32_t i = 0; i < n; i++)
            bind_assignment(names, ts_node_named_child(left, i),
                            is_list ? ts_node_named_child(right, i) : (TSNode){ 0 });
        return;
    }
    if (!ts_node_is_null(right) && role_at(names, right) == ROLE_LIST &&
        ts_node_named_child_count(right) == 1)
        right = ts_node_named_child(right, 0);
    if (strcmp(ts_node_type(left), "object_pattern") == 0) {
        if (!ts_node_is_null(right))
            bind_object_pattern(names, left, right);
        return;
    }
    if (strstr(ts_node_type(left), "declarator"))
        left = innermost(names, left);
    if (role_at(names, left) == ROLE_NAME)
        bind(names, left, right);
}

static void read_node(struct names *names, TSNode node)
{
    const struct node_role *role = role_of(names->roles, node);

    if (role->role < ROLE_ASSIGN || role->role > ROLE_IMPORT)
        return;
    TSNode a = part(node, role->a);
    switch (role->role) {
    case ROLE_ASSIGN:
        if (role->a)
            bind_assignment(names, a, part(node, role->b));
        else if (ts_node_named_child_count(node) == 2)
            bind_assignment(names, ts_node_named_child(node, 0), ts_node_named_child(node, 1));
        break;
    case ROLE_DEFINE:
        if (!ts_node_is_null(a))
            bind(names, innermost(names, a), (TSNode){ 0 });
        break;
    case ROLE_BIND:
        if (!role->a || !ts_node_is_null(a))
            bind_all(names, role->a ? a : node);
        break;
    case ROLE_IMPORT:
        if (names->roles->dialect->import)
            names->roles->dialect->import(names, node, ROLE_IMPORT);
        break;
    default:
        break;
    }
}

struct names *names_read(struct arena *arena, const struct syntax_tree *tree,
                         const struct roles *roles, names_import_fn *on_import, void *arg)
{
    struct names *names = arena_alloc(arena, sizeof *names);
    struct tree_walk walk;
    TSNode node;

    /* It comes zeroed, and is large beside a line of code: nothing is written twice. */
    names->arena = arena;
    names->tree = tree;
    names->roles = roles;
    names->on_import = on_import;
    names->arg = arg;
    names->steps = STEPS;
    names->key = siphash_new_key();
    names->n_table = tree->len <= SMALL_BYTES ? SMALL_TABLE : TABLE;
    names->table = arena_alloc(arena, names->n_table * sizeof *names->table);
    for (tree_walk_begin(&walk, ts_tree_root_node(tree->tree)); tree_walk_next(&walk, &node);)
        read_node(names, node);
    tree_walk_end(&walk);
    return names;
}

/* ---- asking ---- */

bool names_step(struct names *names, int depth)
{
    if (names->steps > 0)
        names->steps--;
    if (names->steps > 0 && depth <= DEPTH)
        return true;
    names->cuts++;
    return false;
}

/* a.b().c().d(): each call asks for the one before it more than once, the walk for each again. */
static struct memo *memo_of(struct names *names, enum memo_kind kind, TSNode node)
{
    uintptr_t id = (uintptr_t)node.id >> 3;
    return &names->memos[kind][(id ^ id >> 8) % MEMOS];
}

const char *names_memo(struct names *names, enum memo_kind kind, TSNode node, int depth,
                       names_ask_fn *ask)
{
    struct memo *memo = memo_of(names, kind, node);
    size_t cuts = names->cuts;

    if (memo->id == node.id && depth >= memo->depth)
        return memo->text;
    const char *text = ask(names, node, depth);
    *memo = (struct memo){ node.id, text, names->cuts == cuts ? 0 : depth };
    return text;
}

bool names_is_spent(const struct names *names)
{
    return names->steps == 0;
}

const struct syntax_tree *names_tree(const struct names *names)
{
    return names->tree;
}

const struct roles *names_roles(const struct names *names)
{
    return names->roles;
}

struct arena *names_arena(const struct names *names)
{
    return names->arena;
}

const char *names_text(struct names *names, TSNode node)
{
    size_t len;
    const char *text = node_text(names->tree, node, &len);
    text = plain_text(names, text, &len);
    return arena_dup(names->arena, text, MIN(len, (size_t)NAME_MAX_BYTES));
}

const char *names_fold(struct names *names, TSNode node)
{
    return fold_node(names, node, 0);
}

const char *names_resolve(struct names *names, TSNode node)
{
    return resolve_node(names, node, 0);
}

const char *names_fold_variable(struct names *names, const char *name, size_t len, int depth)
{
    struct binding *binding = find(names, name, len);

    if (!binding || binding->n != 1 || binding->full || ts_node_is_null(binding->value) ||
        binding->is_busy)
        return NULL;
    if (!binding->is_folded) {
        binding->is_busy = true;
        binding->folded = fold_node(names, binding->value, depth + 1);
        binding->is_folded = true;
        binding->is_busy = false;
    }
    return binding->folded;
}

/* A name: what an import bound it to, what it was assigned once, or itself where nobody did. */
static const char *resolve_name(struct names *names, TSNode node, int depth)
{
    size_t len;
    const char *text = node_text(names->tree, node, &len);
    text = plain_text(names, text, &len);
    if (len > 2 && text[0] == '`' && text[len - 1] == '`') { /* `system`("ls") of R */
        text++;
        len -= 2;
    }
    struct binding *binding = find(names, text, len);

    if (len > NAME_MAX_BYTES)
        return NULL;
    if (binding && binding->full)
        return binding->full;
    if (!binding)
        return arena_dup(names->arena, text, len);
    if (binding->n != 1 || ts_node_is_null(binding->value) || binding->is_busy)
        return NULL;
    if (!binding->is_resolved) {
        binding->is_busy = true;
        binding->resolved = resolve_node(names, binding->value, depth + 1);
        binding->is_resolved = true;
        binding->is_busy = false;
    }
    return binding->resolved;
}

static bool is_one_of(const char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* "builtins.eval" is eval, "eval.call" too. */
static const char *plain_name(struct names *names, const char *name)
{
    const struct dialect *dialect = names->roles->dialect;
    bool is_cut = name != NULL;

    if (name && dialect->is_caseless && name[0] != '$') {
        char *lower = arena_str(names->arena, name);
        for (char *c = lower; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        name = lower;
    }

    while (is_cut) {
        is_cut = false;
        for (const char *const *p = dialect->prefixes; p && *p; p++)
            if (strncmp(name, *p, strlen(*p)) == 0 && name[strlen(*p)]) {
                name += strlen(*p);
                is_cut = true;
            }
        for (const char *const *s = dialect->suffixes; s && *s; s++) {
            size_t len = strlen(name), tail = strlen(*s);
            if (len > tail && strcmp(name + len - tail, *s) == 0) {
                name = arena_dup(names->arena, name, len - tail);
                is_cut = true;
            }
        }
    }
    return name;
}

static const char *join(struct names *names, const char *whole, const char *name)
{
    if (!whole || !name || strlen(whole) + strlen(name) + 2 > NAME_MAX_BYTES)
        return NULL;
    const char *separator = names->roles->dialect->separator;
    size_t n = strlen(whole), between = strlen(separator), len = strlen(name);
    char *joined = arena_alloc(names->arena, n + between + len + 1);
    char *end = mempcpy(joined, whole, n);
    end = mempcpy(end, separator, between);
    memcpy(end, name, len + 1);
    return plain_name(names, joined);
}

TSNode names_argument(const struct names *names, TSNode call, unsigned n)
{
    const struct node_role *role = role_of(names->roles, call);
    TSNode list = part(call, role->role == ROLE_CALL ? role->b : names->roles->arguments);
    if (ts_node_is_null(list) && role->role == ROLE_NEW && ts_node_named_child_count(call) > 1)
        list = ts_node_named_child(call, ts_node_named_child_count(call) - 1);
    uint32_t count = ts_node_is_null(list) ? 0 : MIN(ts_node_named_child_count(list), 256U);

    for (uint32_t i = 0; i < count; i++) {
        TSNode child = ts_node_named_child(list, i);
        enum role kind = role_at(names, child);
        if (kind == ROLE_KEYWORD || strstr(ts_node_type(child), "comment") ||
            strcmp(ts_node_type(child), "comma") == 0)
            continue;
        if (kind == ROLE_ARGUMENT && ts_node_named_child_count(child) > 0)
            child = ts_node_named_child(child, ts_node_named_child_count(child) - 1);
        if (n-- == 0)
            return child;
    }
    return (TSNode){ 0 };
}

static const char *ask_called(struct names *names, TSNode call, int depth)
{
    const struct node_role *role = role_of(names->roles, call);
    TSNode a = part(call, role->a), b = part(call, role->b);

    if (role->role == ROLE_CALL) {
        const char *name = NULL;
        if (names->roles->dialect->names_by_string && !ts_node_is_null(a))
            name = plain_name(names, fold_node(names, a, depth + 1)); /* $f = "system"; $f("ls") */
        return name || ts_node_is_null(a) ? name : resolve_node(names, a, depth + 1);
    }
    if (role->role == ROLE_NEW) {
        if (ts_node_is_null(a))
            a = ts_node_named_child(call, 0);
        return ts_node_is_null(a) ? NULL : resolve_node(names, a, depth + 1);
    }
    if (ts_node_is_null(b))
        return NULL;
    if (ts_node_is_null(a))
        return resolve_name(names, b, depth);
    const char *whole = resolve_node(names, a, depth + 1);
    return join(names, whole ? whole : "?", names_text(names, b));
}

const char *names_called(struct names *names, TSNode call, int depth)
{
    return names_memo(names, MEMO_CALLED, call, depth, ask_called);
}

static const char *module_of(struct names *names, TSNode call, int depth)
{
    const char *function = names_called(names, call, depth);

    if (!function || !is_one_of(names->roles->dialect->importers, function))
        return NULL;
    TSNode argument = names_argument(names, call, 0);
    if (ts_node_is_null(argument))
        return NULL;
    const char *module = fold_node(names, argument, depth + 1);
    if (!module && strcmp(names->roles->dialect->name, "r") == 0)
        module = names_text(names, argument); /* library(httr) */
    if (module && strncmp(module, "node:", 5) == 0)
        module += 5;
    return module;
}

const char *names_imported(struct names *names, TSNode call)
{
    return module_of(names, call, 0);
}

static const char *resolve_call(struct names *names, TSNode node, int depth)
{
    const char *module = module_of(names, node, depth);

    if (module)
        return plain_name(names, module);
    const char *function = names_called(names, node, depth);
    if (!function)
        return NULL;
    if (is_one_of(names->roles->dialect->getters, function)) {
        TSNode whole = names_argument(names, node, 0), name = names_argument(names, node, 1);
        if (ts_node_is_null(whole) || ts_node_is_null(name))
            return NULL;
        const char *object = resolve_node(names, whole, depth + 1);
        return join(names, object ? object : "?", fold_node(names, name, depth + 1));
    }
    /* vars(os)["system"], globals()["eval"] */
    if (strcmp(function, "vars") == 0 && !ts_node_is_null(names_argument(names, node, 0)))
        return resolve_node(names, names_argument(names, node, 0), depth + 1);
    if (strcmp(function, "globals") == 0 || strcmp(function, "locals") == 0)
        return "builtins";
    return join(names, function, "()");
}

static const char *resolve_member(struct names *names, TSNode node, int depth)
{
    const struct node_role *role = role_of(names->roles, node);
    TSNode a = part(node, role->a), b = part(node, role->b);

    if (ts_node_is_null(b))
        return NULL;
    const char *whole = ts_node_is_null(a) ? "" : resolve_node(names, a, depth + 1);
    const char *name = names_text(names, b);
    if (ts_node_is_null(a))
        return name;
    if (whole && strcmp(name, "__dict__") == 0)
        return whole;
    return join(names, whole ? whole : "?", name);
}

static const char *resolve_index(struct names *names, TSNode node, int depth)
{
    const struct node_role *role = role_of(names->roles, node);
    TSNode a = part(node, role->a), b = part(node, role->b);

    if (ts_node_is_null(a) || ts_node_is_null(b))
        return NULL;
    const char *whole = resolve_node(names, a, depth + 1);
    return join(names, whole ? whole : "?", fold_node(names, b, depth + 1));
}

const char *resolve_node(struct names *names, TSNode node, int depth)
{
    const struct node_role *role = role_of(names->roles, node);
    uint32_t n;

    if (!names_step(names, depth))
        return NULL;
    switch (role->role) {
    case ROLE_NAME:
        return plain_name(names, resolve_name(names, node, depth));
    case ROLE_PAREN:
        n = ts_node_named_child_count(node);
        return n ? resolve_node(names, ts_node_named_child(node, n - 1), depth + 1) : NULL;
    case ROLE_CAST:
        n = ts_node_named_child_count(node);
        return n ? resolve_node(names, ts_node_named_child(node, 0), depth + 1) : NULL;
    case ROLE_MEMBER:
        return names_memo(names, MEMO_RESOLVED, node, depth, resolve_member);
    case ROLE_INDEX:
        return names_memo(names, MEMO_RESOLVED, node, depth, resolve_index);
    case ROLE_CALL:
    case ROLE_METHOD:
    case ROLE_NEW:
        return names_memo(names, MEMO_RESOLVED, node, depth, resolve_call);
    default:
        return NULL;
    }
}
