/* SPDX-License-Identifier: Apache-2.0 */
/* cay serve: options in, words out. The server itself is in src/service and src/doors/http. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/error.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "doors/http/server.h"
#include "service/token-file.h"

#define DEFAULT_LISTEN "127.0.0.1:7300"

static int add_listen(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct serve_options *options = target;

    (void)opt;
    if (options->n_listen == ARRAY_LEN(options->listen))
        return cay_fail(err, CAY_E_USAGE, "at most %zu addresses", ARRAY_LEN(options->listen));
    options->listen[options->n_listen++] = value;
    return 0;
}

static int add_host(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct serve_options *options = target;

    (void)opt;
    if (options->n_allow_hosts == ARRAY_LEN(options->allow_hosts))
        return cay_fail(err, CAY_E_USAGE, "at most %zu names", ARRAY_LEN(options->allow_hosts));
    options->allow_hosts[options->n_allow_hosts++] = value;
    return 0;
}

static void on_progress(void *arg, const char *line)
{
    (void)arg;
    print_message("%s", line);
}

/* The small command that wardens are made from: beside us where both were built, else where it is
 * installed. */
static const char *find_helper(const char *self, char *out, size_t size)
{
    struct stat st;
    const char *slash = strrchr(self, '/');

    snprintf(out, size, "%.*s/cay", (int)(slash ? slash - self : 0), self);
    return slash && stat(out, &st) == 0 && S_ISREG(st.st_mode) ? out : CAY_BINDIR "/cay";
}

static int check(const struct serve_options *options, bool no_tcp, struct cay_error *err)
{
    if (no_tcp && options->n_listen > 0)
        return cay_fail(err, CAY_E_USAGE, "--no-tcp and --listen or --port are mutually exclusive");
    if (!options->tls_cert != !options->tls_key)
        return cay_fail(err, CAY_E_USAGE, "--tls-cert and --tls-key belong together");
    return 0;
}

/* What is wrong with the configuration so that nothing can be opened, server_open says too. */
static void warn_of_settings(void)
{
    struct cay_error err;
    struct cay *cay;

    if (cay_open(NULL, &cay, &err) < 0)
        return;
    print_warnings(cay_config_warnings(cay));
    cay_close(cay);
}

static int serve(const struct serve_options *options)
{
    struct server *server;
    struct cay_error err;

    warn_of_settings();
    /* A process that talks to strangers must not inherit fds that its parent had open. */
    close_range(STDERR_FILENO + 1, ~0U, 0);
    if (server_open(options, &server, &err) < 0)
        return print_error(&err);
    int rc = server_run(server, &err);
    server_close(server);
    return rc < 0 ? print_error(&err) : 0;
}

/* A file that others can write to is refused (service/token.c). */
static void warn_of_readers(const char *path)
{
    struct stat st;

    if (path && stat(path, &st) == 0 && st.st_mode & 0044)
        print_message("warning: %s: others on this host can read the tokens (chmod 600)", path);
}

int cmd_serve(int argc, char **argv)
{
    struct serve_options options = { .on_progress = on_progress };
    bool no_tcp = false, help = false;
    char self[PATH_MAX] = "", helper[PATH_MAX], tokens[PATH_MAX];
    const struct opt opts[] = {
        { OPT_CALL, 0, "listen", "ADDR:PORT",
          "address to listen on; repeatable; port 0 takes a free one (" DEFAULT_LISTEN ")",
          &options, add_listen },
        { OPT_CALL, 0, "port", "PORT", "the same as --listen PORT, on 127.0.0.1", &options,
          add_listen },
        { OPT_BOOL, 0, "no-tcp", NULL, "listen on the unix socket only", &no_tcp },
        { OPT_STR, 0, "socket", "PATH|none",
          "unix socket ($XDG_RUNTIME_DIR/cay/cay.sock, root: /run/cay/cay.sock)", &options.socket },
        { OPT_STR, 0, "token-file", "FILE",
          "file of tokens, one per line: TOKEN [TENANT [SCOPE,…]] (that of `cay token`, or a "
          "random token)",
          &options.token_file },
        { OPT_STR, 0, "tls-cert", "FILE", "certificate and its chain; TCP then requires HTTPS",
          &options.tls_cert },
        { OPT_STR, 0, "tls-key", "FILE", "the certificate's key", &options.tls_key },
        { OPT_CALL, 0, "allow-host", "NAME",
          "name to allow in the Host header, besides localhost and the server's addresses; "
          "repeatable",
          &options, add_host },
        { OPT_STR, 0, "require", "LAYER,…|none",
          "layers that each run must have; none: only the core ones (all that the backend has)",
          &options.require },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay serve [--listen ADDR:PORT]… [--token-file FILE] [options]",
                          "Runs code that comes over HTTP, each request in a sandbox of its own.\n"
                          "SIGTERM ends it once running programs have ended; SIGHUP reads tokens,\n"
                          "quotas and certificates again.",
                          opts,
                          "  cay serve\n"
                          "  cay serve --listen 127.0.0.1:0 --token-file tokens\n"
                          "  cay serve --no-tcp --socket /run/user/1000/cay.sock\n");
    if (first < argc)
        return print_unexpected_argument("serve", argv[first]);
    if (check(&options, no_tcp, &err) < 0)
        return print_error(&err);
    if (!options.token_file && token_file_usual(tokens, sizeof tokens) && access(tokens, F_OK) == 0)
        options.token_file = tokens; /* what `cay token add` wrote */
    warn_of_readers(options.token_file);
    if (options.n_listen == 0 && !no_tcp)
        options.listen[options.n_listen++] = DEFAULT_LISTEN;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        self[0] = '\0';
    options.shows_token = isatty(STDERR_FILENO);
    options.recorder = self;
    options.helper = find_helper(self, helper, sizeof helper);
    return serve(&options);
}
