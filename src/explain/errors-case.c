/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/errors-case.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "explain/errors-missing.h"

enum { WORD_MAX = 120 };

/* What a text with holes is filled from. */
struct filler {
    struct arena *arena;
    const struct errors_data *data;
    const struct errors_sources *sources;
    const struct errors_known *known;
    const struct template_match *match; /* or NULL */
    int near;
};

static const char *hole_text(const struct filler *filler, enum template_hole hole)
{
    struct slice text = filler->match ? filler->match->holes[hole] : (struct slice){ 0 };

    if (!text.data && hole == HOLE_NAME)
        text = filler->known->name;
    if (!text.data && hole == HOLE_CALL)
        text = filler->known->call;
    if (!text.data && hole == HOLE_TYPE)
        return filler->known->type;
    if (!text.data && hole == HOLE_MESSAGE) {
        const char *message = filler->known->message;
        text = (struct slice){ message, strcspn(message, "\n") };
    }
    return text.data && text.len > 0 ? source_copy(filler->arena, text, WORD_MAX) : NULL;
}

static const char *nearest(const struct filler *filler)
{
    const char *given =
        filler->near < 0 ? NULL : hole_text(filler, (enum template_hole)filler->near);
    size_t n = 0, count = 0;

    if (!given || !filler->data)
        return NULL;
    while (strchr("$@&%", given[0]) && given[0] != '\0') /* sigils are not part of the name */
        given++;
    const char *const *found = source_names(filler->arena, filler->sources, given, &n);
    size_t room = n;
    for (const char *const *name = filler->data->names; *name; name++)
        room++;
    const char **names = arena_alloc(filler->arena, (room + 1) * sizeof *names);
    for (size_t i = 0; i < n; i++)
        names[count++] = found[i];
    for (const char *const *name = filler->data->names; *name; name++)
        if (strcmp(*name, given) != 0)
            names[count++] = *name;
    return suggest(given, names, count);
}

/* "area" of "Shape::area": as it is called in the code. */
static const char *name_tail(const char *name)
{
    const char *colon = name ? strrchr(name, ':') : NULL;
    return colon && colon[1] != '\0' ? colon + 1 : name;
}

static const char *filled(const struct filler *filler, const char *word, size_t len)
{
    const struct errors_data *data = filler->data;
    int hole = template_hole(word, len);

    if (hole >= 0)
        return hole_text(filler, (enum template_hole)hole);
    const char *hole_name = arena_dup(filler->arena, word, len);
    if (strcmp(hole_name, "near") == 0)
        return nearest(filler);
    if (strcmp(hole_name, "hint") == 0)
        return filler->known->hint;
    const char *name = hole_text(filler, HOLE_NAME);
    if (name && strcmp(hole_name, "tail") == 0)
        return name_tail(name);
    if (!name || !data)
        return NULL;
    if (strcmp(hole_name, "package") == 0)
        return missing_package(filler->arena, data, name);
    if (strcmp(hole_name, "known") == 0)
        return missing_package(filler->arena, data, name) ? "" : NULL;
    if (strcmp(hole_name, "module") == 0)
        return missing_near(filler->arena, data, name);
    if (strcmp(hole_name, "beside") == 0)
        return missing_beside(filler->arena, data, filler->sources->beside, name);
    return NULL;
}

/* NULL where a hole has nothing: the text is for another case. */
static const char *fill(const struct filler *filler, const char *text)
{
    auto_strbuf struct strbuf out = { 0 };

    while (*text) {
        size_t len = strcspn(text, "{");
        strbuf_add(&out, text, len);
        text += len;
        if (!*text)
            break;
        const char *end = strchr(text, '}');
        const char *word = end ? filled(filler, text + 1, (size_t)(end - text - 1)) : NULL;
        if (!word)
            return NULL;
        strbuf_puts(&out, word);
        text = end + 1;
    }
    return arena_str(filler->arena, strbuf_str(&out));
}

const char *case_fill(struct arena *arena, const char *text, const struct errors_known *known)
{
    const struct filler filler = { .arena = arena, .known = known, .near = -1 };
    return fill(&filler, text);
}

/* Messages are looked at as far as their first few lines go. */
static bool case_matches(const struct errors_case *one, const struct errors_known *known,
                         struct template_match *match)
{
    memset(match, 0, sizeof *match);
    if (one->type && (!known->type || strcmp(one->type, known->type) != 0))
        return false;
    return !one->has_message ||
           template_match(&one->message, known->message, strlen(known->message), match);
}

static void decide_by(struct filler *filler, struct errors_meaning *ret)
{
    for (size_t i = 0; i < filler->data->n_cases; i++) {
        const struct errors_case *one = &filler->data->cases[i];
        struct template_match match;
        if (!case_matches(one, filler->known, &match))
            continue;
        filler->match = &match;
        filler->near = one->near;
        if (one->as && !ret->as)
            ret->as = one->as;
        if (one->category && !ret->category)
            ret->category = one->category;
        for (const char *const *text = one->suggestions; *text && !ret->suggestion; text++)
            if (!filler->known->is_remote || !strstr(*text, "--workspace"))
                ret->suggestion = fill(filler, *text);
        if (one->doc && !ret->doc)
            ret->doc = fill(filler, one->doc);
        if (one->find[0] && !ret->find) {
            size_t n = 0, count = 0;
            while (one->find[n])
                n++;
            const char **list = arena_alloc(filler->arena, (n + 1) * sizeof *list);
            for (size_t k = 0; k < n; k++) {
                const char *text = fill(filler, one->find[k]);
                if (text)
                    list[count++] = text;
            }
            ret->find = list;
        }
        filler->match = NULL;
    }
}

void case_decide(struct arena *arena, const struct errors_data *own,
                 const struct errors_data *common, const struct errors_sources *sources,
                 const struct errors_known *known, struct errors_meaning *ret)
{
    struct filler filler = { .arena = arena, .sources = sources, .known = known, .near = -1 };

    *ret = (struct errors_meaning){ 0 };
    if (known->hint)
        ret->suggestion = arena_printf(arena, "did you mean %s?", known->hint);
    filler.data = own;
    if (own)
        decide_by(&filler, ret);
    filler.data = common;
    if (common)
        decide_by(&filler, ret);
}
