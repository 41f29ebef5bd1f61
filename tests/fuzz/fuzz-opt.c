/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opt_parse() over any argv. The first byte gives the flags, the rest is split at each NUL. What we
 * accept, getopt_long() must understand in the same way (it accepts more: abbreviations).
 */
#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGS_MAX = 32 };

/* What getopt_long() returns for the long options without a letter of their own. */
enum { KEY_ENV = 256, KEY_NO_COLOR, KEY_COLOR, KEY_NO_JSON, KEY_NO_HELP };

struct values {
    const char *lang;
    bool json, verbose, no_color, help;
    struct strbuf calls;
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int record(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    /* A call may refuse, too. */
    if (value && value[0] == '!')
        return cay_fail(err, CAY_E_LIMIT, "no");
    strbuf_printf(target, "%s=%s\n", opt->name, value ? value : "");
    return 0;
}

static int parse(struct values *v, int argc, char **argv, unsigned flags, int *ret_first,
                 int *ret_dashdash, struct cay_error *err)
{
    const struct opt inner[] = {
        { OPT_CALL, 'm', "max-output", "SIZE", "kept of each stream", &v->calls, record },
        { OPT_BOOL, 0, "no-color", NULL, "no colours", &v->no_color },
        { 0 },
    };
    const struct opt opts[] = {
        { OPT_HEADING, .help = "Program" },
        { OPT_STR, 'l', "language", "NAME", "language of the source", &v->lang },
        { OPT_BOOL, 'j', "json", NULL, "print the result as JSON", &v->json },
        { OPT_BOOL, 'v', NULL, NULL, "say more", &v->verbose },
        { OPT_INCLUDE, .rows = inner },
        { OPT_CALL, 0, "env", "K=V", "set a variable", &v->calls, record },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &v->help },
        { OPT_CALL, 'c', "count", NULL, NULL, &v->calls, record },
        { 0 },
    };

    return opt_parse(opts, argc, argv, flags, ret_first, ret_dashdash, err);
}

/* The same options, as the C library understands them; gives the index of the first operand. */
static int parse_by_getopt(struct values *v, int argc, char **argv, unsigned flags)
{
    static const struct option longs[] = {
        { "max-output", required_argument, NULL, 'm' },
        { "no-color", no_argument, NULL, KEY_NO_COLOR },
        { "color", no_argument, NULL, KEY_COLOR },
        { "language", required_argument, NULL, 'l' },
        { "json", no_argument, NULL, 'j' },
        { "no-json", no_argument, NULL, KEY_NO_JSON },
        { "env", required_argument, NULL, KEY_ENV },
        { "help", no_argument, NULL, 'h' },
        { "no-help", no_argument, NULL, KEY_NO_HELP },
        { "count", no_argument, NULL, 'c' },
        { 0 },
    };
    const char *letters = flags & OPT_STOP_AT_OPERAND ? "+m:l:jvhc" : "m:l:jvhc";

    opterr = 0;
    optind = 0; /* glibc: start anew */
    for (int key; (key = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        switch (key) {
        case 'm':
            strbuf_printf(&v->calls, "max-output=%s\n", optarg);
            break;
        case KEY_ENV:
            strbuf_printf(&v->calls, "env=%s\n", optarg);
            break;
        case 'c':
            strbuf_puts(&v->calls, "count=\n");
            break;
        case 'l':
            v->lang = optarg;
            break;
        case 'v':
            v->verbose = true;
            break;
        case 'j':
        case KEY_NO_JSON:
            v->json = key == 'j';
            break;
        case 'h':
        case KEY_NO_HELP:
            v->help = key == 'h';
            break;
        case KEY_NO_COLOR:
        case KEY_COLOR:
            v->no_color = key == KEY_NO_COLOR;
            break;
        default:
            abort();
        }
    }
    return optind;
}

static void require_same(const struct values *a, const struct values *b)
{
    require(a->lang == b->lang && a->json == b->json && a->verbose == b->verbose);
    require(a->no_color == b->no_color && a->help == b->help);
    require(strcmp(strbuf_str(&a->calls), strbuf_str(&b->calls)) == 0);
}

static void require_error(const struct cay_error *err)
{
    require(err->kind == CAY_E_USAGE || err->kind == CAY_E_LIMIT);
    require(err->msg[0] != '\0' && strnlen(err->msg, sizeof err->msg) < sizeof err->msg);
    require(strnlen(err->hint, sizeof err->hint) < sizeof err->hint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;

    auto_free char *text = mem_dup((const char *)data + 1, size - 1);
    auto_free char *text_before = mem_dup(text, size - 1);
    unsigned flags = data[0] & OPT_STOP_AT_OPERAND;
    char program[] = "cay";
    char *given[ARGS_MAX + 1] = { program }, *argv[ARGS_MAX + 1], *theirs[ARGS_MAX + 1];
    int argc = 1;
    for (char *arg = text; arg < text + size && argc < ARGS_MAX; arg += strlen(arg) + 1)
        given[argc++] = arg;
    memcpy(argv, given, sizeof given);
    memcpy(theirs, given, sizeof given);

    struct values ours = { 0 }, by_getopt = { 0 }, again = { 0 };
    struct cay_error err = { 0 };
    int first = -7, dashdash = -7;
    if (parse(&ours, argc, argv, flags, &first, &dashdash, &err) < 0) {
        require_error(&err);
        require(first == -7 && dashdash == -7 && memcmp(argv, given, sizeof given) == 0);
    } else {
        require(err.kind == CAY_E_OK);
        require(1 <= first && first <= dashdash && dashdash <= argc);
        require(parse_by_getopt(&by_getopt, argc, theirs, flags) == first);
        require(memcmp(argv, theirs, sizeof argv) == 0);
        require_same(&ours, &by_getopt);

        /* In the order it left behind, the options alone mean the same. */
        int again_first = -7;
        require(parse(&again, first, argv, flags, &again_first, NULL, &err) == 0);
        require(again_first == first);
        require_same(&ours, &again);

        /* The operands behind -- are the last ones given, untouched. */
        require(memcmp(argv + dashdash, given + dashdash,
                       (size_t)(argc - dashdash) * sizeof *argv) == 0);
        require(dashdash == argc || strcmp(given[dashdash - 1], "--") == 0);
    }
    require(memcmp(text, text_before, size) == 0);

    strbuf_done(&ours.calls);
    strbuf_done(&by_getopt.calls);
    strbuf_done(&again.calls);
    return 0;
}
