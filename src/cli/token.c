/* SPDX-License-Identifier: Apache-2.0 */
/* cay token add|list|remove: who may use a server, as its file of tokens says. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/error.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "service/token-file.h"

static const char about[] =
    "Manages the file of tokens that `cay serve` accepts. `add` makes a token for a tenant and\n"
    "shows it once; `list` shows ids, tenants and scopes; `remove` takes an id, or a tenant for "
    "all\n"
    "of its tokens. A running server reads the file again on SIGHUP (systemctl reload cay).\n"
    "Scopes: execute, read, cancel (these three by default), bypass, metrics, admin.";

static const char examples[] = "  cay token add alice\n"
                               "  cay token add prometheus --scopes metrics\n"
                               "  cay token list\n"
                               "  cay token remove alice\n";

struct token_args {
    const char *scopes, *file;
    bool json, help;
};

static int add(const struct token_args *args, const char *tenant)
{
    char token[TOKEN_TEXT_SIZE];
    struct cay_error err;

    if (token_file_add(args->file, tenant, args->scopes, token, &err) < 0)
        return print_error(&err);
    auto_strbuf struct strbuf out = { 0 };
    strbuf_printf(&out, "%s\n", token);
    int status = print_text(strbuf_str(&out));
    explicit_bzero(out.data, out.len);
    explicit_bzero(token, sizeof token);
    print_message("the token of %s is shown once; %s keeps it", tenant, args->file);
    print_message("hint: a running server reads it on SIGHUP");
    return status;
}

struct listing {
    struct strbuf out;
    struct json_writer w;
    bool json, is_terminal;
};

static void put(void *arg, const char *id, const struct token_owner *owner)
{
    struct listing *listing = arg;
    char scopes[64];

    scopes_text(owner->scopes, scopes);
    if (!listing->json) {
        strbuf_printf(&listing->out, listing->is_terminal ? "%-10s %-20s %s\n" : "%s\t%s\t%s\n", id,
                      owner->tenant, scopes);
        return;
    }
    json_begin_object(&listing->w);
    json_field_string(&listing->w, "id", id);
    json_field_string(&listing->w, "tenant", owner->tenant);
    json_field_string(&listing->w, "scopes", scopes);
    json_end_object(&listing->w);
}

static int list(const struct token_args *args)
{
    struct listing listing = { .json = args->json, .is_terminal = isatty(STDOUT_FILENO) };
    struct cay_error err;

    listing.w.out = &listing.out;
    if (args->json)
        json_begin_array(&listing.w);
    else if (listing.is_terminal)
        strbuf_printf(&listing.out, "%-10s %-20s %s\n", "ID", "TENANT", "SCOPES");
    int status = 0;
    if (token_file_list(args->file, put, &listing, &err) < 0) {
        status = print_error(&err);
    } else {
        if (args->json) {
            json_end_array(&listing.w);
            strbuf_putc(&listing.out, '\n');
        }
        status = print_text(strbuf_str(&listing.out));
    }
    strbuf_done(&listing.out);
    return status;
}

static int remove_tokens(const struct token_args *args, const char *which)
{
    struct cay_error err;
    int n = token_file_remove(args->file, which, &err);

    if (n < 0)
        return print_error(&err);
    print_message("removed %d token%s from %s", n, n == 1 ? "" : "s", args->file);
    print_message("hint: a running server applies it on SIGHUP");
    return 0;
}

int cmd_token(int argc, char **argv)
{
    struct token_args args = { 0 };
    char usual[PATH_MAX];
    const struct opt opts[] = {
        { OPT_STR, 0, "scopes", "A,B,…", "with add: what the token may do (execute,read,cancel)",
          &args.scopes },
        { OPT_STR, 0, "token-file", "FILE",
          "the file (root: /etc/cay/tokens; others: ~/.config/cay/tokens)", &args.file },
        { OPT_BOOL, 0, "json", NULL, "with list: print a JSON array", &args.json },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &args.help },
        { OPT_END },
    };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (args.help)
        return print_help("cay token add TENANT | list | remove ID|TENANT", about, opts, examples);
    if (!args.file && !token_file_usual(usual, sizeof usual))
        return print_usage_error("name the file with --token-file",
                                 "token: neither XDG_CONFIG_HOME nor HOME is set");
    args.file = args.file ? args.file : usual;
    const char *what = first < argc ? argv[first] : "", *which = NULL;
    bool is_list = strcmp(what, "list") == 0;
    if (!is_list && strcmp(what, "add") != 0 && strcmp(what, "remove") != 0)
        return print_usage_error(NULL,
                                 *what ? "token: '%s' is not one of: add list remove"
                                       : "token: add, list or remove?%s",
                                 what);
    if (!is_list && first + 1 < argc)
        which = argv[++first];
    if (first + 1 < argc)
        return print_unexpected_argument("token", argv[first + 1]);
    if (!is_list && !which)
        return print_usage_error(NULL, "token %s: which tenant%s?", what,
                                 strcmp(what, "add") == 0 ? "" : " or id");
    return is_list                    ? list(&args)
           : strcmp(what, "add") == 0 ? add(&args, which)
                                      : remove_tokens(&args, which);
}
