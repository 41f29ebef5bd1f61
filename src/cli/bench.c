/* SPDX-License-Identifier: Apache-2.0 */
/* cay bench: becomes the measuring programs of bench/, which are beside the command in a build
 * folder, else where they are installed. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "cli/commands.h"
#include "cli/print.h"

struct bench_options {
    const char *rounds, *only, *json;               /* of the table */
    const char *seconds, *clients, *hostile, *runs; /* of the load test */
    bool is_load;
};

static void add(const char **words, size_t *n, const char *option, const char *value)
{
    if (!value)
        return;
    words[(*n)++] = option;
    words[(*n)++] = value;
}

/* Returns only on failure. */
static int become(const char *folder, const char *cay, const struct bench_options *o)
{
    char program[PATH_MAX];
    const char *words[24] = { program };
    char *argv[24] = { NULL };
    size_t n = 1;

    snprintf(program, sizeof program, "%s/%s", folder, o->is_load ? "cay-load" : "run.sh");
    if (o->is_load)
        add(words, &n, "--cay", cay);
    add(words, &n, "--rounds", o->rounds);
    add(words, &n, "--only", o->only);
    add(words, &n, "--json", o->json);
    add(words, &n, "--seconds", o->seconds);
    add(words, &n, "--clients", o->clients);
    add(words, &n, "--hostile", o->hostile);
    add(words, &n, "--runs", o->runs);
    if (access(program, X_OK) < 0)
        return -errno;
    for (size_t i = 0; i < n; i++)
        argv[i] = str_dup(words[i]);
    setenv("CAY", cay, 1);
    execv(program, argv);
    int rc = -errno;
    for (size_t i = 0; i < n; i++)
        free(argv[i]);
    return rc;
}

static int bench(const struct bench_options *o)
{
    char cay[PATH_MAX] = "", beside[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", cay, sizeof cay - 1);
    const char *slash = len > 0 ? strrchr(cay, '/') : NULL;

    if (!slash)
        return print_error(&(struct cay_error){ .kind = CAY_E_SYSTEM, .msg = "/proc is missing" });
    if (snprintf(beside, sizeof beside, "%.*s/bench", (int)(slash - cay), cay) < (int)sizeof beside)
        become(beside, cay, o);
    int rc = become(CAY_LIBEXEC "/bench", cay, o);
    print_message("cannot start %s: %s", CAY_LIBEXEC "/bench", strerror(-rc));
    print_message("hint: install it beside cay (`make install` does)");
    return 125;
}

static int check(const struct bench_options *o, struct cay_error *err)
{
    bool is_of_table = o->rounds || o->only || o->json;
    bool is_of_load = o->seconds || o->clients || o->hostile || o->runs;

    if (is_of_table && o->is_load)
        return cay_fail(err, CAY_E_USAGE, "--rounds, --only and --json cannot be used with --load");
    if (is_of_load && !o->is_load)
        return cay_fail(err, CAY_E_USAGE,
                        "--seconds, --clients, --hostile and --runs require --load");
    return 0;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_options o = { 0 };
    bool help = false;
    const struct opt opts[] = {
        { OPT_STR, 0, "rounds", "N", "rounds of each measurement (60)", &o.rounds },
        { OPT_STR, 0, "only", "TEXT", "only the groups with TEXT in their name", &o.only },
        { OPT_STR, 0, "json", "FILE", "also write the figures to FILE", &o.json },
        { OPT_BOOL, 0, "load", NULL, "the load test instead: many clients, some hostile",
          &o.is_load },
        { OPT_STR, 0, "seconds", "N", "with --load: how long (120)", &o.seconds },
        { OPT_STR, 0, "clients", "N", "with --load: clients at once (200)", &o.clients },
        { OPT_STR, 0, "hostile", "PERCENT", "with --load: how many of them are hostile (10)",
          &o.hostile },
        { OPT_STR, 0, "runs", "N", "with --load: well-behaved runs back to back, and memory",
          &o.runs },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help(
            "cay bench [--rounds N] [--only TEXT] [--json FILE] | --load [options]",
            "Measures this host: programs in cay, with and without a server, beside\n"
            "bare ones and other sandboxes; throughput and memory. It takes minutes and\n"
            "needs a quiet machine.",
            opts,
            "  cay bench\n"
            "  cay bench --only python --rounds 200\n"
            "  cay bench --load --seconds 30\n");
    if (first < argc)
        return print_unexpected_argument("bench", argv[first]);
    if (check(&o, &err) < 0)
        return print_error(&err);
    return bench(&o);
}
