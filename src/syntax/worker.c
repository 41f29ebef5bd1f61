/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-syntax [LANGUAGE]: the syntax worker, or a keeper of workers. tree-sitter, its grammars and
 * the rules meet hostile code here and nowhere else: in a process of its own that can do nothing
 * but answer on fd 3 (core/syntax-wire.h). Started by policy/syntax-client.c; not for people.
 */
#include <ctype.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/syntax-wire.h"
#include "syntax/worker-serve.h"
#include "sys/fdpass.h"

enum { OWNER_FD = 3, WORKERS_MAX = 32, NOBODY = 65534 };

static bool is_language(const char *name, size_t size)
{
    size_t len = strnlen(name, size);

    for (size_t i = 0; i < len; i++)
        if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]))
            return false;
    return len > 0 && len < size;
}

/* The child's side of keep(): a worker like any other. */
static int become_worker(const char *language, int fd)
{
    if (dup2(fd, OWNER_FD) < 0)
        return 1;
    close_range(OWNER_FD + 1, ~0U, 0);
    return serve_language(language, OWNER_FD);
}

/* A keeper reads names and makes workers; no code comes near it. */
static int keep(void)
{
    int n_workers = 0;

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                           setresuid(NOBODY, NOBODY, NOBODY) < 0))
        return 1;
    for (;;) {
        struct syntax_keep ask;
        int fds[FDPASS_MAX];
        unsigned n_fds = 0;
        int rc = fdpass_recv(OWNER_FD, &ask, sizeof ask, fds, &n_fds);
        while (n_workers > 0 && waitpid(-1, NULL, WNOHANG) > 0)
            n_workers--;
        pid_t pid = -1;
        if (rc >= 0 && n_fds == 1 && n_workers < WORKERS_MAX &&
            is_language(ask.language, sizeof ask.language))
            pid = fork();
        if (pid == 0)
            return become_worker(ask.language, fds[0]);
        n_workers += pid > 0;
        for (unsigned i = 0; i < n_fds; i++)
            close(fds[i]);
        if (rc < 0)
            return 0; /* the owner is gone; each worker sees so by itself */
    }
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "cay-syntax: started by cay, not by people\n");
        return 2;
    }
    close_range(OWNER_FD + 1, ~0U, 0);
    return argc == 2 ? serve_language(argv[1], OWNER_FD) : keep();
}
