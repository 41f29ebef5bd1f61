/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Starts http-server.py, which see, and ends it. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET "a secret of the tenant's"

struct server {
    pid_t pid;
    int in, out;
    unsigned port, tls_port;
    char folder[64];
    char socket[96];
    char cert[512];
};

/* dns: "dns", or NULL. */
static inline void server_start(struct server *server, const char *dns)
{
    char source[400], script[512], key[512], line[64] = "";
    int in[2], out[2];
    const char *top = getenv("CAY_SOURCE");

    snprintf(source, sizeof source, "%s/tests/full", top ? top : ".");
    snprintf(script, sizeof script, "%s/http-server.py", source);
    snprintf(server->cert, sizeof server->cert, "%s/server-cert.pem", source);
    snprintf(key, sizeof key, "%s/server-key.pem", source);
    snprintf(server->folder, sizeof server->folder, "/tmp/cay-test-XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->folder);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl("/usr/bin/python3", "python3", script, SECRET, server->cert, key, server->socket, dns,
              (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    server->in = in[1];
    server->out = out[0];
    for (size_t i = 0; i < sizeof line - 1 && read(server->out, line + i, 1) == 1; i++) {
        if (line[i] == '\n')
            break;
    }
    assert_int_equal(sscanf(line, "%u %u", &server->port, &server->tls_port), 2);
    fcntl(server->out, F_SETFL, O_NONBLOCK);
}

static inline void server_stop(struct server *server)
{
    close(server->in);
    close(server->out);
    waitpid(server->pid, NULL, 0);
    unlink(server->socket);
    rmdir(server->folder);
}
