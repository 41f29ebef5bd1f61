/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json-long.h"
#include "base/json-scan.h"
#include "base/strbuf.h"
#include "core/config.h"
#include "core/request-alias.h"

struct cay_request *cay_request_new(void)
{
    return mem_alloc(sizeof(struct cay_request));
}

struct cay_request *request_hold(const struct cay_request *req)
{
    struct cay_request *held = (struct cay_request *)(uintptr_t)req;

    held->holders++;
    return held;
}

void cay_request_free(struct cay_request *req)
{
    if (!req || req->holders-- > 0)
        return;
    for (struct mapping *mapping = req->mappings; mapping; mapping = mapping->next)
        munmap(mapping->data, mapping->len);
    arena_done(&req->arena);
    free(req->files.items);
    free(req);
}

/* Fields that hold words rather than a setting. */
static bool is_word_list(const char *field)
{
    return strcmp(field, "args") == 0 || strcmp(field, "command") == 0;
}

static struct value *word_list(struct cay_request *req, const char *field)
{
    return strcmp(field, "args") == 0 ? &req->args : &req->command;
}

int cay_request_set_bytes(struct cay_request *req, const char *field, const char *data, size_t len,
                          struct cay_error *err)
{
    struct bytes *target = strcmp(field, "code") == 0    ? &req->code
                           : strcmp(field, "stdin") == 0 ? &req->input
                                                         : NULL;
    if (!target)
        return cay_fail(err, CAY_E_USAGE, "%.80s: takes no bytes", field);
    if (len > REQUEST_BYTES_MAX)
        return cay_fail(err, CAY_E_USAGE, "%s: %zu bytes exceed the maximum of %llu", field, len,
                        (unsigned long long)REQUEST_BYTES_MAX);
    *target = (struct bytes){ arena_dup(&req->arena, data, len), len };
    return 0;
}

static const struct value *cap_of(const struct cay_request *req, enum field_id id)
{
    return req->caps ? &req->caps[id].value : NULL;
}

int cay_request_set(struct cay_request *req, const char *field, const char *value,
                    struct cay_error *err)
{
    struct value parsed;

    if (is_word_list(field)) {
        field_push(&req->arena, word_list(req, field), arena_str(&req->arena, value));
        return 0;
    }
    if (strcmp(field, "code") == 0 || strcmp(field, "stdin") == 0)
        return cay_request_set_bytes(req, field, value, strlen(value), err);
    if (strcmp(field, "file_name") == 0) {
        req->file_name = arena_str(&req->arena, value);
        return 0;
    }
    if (strcmp(field, "beside") == 0) {
        req->beside = arena_str(&req->arena, value);
        return 0;
    }
    if (strcmp(field, "rows_auto") == 0) {
        if (field_parse(&req->arena, FIELD_ROWS, value, &parsed, err) < 0)
            return -1;
        req->rows_auto = parsed.text;
        return 0;
    }
    enum field_id id = field_find(field);
    if (id == FIELD_N || !(fields[id].flags & FIELD_IN_REQUEST))
        return field_fail_unknown(field, FIELD_IN_REQUEST, err);
    if (request_alias_check(req, id, err) < 0 ||
        field_parse_capped(&req->arena, id, value, cap_of(req, id), &parsed, err) < 0)
        return -1;
    if (fields[id].kind == FIELD_LIST && req->values[id].is_set) {
        if (field_check_count(field, req->values[id].n + parsed.n, err) < 0)
            return -1;
        for (const char *const *word = parsed.list; *word; word++)
            field_push(&req->arena, &req->values[id], *word);
        return 0;
    }
    req->values[id] = parsed;
    return request_alias_apply(req, id, err);
}

static int fail_clash(struct cay_error *err, const char *one, const char *other)
{
    return cay_fail(err, CAY_E_USAGE, "files: '%.80s' and '%.80s' cannot both exist", one, other);
}

/* Appends without a copy of the data, and without a look at the others. */
static int add_file(struct cay_request *req, const char *name, const char *data, size_t len,
                    unsigned mode, struct cay_error *err)
{
    struct file_list *files = &req->files;

    if (!payload_name_ok(name))
        return cay_fail(err, CAY_E_USAGE,
                        "files: '%.80s' is not a relative name without '..', empty or long parts",
                        name);
    if (len > REQUEST_BYTES_MAX)
        return cay_fail(err, CAY_E_USAGE, "files: %.80s: %zu bytes are past the most, %llu", name,
                        len, (unsigned long long)REQUEST_BYTES_MAX);
    if (files->n >= PAYLOAD_FILES_MAX - 1)
        return cay_fail(err, CAY_E_USAGE, "files: more than %d", PAYLOAD_FILES_MAX - 1);
    if (files->n == files->room) {
        files->room = files->room ? files->room * 2 : 8;
        files->items = mem_resize(files->items, files->room * sizeof *files->items);
    }
    files->items[files->n++] = (struct payload_file){
        .name = arena_str(&req->arena, name),
        .data = data,
        .len = len,
        .mode = mode ? mode & 0777 : 0644,
    };
    return 0;
}

static int append_file(struct cay_request *req, const char *name, const char *data, size_t len,
                       unsigned mode, struct cay_error *err)
{
    for (size_t i = 0; i < req->files.n; i++)
        if (payload_names_clash(req->files.items[i].name, name))
            return fail_clash(err, req->files.items[i].name, name);
    return add_file(req, name, data, len, mode, err);
}

int cay_request_add_file(struct cay_request *req, const char *name, const char *data, size_t len,
                         unsigned mode, struct cay_error *err)
{
    if (len > REQUEST_BYTES_MAX)
        return append_file(req, name, data, len, mode, err); /* which says what is wrong */
    return append_file(req, name, arena_dup(&req->arena, data, len), len, mode, err);
}

/* A pipe or the like has no size and can't be mapped. */
static int read_stream(struct cay_request *req, const char *name, int fd, unsigned mode,
                       struct cay_error *err)
{
    auto_strbuf struct strbuf data = { 0 };
    char buf[65536];

    for (ssize_t n; (n = read(fd, buf, sizeof buf)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail(err, CAY_E_USAGE, "files: %.80s: %s", name, strerror(errno));
        strbuf_add(&data, buf, (size_t)n);
        if (data.len > REQUEST_BYTES_MAX)
            break;
    }
    return cay_request_add_file(req, name, strbuf_str(&data), data.len, mode, err);
}

int cay_request_add_file_fd(struct cay_request *req, const char *name, int fd, unsigned mode,
                            struct cay_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return cay_fail(err, CAY_E_USAGE, "files: %.80s: %s", name, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return cay_fail(err, CAY_E_USAGE, "files: %.80s: is a folder", name);
    if (!mode)
        mode = S_ISREG(st.st_mode) && (st.st_mode & 0111) ? 0755 : 0644;
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return read_stream(req, name, fd, mode, err);
    size_t len = (size_t)st.st_size;
    if (len > REQUEST_BYTES_MAX)
        return append_file(req, name, NULL, len, mode, err);
    /* Only handed to write(2) later: if the file shrinks meanwhile, that is an error and no signal.
     */
    void *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED)
        return cay_fail(err, CAY_E_USAGE, "files: %.80s: %s", name, strerror(errno));
    struct mapping *mapping = arena_alloc(&req->arena, sizeof *mapping);
    *mapping = (struct mapping){ data, len, req->mappings };
    req->mappings = mapping;
    return append_file(req, name, data, len, mode, err);
}

/* The kernel takes a longer one; but each is compared with the others. */
enum { VARIABLE_NAME_MAX = 255 };

int cay_request_add_env(struct cay_request *req, const char *name, const char *value,
                        struct cay_error *err)
{
    if (*name == '\0' || isdigit((unsigned char)*name))
        return cay_fail(err, CAY_E_USAGE, "env: '%.80s' is not a variable name", name);
    for (const char *pos = name; *pos; pos++)
        if (*pos == '=' || (unsigned char)*pos <= 0x20 || *pos == 0x7f)
            return cay_fail(err, CAY_E_USAGE, "env: '%.80s' is not a variable name", name);
    size_t len = strlen(name);
    if (len > VARIABLE_NAME_MAX)
        return cay_fail(err, CAY_E_USAGE, "env: '%.80s…': a name of %zu bytes; the maximum is %d",
                        name, len, VARIABLE_NAME_MAX);
    field_push(&req->arena, &req->env, arena_printf(&req->arena, "%s=%s", name, value));
    return 0;
}

/* One of the first n. */
static bool has_variable(const struct cay_request *req, const char *name, size_t n)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (strncmp(req->env.list[i], name, len) == 0 && req->env.list[i][len] == '=')
            return true;
    return false;
}

bool cay_request_has(const struct cay_request *req, const char *field)
{
    enum field_id id = field_find(field);

    if (strncmp(field, "env.", 4) == 0)
        return has_variable(req, field + 4, req->env.n);
    if (strcmp(field, "code") == 0)
        return req->code.data != NULL;
    if (strcmp(field, "stdin") == 0)
        return req->input.data != NULL;
    if (strcmp(field, "command") == 0)
        return req->command.is_set;
    if (strcmp(field, "args") == 0)
        return req->args.is_set;
    return id != FIELD_N && req->values[id].is_set;
}

const char *cay_request_text(const struct cay_request *req, const char *field)
{
    enum field_id id = field_find(field);
    return id != FIELD_N && req->values[id].is_set ? req->values[id].text : NULL;
}

uint64_t cay_request_number(const struct cay_request *req, const char *field)
{
    enum field_id id = field_find(field);
    return id != FIELD_N && req->values[id].is_set ? req->values[id].num : 0;
}

void cay_request_unset(struct cay_request *req, const char *field)
{
    enum field_id id = field_find(field);

    if (id != FIELD_N)
        req->values[id] = (struct value){ 0 };
}

/* ---- JSON ---- */

/* jansson gives its own kinds; messages use ours. */
static const char *json_kind(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return names[json_typeof(value)];
}

/* What is written in place of `value`. */
static int fail_shape(const char *field, const char *want, const json_t *value,
                      struct cay_error *err)
{
    return cay_fail(err, CAY_E_USAGE, "%.80s: expected %s, got %s", field, want, json_kind(value));
}

/* The bytes of a string, which live until the next one is asked for. */
static int json_bytes(struct cay_request *req, const char *field, const json_t *value,
                      const char **ret, size_t *ret_len, struct cay_error *err)
{
    if (!json_is_string(value))
        return fail_shape(field, "a string", value, err);
    if (json_long_string(req->long_ones, json_string_value(value), json_string_length(value), ret,
                         ret_len) < 0)
        return cay_fail(
            err, CAY_E_USAGE,
            "%.80s: not a valid JSON string: a control byte, an escape or UTF-8 is wrong", field);
    return 0;
}

/* A string that holds no NUL, for it will be an argument, a name or a setting. */
static int json_text(struct cay_request *req, const char *field, const json_t *value,
                     const char *want, const char **ret, struct cay_error *err)
{
    const char *data;
    size_t len;

    if (!json_is_string(value))
        return fail_shape(field, want, value, err);
    if (json_bytes(req, field, value, &data, &len, err) < 0)
        return -1;
    if (memchr(data, '\0', len))
        return cay_fail(err, CAY_E_USAGE, "%.80s: holds a NUL", field);
    *ret = data == json_string_value(value) ? data : arena_dup(&req->arena, data, len);
    return 0;
}

/* As it was written, or nearly so: without the zeros that %f puts behind it. JSON has one kind of
 * number, so that 20.0 and 2e1 are as whole as 20. */
static void real_text(char out[static 400], double number)
{
    snprintf(out, 400, "%.9f", number);
    size_t len = strlen(out);
    while (out[len - 1] == '0')
        out[--len] = '\0';
    if (out[len - 1] == '.')
        out[--len] = '\0';
}

static bool is_number(enum field_id id)
{
    return id != FIELD_N && fields[id].kind <= FIELD_COUNT;
}

/* A number may be written as text, as on the command line, and a list as one text; nothing else is
 * taken for what it is not. */
static bool is_of_kind(enum field_id id, const json_t *value)
{
    if (fields[id].kind == FIELD_BOOL)
        return json_is_boolean(value);
    return json_is_string(value) || (is_number(id) && json_is_number(value)) ||
           (fields[id].kind == FIELD_LIST && json_is_array(value));
}

static int set_from_json(struct cay_request *req, const char *field, json_t *value,
                         struct cay_error *err)
{
    char number[400]; /* the largest double has 309 digits */
    enum field_id id = field_find(field);
    const char *text = number;
    size_t i;
    json_t *item;

    if (json_is_null(value)) /* as if it were not there; so with each field */
        return 0;
    if (is_word_list(field) && !json_is_array(value))
        return fail_shape(field, "an array of strings", value, err);
    if (id != FIELD_N && !is_of_kind(id, value))
        return field_fail_kind(id, json_kind(value), cap_of(req, id), err);
    if (json_is_array(value)) {
        if (!is_word_list(field) && field_check_count(field, json_array_size(value), err) < 0)
            return -1;
        if (id != FIELD_N && !req->values[id].is_set)
            field_parse(&req->arena, id, "", &req->values[id], err); /* [] is a value too */
        json_array_foreach (value, i, item)
            if (json_text(req, field, item, "strings in the array", &text, err) < 0 ||
                cay_request_set(req, field, text, err) < 0)
                return -1;
        return 0;
    }
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        real_text(number, json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(number, sizeof number, "%s", json_is_true(value) ? "true" : "false");
    else if (json_text(req, field, value, "a string", &text, err) < 0)
        return -1;
    return cay_request_set(req, field, text, err);
}

static int set_bytes_from_json(struct cay_request *req, const char *field, json_t *value,
                               struct cay_error *err)
{
    const char *data;
    size_t len;

    if (json_is_null(value))
        return 0;
    if (json_bytes(req, field, value, &data, &len, err) < 0)
        return -1;
    return cay_request_set_bytes(req, field, data, len, err);
}

/* One of the first n. */
static bool has_file(const struct cay_request *req, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(req->files.items[i].name, name) == 0)
            return true;
    return false;
}

/* A folder is followed by what is in it. */
static int compare_names(const void *a, const void *b)
{
    const unsigned char *one = *(unsigned char *const *)a, *other = *(unsigned char *const *)b;

    while (*one && *one == *other)
        one++, other++;
    int ranks[] = { *one == '/' ? 1
                    : *one      ? *one + 1
                                : 0,
                    *other == '/' ? 1
                    : *other      ? *other + 1
                                  : 0 };
    return ranks[0] - ranks[1];
}

/* Each beside its neighbours alone: ten thousand compared with each other would hold a server up.
 */
static int check_clashes(const struct cay_request *req, struct cay_error *err)
{
    size_t n = req->files.n;
    auto_free const char **names = mem_alloc((n + 1) * sizeof *names);

    for (size_t i = 0; i < n; i++)
        names[i] = req->files.items[i].name;
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        if (payload_names_clash(names[i - 1], names[i]))
            return fail_clash(err, names[i - 1], names[i]);
    return 0;
}

static int files_from_json(struct cay_request *req, json_t *files, struct cay_error *err)
{
    const size_t n_before = req->files.n;
    const char *name;
    json_t *value;

    if (json_is_null(files))
        return 0;
    if (!json_is_object(files))
        return fail_shape("files", "an object of names and their text", files, err);
    json_object_foreach (files, name, value) {
        if (has_file(req, name, n_before)) /* a key is there once */
            continue;
        json_t *encoded = json_is_object(value) ? json_object_get(value, "base64") : NULL;
        auto_strbuf struct strbuf decoded = { 0 };
        const char *text;
        size_t len;
        if (!json_is_string(value) && (!json_is_string(encoded) || json_object_size(value) != 1))
            return cay_fail(err, CAY_E_USAGE,
                            "files: %.80s: expected a string or {\"base64\": \"…\"}, got %s", name,
                            json_kind(value));
        if (json_bytes(req, "files", encoded ? encoded : value, &text, &len, err) < 0)
            return -1;
        if (encoded && base64_decode(&decoded, text, len) < 0)
            return cay_fail(err, CAY_E_USAGE, "files: %.80s: not base64", name);
        if (encoded)
            text = strbuf_str(&decoded), len = decoded.len;
        const char *data = arena_dup(&req->arena, text, len);
        if (add_file(req, name, data, len, 0, err) < 0)
            return -1;
    }
    return check_clashes(req, err);
}

static int env_from_json(struct cay_request *req, json_t *env, struct cay_error *err)
{
    const size_t n_before = req->env.n;
    const char *name, *text;
    json_t *value;

    if (json_is_null(env))
        return 0;
    if (!json_is_object(env))
        return fail_shape("env", "an object of names and strings", env, err);
    if (field_check_count("env", json_object_size(env), err) < 0)
        return -1;
    json_object_foreach (env, name, value) {
        if (has_variable(req, name, n_before)) /* a key is there once */
            continue;
        if (json_text(req, "env", value, "strings in the object", &text, err) < 0 ||
            cay_request_add_env(req, name, text, err) < 0)
            return -1;
    }
    return 0;
}

static int limits_from_json(struct cay_request *req, json_t *limits, struct cay_error *err)
{
    const bool has_cpus = req->values[FIELD_CPUS].is_set;
    const bool has_swap = req->values[FIELD_SWAP].is_set || req->values[FIELD_MEMORY_SWAP].is_set;
    const char *name;
    json_t *value;

    if (json_is_null(limits))
        return 0;
    if (!json_is_object(limits))
        return fail_shape("limits", "an object such as {\"memory\": \"512m\"}", limits, err);
    json_object_foreach (limits, name, value) {
        enum field_id id = field_find(name);
        if (id != FIELD_N &&
            (fields[id].flags & (FIELD_LIMIT | FIELD_IN_REQUEST)) == FIELD_IN_REQUEST)
            return cay_hint(
                (cay_fail(err, CAY_E_USAGE, "limits: %s: belongs outside limits", name), err),
                "{\"%s\": …, \"limits\": {…}}", name);
        if (id == FIELD_N || !(fields[id].flags & FIELD_LIMIT))
            return cay_wrap((field_fail_unknown(name, FIELD_LIMIT, err), err), "limits");
        if ((has_cpus && request_alias_is(id, FIELD_CPUS)) ||
            (has_swap && request_alias_is(id, FIELD_SWAP)))
            continue; /* by whatever name: a flag beats the request */
        if (request_alias_check(req, id, err) < 0)
            return -1;
        if (!cay_request_has(req, name) && set_from_json(req, name, value, err) < 0)
            return -1;
    }
    return 0;
}

static int field_from_json(struct cay_request *req, const char *name, json_t *value,
                           struct cay_error *err)
{
    enum field_id id = field_find(name);

    if (cay_request_has(req, name))
        return 0;
    if (strcmp(name, "code") == 0 || strcmp(name, "stdin") == 0)
        return set_bytes_from_json(req, name, value, err);
    if (strcmp(name, "files") == 0)
        return files_from_json(req, value, err);
    if (strcmp(name, "env") == 0)
        return env_from_json(req, value, err);
    if (strcmp(name, "limits") == 0)
        return limits_from_json(req, value, err);
    if (id != FIELD_N && (fields[id].flags & FIELD_LIMIT))
        return cay_hint((cay_fail(err, CAY_E_USAGE, "%s: belongs in limits", name), err),
                        "{\"limits\": {\"%s\": …}}", name);
    if (id == FIELD_N && !is_word_list(name))
        return field_fail_unknown(name, FIELD_IN_REQUEST, err);
    return set_from_json(req, name, value, err);
}

/* A number that jansson can't hold ends the text. It says so of no field; the field itself knows
 * what is allowed, and says it of the text that was written. Returns -1. */
static int fail_number(struct cay_request *req, const char *json, size_t len, struct cay_error *err)
{
    struct json_spot spot = json_spot_of(json, len);
    const char *number = arena_dup(&req->arena, spot.number, spot.number_len);
    const char *outer = arena_dup(&req->arena, spot.outer, spot.outer_len);
    const char *inner = arena_dup(&req->arena, spot.inner, spot.inner_len);
    enum field_id id = field_find(spot.inner ? inner : outer);
    json_t *value = is_number(id) ? json_string(number) : json_integer(0);
    int rc = 0;

    if (spot.outer && !spot.inner && !spot.is_deep) {
        rc = field_from_json(req, outer, value, err);
    } else if (spot.inner && !spot.is_deep && strcmp(outer, "limits") == 0) {
        json_t *limits = json_pack("{sO}", inner, value);
        rc = limits_from_json(req, limits, err);
        json_decref(limits);
    }
    json_decref(value);
    if (rc < 0)
        return -1;
    /* A field that takes any text, or whose list or object it is in, or that a flag has set. */
    return cay_fail(err, CAY_E_USAGE, "%.80s: %.60s is out of range; allowed is %lld to %lld",
                    spot.outer ? outer : "request", number, (long long)INT64_MIN,
                    (long long)INT64_MAX);
}

/* A request has a few; a command can have as many words as the kernel takes, which is fewer. What
 * is left of a large one without its long strings are names and structure. */
enum { VALUES_MAX = 1 << 18, SHORT_BYTES_MAX = 4 << 20 };

static int parse_short(struct cay_request *req, const char *json, size_t len, struct cay_error *err)
{
    json_error_t where;
    const char *name;
    json_t *value;
    int rc = 0;

    if (len > SHORT_BYTES_MAX)
        return cay_fail(
            err, CAY_E_LIMIT,
            "request: besides strings of %d bytes and more, it has %zu bytes; the maximum is %d",
            JSON_LONG_MIN, len, SHORT_BYTES_MAX);
    if (!json_has_at_most(json, len, VALUES_MAX))
        return cay_fail(err, CAY_E_LIMIT, "request: it has more than %d values", VALUES_MAX);
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!root && json_error_code(&where) == json_error_numeric_overflow)
        return fail_number(req, json, MIN((size_t)where.position, len), err);
    if (!root)
        return cay_fail(err, CAY_E_USAGE, "request: line %d: %s", where.line, where.text);
    if (!json_is_object(root))
        rc = fail_shape("request", "an object such as {\"code\": \"…\"}", root, err);
    else
        json_object_foreach (root, name, value) {
            rc = field_from_json(req, name, value, err);
            if (rc < 0)
                break;
        }
    json_decref(root);
    return rc;
}

int cay_request_parse(struct cay_request *req, const char *json, size_t len, struct cay_error *err)
{
    struct json_long long_ones = { 0 };

    json_long_take(&long_ones, json, len);
    req->long_ones = &long_ones;
    int rc = parse_short(req, strbuf_str(&long_ones.rest), long_ones.rest.len, err);
    req->long_ones = NULL;
    json_long_done(&long_ones);
    return rc;
}

/* ---- rows for option tables ---- */

const struct cay_field *cay_field_at(size_t i)
{
#define KIND_BYTES   "size"
#define KIND_SECONDS "seconds"
#define KIND_MILLI   "number"
#define KIND_COUNT   "count"
#define KIND_BOOL    "flag"
#define KIND_CHOICE  "choice"
#define KIND_TEXT    "text"
#define KIND_LIST    "list"
    static const struct cay_field rows[] = {
#define FIELD_VIEW(id, field_name, field_kind, flags, value, low, high, words, metavar, text) \
    {                                                                                         \
        .name = field_name,                                                                   \
        .arg = metavar,                                                                       \
        .help = text,                                                                         \
        .initial = value,                                                                     \
        .choices = words,                                                                     \
        .is_flag = FIELD_##field_kind == FIELD_BOOL,                                          \
        .is_list = FIELD_##field_kind == FIELD_LIST,                                          \
        .kind = KIND_##field_kind,                                                            \
        .is_limit = ((flags)&FIELD_LIMIT) != 0,                                               \
        .is_local = ((flags)&FIELD_LOCAL) != 0,                                               \
        .min = low,                                                                           \
        .max = high,                                                                          \
    },
        FIELDS(FIELD_VIEW)
#undef FIELD_VIEW
    };
    /* Settings that no request has may stand anywhere in between. */
    for (size_t at = 0; at < ARRAY_LEN(rows); at++)
        if ((fields[at].flags & FIELD_IN_REQUEST) && i-- == 0)
            return &rows[at];
    return NULL;
}
