/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that a call gives: what the usual functions on texts make of constants. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/base64.h"
#include "syntax/fold.h"

enum { LIST_MAX = 2048, ARGUMENTS_MAX = 64 };

static const char *text_of(struct folding *f, TSNode node)
{
    return ts_node_is_null(node) ? NULL : fold_node(f->names, node, f->depth + 1);
}

static enum role role_at(const struct folding *f, TSNode node)
{
    return (enum role)role_of(names_roles(f->names), node)->role;
}

/* A whole number as it is written; -1 where it is none. */
static long number_of(const struct folding *f, TSNode node)
{
    char digits[24], *end;
    size_t len = 0;
    const char *text = ts_node_is_null(node) ? "" : node_text(names_tree(f->names), node, &len);

    if (len == 0 || len >= sizeof digits || !isdigit((unsigned char)text[0]))
        return -1;
    memcpy(digits, text, len);
    digits[len] = '\0';
    long value = strtol(digits, &end, 0);
    return *end ? -1 : value;
}

/* ---- one text into another ---- */

enum change {
    CHANGE_NONE,
    CHANGE_TRIM,
    CHANGE_LOWER,
    CHANGE_UPPER,
    CHANGE_REVERSE,
    CHANGE_ROT13,
    CHANGE_HEX,
    CHANGE_BASE64,
    CHANGE_BUFFER, /* Buffer.from(text, "hex"): the second argument says what it is */
    CHANGE_CODEC,  /* codecs.decode(text, "rot13") */
    CHANGE_N,
};

static char one(char c, enum change change)
{
    char base = (char)(c & 0x20 ? 'a' : 'A');

    if (change == CHANGE_LOWER)
        return (char)tolower((unsigned char)c);
    if (change == CHANGE_UPPER)
        return (char)toupper((unsigned char)c);
    return change == CHANGE_ROT13 && isalpha((unsigned char)c) ? (char)(base + (c - base + 13) % 26)
                                                               : c;
}

static bool put_hex(struct strbuf *out, const char *text)
{
    for (; isxdigit((unsigned char)text[0]) && isxdigit((unsigned char)text[1]); text += 2) {
        const char pair[3] = { text[0], text[1], '\0' };
        strbuf_putc(out, (char)strtol(pair, NULL, 16));
    }
    return *text == '\0';
}

static const char *changed(struct folding *f, const char *text, enum change change)
{
    size_t len = text ? strlen(text) : 0;
    bool is_right = text != NULL;

    if (change == CHANGE_TRIM) {
        while (len > 0 && isspace((unsigned char)text[len - 1]))
            len--;
        for (; len > 0 && isspace((unsigned char)*text); len--)
            text++;
    }
    if (is_right && change == CHANGE_BASE64)
        is_right = base64_decode(&f->out, text, len) == 0;
    else if (is_right && change == CHANGE_HEX)
        is_right = put_hex(&f->out, text);
    else
        for (size_t i = 0; i < len; i++)
            strbuf_putc(&f->out,
                        change == CHANGE_REVERSE ? text[len - 1 - i] : one(text[i], change));
    return fold_done(f, is_right);
}

/* Which encoding a constant names. */
static enum change by_codec(const char *codec)
{
    static const struct {
        const char *name;
        enum change change;
    } rows[] = {
        { "hex", CHANGE_HEX },     { "base64", CHANGE_BASE64 }, { "base64url", CHANGE_BASE64 },
        { "rot13", CHANGE_ROT13 }, { "rot_13", CHANGE_ROT13 },
    };

    for (size_t i = 0; codec && i < ARRAY_LEN(rows); i++)
        if (strcasecmp(codec, rows[i].name) == 0)
            return rows[i].change;
    return CHANGE_NONE;
}

static const struct {
    const char *name; /* of a method; with_name: of a function */
    enum change change;
} methods[] = {
    { "lower", CHANGE_LOWER },     { "toLowerCase", CHANGE_LOWER },   { "downcase", CHANGE_LOWER },
    { "upper", CHANGE_UPPER },     { "toUpperCase", CHANGE_UPPER },   { "upcase", CHANGE_UPPER },
    { "decode", CHANGE_NONE },     { "encode", CHANGE_NONE },         { "strip", CHANGE_TRIM },
    { "toString", CHANGE_NONE },   { "to_s", CHANGE_NONE },           { "to_sym", CHANGE_NONE },
    { "reverse", CHANGE_REVERSE }, { "trim", CHANGE_TRIM },           { "valueOf", CHANGE_NONE },
    { "freeze", CHANGE_NONE },     { "casefold", CHANGE_LOWER },      { "chomp", CHANGE_TRIM },
}, functions[] = {
    { "base64.b64decode", CHANGE_BASE64 },
    { "base64.standard_b64decode", CHANGE_BASE64 },
    { "base64.urlsafe_b64decode", CHANGE_BASE64 },
    { "atob", CHANGE_BASE64 },
    { "base64_decode", CHANGE_BASE64 },
    { "Base64.decode64", CHANGE_BASE64 },
    { "Base64.strict_decode64", CHANGE_BASE64 },
    { "Buffer.from", CHANGE_BUFFER },
    { "codecs.decode", CHANGE_CODEC },
    { "bytes.fromhex", CHANGE_HEX },
    { "bytearray.fromhex", CHANGE_HEX },
    { "binascii.unhexlify", CHANGE_HEX },
    { "base64.b16decode", CHANGE_HEX },
    { "hex2bin", CHANGE_HEX },
    { "str_rot13", CHANGE_ROT13 },
    { "strrev", CHANGE_REVERSE },
    { "string.reverse", CHANGE_REVERSE },
    { "reversed", CHANGE_REVERSE },
    { "strtolower", CHANGE_LOWER },
    { "string.lower", CHANGE_LOWER },
    { "tolower", CHANGE_LOWER },
    { "strtoupper", CHANGE_UPPER },
    { "string.upper", CHANGE_UPPER },
    { "toupper", CHANGE_UPPER },
    { "str", CHANGE_NONE },
    { "String", CHANGE_NONE },
    { "strval", CHANGE_NONE },
    { "trim", CHANGE_TRIM },
};

/* ---- joining ---- */

/* The codes of a list: [111, 115]. */
static bool put_codes(struct folding *f, TSNode list)
{
    uint32_t n = ts_node_is_null(list) || role_at(f, list) != ROLE_LIST
                     ? 0
                     : ts_node_named_child_count(list);

    for (uint32_t i = 0; i < MIN(n, (uint32_t)LIST_MAX); i++) {
        long code = number_of(f, ts_node_named_child(list, i));
        if (code <= 0 || code >= 0x110000)
            return false;
        fold_put_code(&f->out, (uint32_t)code, true);
    }
    return n > 0;
}

/* map(chr, [111, 115]); chr(c) for c in [111, 115] */
static bool put_mapped(struct folding *f, TSNode node)
{
    const struct roles *roles = names_roles(f->names);
    TSNode made, list;

    if (role_at(f, node) == ROLE_CALL) {
        const char *name = resolve_node(f->names, node, f->depth + 1);
        if (!name || strcmp(name, "map.()") != 0)
            return false;
        made = names_argument(f->names, node, 0);
        list = names_argument(f->names, node, 1);
    } else {
        TSNode clause = ts_node_named_child(node, 1);
        made = ts_node_named_child(node, 0);
        if (ts_node_is_null(clause) || strcmp(ts_node_type(clause), "for_in_clause") != 0 ||
            role_at(f, made) != ROLE_CALL)
            return false;
        made = ts_node_child_by_field_id(made, role_of(roles, made)->a);
        list = ts_node_child_by_field_name(clause, "right", 5);
    }
    return !ts_node_is_null(made) && node_is(names_tree(f->names), made, "chr") &&
           put_codes(f, list);
}

/* "so".split("").reverse(): the same characters, in this order or the other. */
static const char *text_of_characters(struct folding *f, TSNode node)
{
    const struct roles *roles = names_roles(f->names);
    bool is_reversed = false;

    for (int i = 0; i < 4 && role_at(f, node) == ROLE_CALL; i++) {
        TSNode function = ts_node_child_by_field_id(node, role_of(roles, node)->a);
        if (ts_node_is_null(function) || role_at(f, function) != ROLE_MEMBER)
            return NULL;
        TSNode name = ts_node_child_by_field_id(function, role_of(roles, function)->b);
        bool is_reverse = node_is(names_tree(f->names), name, "reverse");
        if (!is_reverse && !node_is(names_tree(f->names), name, "split"))
            return NULL;
        is_reversed = is_reversed != is_reverse;
        node = ts_node_child_by_field_id(function, role_of(roles, function)->a);
        if (ts_node_is_null(node))
            return NULL;
        if (!is_reverse) {
            struct folding inner = { .names = f->names, .depth = f->depth };
            return changed(&inner, text_of(f, node), is_reversed ? CHANGE_REVERSE : CHANGE_NONE);
        }
    }
    return NULL;
}

/* "".join(["a", "b"]), ["a", "b"].join("") */
static const char *fold_join(struct folding *f, const char *separator, TSNode list)
{
    uint32_t n = ts_node_is_null(list) ? 0 : ts_node_named_child_count(list);
    bool is_constant = separator && n <= LIST_MAX && !ts_node_is_null(list);

    if (is_constant && role_at(f, list) != ROLE_LIST) {
        const char *text = text_of_characters(f, list);
        if (!text && separator[0] == '\0' && put_mapped(f, list))
            return fold_done(f, true);
        if (!text && separator[0] == '\0')
            text = text_of(f, list); /* reversed("so") */
        strbuf_puts(&f->out, text ? text : "");
        return fold_done(f, text != NULL);
    }
    for (uint32_t i = 0; i < n && is_constant; i++) {
        if (i > 0)
            strbuf_puts(&f->out, separator);
        is_constant = fold_add(f, ts_node_named_child(list, i));
    }
    return fold_done(f, is_constant);
}

/* chr(111), String.fromCharCode(111, 115) */
static const char *fold_codes(struct folding *f, TSNode call)
{
    bool is_constant = true;

    for (unsigned i = 0; is_constant && i < ARGUMENTS_MAX; i++) {
        TSNode node = names_argument(f->names, call, i);
        if (ts_node_is_null(node))
            break;
        long code = number_of(f, node);
        is_constant = code > 0 && code < 0x110000;
        if (is_constant)
            fold_put_code(&f->out, (uint32_t)code, true);
    }
    return fold_done(f, is_constant && f->out.len > 0);
}

/* "a".concat("b"), paste0("a", "b") */
static const char *fold_concat(struct folding *f, TSNode first, TSNode call, const char *separator)
{
    bool is_constant = ts_node_is_null(first) || fold_add(f, first);

    for (unsigned i = 0; is_constant && i < ARGUMENTS_MAX; i++) {
        TSNode node = names_argument(f->names, call, i);
        if (ts_node_is_null(node))
            break;
        if (i > 0)
            strbuf_puts(&f->out, separator);
        is_constant = fold_add(f, node);
    }
    return fold_done(f, is_constant && f->out.len > 0);
}

/* ---- forms: "%s%s", "{}{}" ---- */

/* The n-th value that goes into the form. */
struct values {
    TSNode call; /* an argument of it, the first of which is `skip` … */
    unsigned skip;
    TSNode list; /* … or, with no call, of a list, or that alone */
};

static TSNode value_at(const struct folding *f, const struct values *values, unsigned n)
{
    if (!ts_node_is_null(values->call))
        return names_argument(f->names, values->call, n + values->skip);
    if (role_at(f, values->list) == ROLE_LIST)
        return ts_node_named_child(values->list, n);
    return n == 0 ? values->list : (TSNode){ 0 };
}

static const char *fold_form(struct folding *f, const char *form, const struct values *values)
{
    bool is_constant = form != NULL;
    unsigned n = 0;

    for (; is_constant && *form; form++) {
        bool is_percent = form[0] == '%' && form[1] == 's';
        bool is_brace = form[0] == '{' && form[1] == '}';
        bool is_numbered = form[0] == '{' && isdigit((unsigned char)form[1]) && form[2] == '}';
        if (!is_percent && !is_brace && !is_numbered) {
            strbuf_putc(&f->out, *form);
            continue;
        }
        TSNode value = value_at(f, values, is_numbered ? (unsigned)(form[1] - '0') : n++);
        is_constant = !ts_node_is_null(value) && fold_add(f, value);
        form += is_numbered ? 2 : 1;
    }
    return fold_done(f, is_constant);
}

const char *fold_percent(struct folding *f, TSNode node)
{
    const struct node_role *role = role_of(names_roles(f->names), node);
    TSNode left = ts_node_child_by_field_id(node, role->a);
    struct values values = { .list = ts_node_child_by_field_id(node, role->b) };

    if (ts_node_is_null(left) || ts_node_is_null(values.list))
        return fold_done(f, false);
    return fold_form(f, text_of(f, left), &values);
}

/* ---- parts ---- */

static const char *fold_replace(struct folding *f, const char *text, const char *from,
                                const char *to)
{
    if (!text || !from || !to || !from[0])
        return fold_done(f, false);
    for (const char *hit; (hit = strstr(text, from)); text = hit + strlen(from)) {
        strbuf_add(&f->out, text, (size_t)(hit - text));
        strbuf_puts(&f->out, to);
    }
    strbuf_puts(&f->out, text);
    return fold_done(f, true);
}

/* From `start` to before `end`; -1: to the last. */
static const char *fold_slice(struct folding *f, const char *text, long start, long end)
{
    long len = text ? (long)strlen(text) : -1;

    if (start < 0 || len < 0)
        return fold_done(f, false);
    end = end < 0 || end > len ? len : end;
    if (start < end)
        strbuf_add(&f->out, text + start, (size_t)(end - start));
    return fold_done(f, true);
}

/* "metsys"[::-1], "xxosxx"[2:4] */
const char *fold_index(struct folding *f, TSNode node)
{
    const struct node_role *role = role_of(names_roles(f->names), node);
    TSNode whole = ts_node_child_by_field_id(node, role->a);
    TSNode index = ts_node_child_by_field_id(node, role->b);

    if (ts_node_is_null(whole) || ts_node_is_null(index))
        return fold_done(f, false);
    if (node_is(names_tree(f->names), index, "::-1"))
        return changed(f, text_of(f, whole), CHANGE_REVERSE);
    char part[48], *end;
    size_t len;
    const char *text = node_text(names_tree(f->names), index, &len);
    memcpy(part, text, MIN(len, sizeof part - 1));
    part[MIN(len, sizeof part - 1)] = '\0';
    long start = strtol(part, &end, 10), stop = end[0] == ':' && end[1] ? -2 : -1;
    if (len >= sizeof part || *end != ':' || start < 0)
        return fold_done(f, false);
    if (stop == -2)
        stop = strtol(end + 1, &end, 10);
    return fold_slice(f, text_of(f, whole), start, *end && *end != ':' ? -1 : stop);
}

/* ---- which it is ---- */

static const char *by_function(struct folding *f, TSNode call, const char *full, bool *ret_is)
{
    static const char *const codes[] = {
        "chr", "String.fromCharCode", "String.fromCodePoint", "string.char", "utf8.char", "unichr"
    };
    static const char *const joiners[] = { "os.path.join", "posixpath.join",     "path.join",
                                           "path.resolve", "path/filepath.Join", "path.Join",
                                           "File.join",    "file.path" };
    static const char *const forms[] = { "sprintf", "string.format", "format", "printf" };
    TSNode none = { 0 }, first = names_argument(f->names, call, 0),
           second = names_argument(f->names, call, 1);

    *ret_is = true;
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (strcmp(full, codes[i]) == 0)
            return fold_codes(f, call);
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        enum change change = functions[i].change;
        if (strcmp(full, functions[i].name) != 0)
            continue;
        if (change == CHANGE_BUFFER || change == CHANGE_CODEC)
            change = by_codec(ts_node_is_null(second) ? NULL : text_of(f, second));
        return changed(f, text_of(f, first), change);
    }
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (strcmp(full, forms[i]) == 0)
            return fold_form(f, text_of(f, first), &(struct values){ .call = call, .skip = 1 });
    for (size_t i = 0; i < ARRAY_LEN(joiners); i++)
        if (strcmp(full, joiners[i]) == 0)
            return fold_concat(f, none, call, "/");
    if (strcmp(full, "paste0") == 0 || strcmp(full, "paste") == 0)
        return fold_concat(f, none, call, full[5] ? "" : " ");
    if ((strcmp(full, "implode") == 0 || strcmp(full, "join") == 0) && !ts_node_is_null(second))
        return fold_join(f, text_of(f, first), second);
    if (strcmp(full, "str_replace") == 0)
        return fold_replace(f, text_of(f, names_argument(f->names, call, 2)), text_of(f, first),
                            text_of(f, second));
    *ret_is = false;
    return NULL;
}

static const char *by_method(struct folding *f, TSNode call, TSNode whole, TSNode name)
{
    static const char *const replacers[] = { "replace", "replaceAll", "gsub", "sub" };
    static const char *const slicers[] = { "slice", "substring" };
    const struct syntax_tree *tree = names_tree(f->names);
    TSNode first = names_argument(f->names, call, 0), second = names_argument(f->names, call, 1);

    if (node_is(tree, name, "join")) {
        enum role role = role_at(f, whole);
        TSNode made = ts_node_child_by_field_name(call, "arguments", 9);
        if (!ts_node_is_null(made) && strcmp(ts_node_type(made), "generator_expression") == 0)
            first = made;
        if (role == ROLE_LIST || (role == ROLE_CALL && text_of_characters(f, whole)))
            return fold_join(f, ts_node_is_null(first) ? "," : text_of(f, first), whole);
        return fold_join(f, text_of(f, whole), first);
    }
    if (node_is(tree, name, "concat"))
        return fold_concat(f, whole, call, "");
    if (node_is(tree, name, "format"))
        return fold_form(f, text_of(f, whole), &(struct values){ .call = call });
    for (size_t i = 0; i < ARRAY_LEN(replacers); i++)
        if (node_is(tree, name, replacers[i]))
            return fold_replace(f, text_of(f, whole), text_of(f, first), text_of(f, second));
    for (size_t i = 0; i < ARRAY_LEN(slicers); i++)
        if (node_is(tree, name, slicers[i]))
            return fold_slice(f, text_of(f, whole), number_of(f, first), number_of(f, second));
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (node_is(tree, name, methods[i].name))
            return changed(f, text_of(f, whole), methods[i].change);
    return fold_done(f, false);
}

const char *fold_call(struct folding *f, TSNode call)
{
    const struct roles *roles = names_roles(f->names);
    const struct node_role *role = role_of(roles, call);
    TSNode function = ts_node_child_by_field_id(call, role->a), whole = function, name = { 0 };
    bool is_function = false;

    if (role->role == ROLE_METHOD) {
        name = ts_node_child_by_field_id(call, role->b);
    } else if (ts_node_is_null(function)) {
        return fold_done(f, false);
    } else if (role_of(roles, function)->role == ROLE_MEMBER) {
        name = ts_node_child_by_field_id(function, role_of(roles, function)->b);
        whole = ts_node_child_by_field_id(function, role_of(roles, function)->a);
    }
    const char *full = names_called(f->names, call, f->depth + 1);
    const char *text = full ? by_function(f, call, full, &is_function) : NULL;
    if (is_function)
        return text;
    if (ts_node_is_null(name) || ts_node_is_null(whole))
        return fold_done(f, false);
    return by_method(f, call, whole, name);
}
