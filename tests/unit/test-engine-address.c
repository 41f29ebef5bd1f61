/* SPDX-License-Identifier: Apache-2.0 */
/* Where the container engine is, and what is said where it can't be had. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "backends/docker/engine-address.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/backend-kind.h"

/* ---- reading ---- */

static void test_good_addresses(void **state)
{
    static const struct {
        const char *text;
        enum engine_kind kind;
        const char *where; /* the path or the host */
        unsigned port;
        const char *shown;
    } rows[] = {
        { "unix:///var/run/docker.sock", ENGINE_UNIX, "/var/run/docker.sock", 0,
          "unix:///var/run/docker.sock" },
        { "/run/x y.sock", ENGINE_UNIX, "/run/x y.sock", 0, "unix:///run/x y.sock" },
        { "tcp://127.0.0.1:2375", ENGINE_TCP, "127.0.0.1", 2375, "tcp://127.0.0.1:2375" },
        { "tcp://docker:2375/", ENGINE_TCP, "docker", 2375, "tcp://docker:2375" },
        { "tcp://[::1]:65535", ENGINE_TCP, "::1", 65535, "tcp://[::1]:65535" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct engine_address address;
        struct cay_error err;
        assert_int_equal(engine_address_parse(rows[i].text, &address, &err), 0);
        assert_int_equal(address.kind, rows[i].kind);
        assert_string_equal(rows[i].kind == ENGINE_UNIX ? address.path : address.host,
                            rows[i].where);
        assert_int_equal(address.port, rows[i].port);
        assert_string_equal(address.text, rows[i].shown);
    }
}

static void test_bad_addresses(void **state)
{
    static const char *const rows[] = {
        "",
        "docker.sock",
        "unix://",
        "unix://relative.sock",
        "tcp://",
        "tcp://:2375",
        "tcp://host",
        "tcp://host:",
        "tcp://host:0",
        "tcp://host:65536",
        "tcp://host:99999999999",
        "tcp://host:+1",
        "tcp://host:2375/v1.41",
        "tcp://user@host:2375",
        "tcp://ho st:2375",
        "tcp://[::1:2375",
        "tcp://[::1]2375",
        "tcp://[name]:2375",
        "npipe:////./pipe/docker_engine",
        "ssh://me@there",
        "unix:///run/\n.sock",
        "unix:///0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct engine_address address = { .port = 7 };
        struct cay_error err = { 0 };
        assert_int_equal(engine_address_parse(rows[i], &address, &err), -1);
        assert_int_equal(err.kind, CAY_E_USAGE);
        assert_non_null(strstr(err.msg, "docker_host: "));
        assert_int_equal(address.port, 7);
    }
}

/* ---- a machine of our own ---- */

struct machine {
    struct tmp_folder top;
    char runtime_dir[96];
    int listening[2];
};

static int make_machine(void **state)
{
    struct machine *m = mem_alloc(sizeof *m);
    static const char *const folders[] = { "/var",      "/var/run",         "/run", "/run/podman",
                                           "/run/user", "/run/user/podman", "/etc", "/usr",
                                           "/usr/bin",  "/usr/sbin" };

    tmp_folder_make(&m->top);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        char path[160];
        snprintf(path, sizeof path, "%s%s", m->top.path, folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    snprintf(m->runtime_dir, sizeof m->runtime_dir, "%s/run/user", m->top.path);
    m->listening[0] = m->listening[1] = -1;
    *state = m;
    return 0;
}

static int remove_machine(void **state)
{
    struct machine *m = *state;

    for (int i = 0; i < 2; i++)
        close_fd(&m->listening[i]);
    tmp_folder_remove(&m->top);
    free(m);
    return 0;
}

/* A socket that somebody listens at; or, closed at once, one that a dead daemon left. */
static int listen_at(const struct machine *m, const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(un.sun_path, sizeof un.sun_path, "%s%s", m->top.path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void put_file(const struct machine *m, const char *path, const char *text)
{
    char full[200];

    snprintf(full, sizeof full, "%s%s", m->top.path, path);
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(full, 0755), 0);
}

static int try(const struct machine *m, const char *docker_host, struct engine_address *address,
               struct cay_error *err)
{
    const struct engine_places places = { docker_host, m->runtime_dir, m->top.path };
    int fd = -1;

    *err = (struct cay_error){ 0 };
    int rc = engine_connect(&places, address, &fd, err);
    assert_int_equal(rc < 0, fd < 0);
    close_fd(&fd);
    return rc;
}

static void assert_says(const struct cay_error *err, const char *text, const char *remedy)
{
    assert_int_equal(err->kind, CAY_E_UNSUPPORTED);
    assert_true(backend_is_unavailable(err)); /* another backend may be taken */
    if (strncmp(err->msg, text, strlen(text)) != 0 || !strstr(err->hint, remedy))
        fail_msg("\"%s\" (%s), wanted \"%s\" (%s)", err->msg, err->hint, text, remedy);
    assert_true(strlen(err->hint) < sizeof err->hint - 1); /* whole */
}

static void test_no_docker(void **state)
{
    const struct machine *m = *state;
    struct engine_address address;
    struct cay_error err;

    assert_int_equal(try(m, NULL, &address, &err), -1);
    assert_says(&err, "Error: Docker not found", "sudo apt install docker.io");
    assert_non_null(strstr(err.msg, "/var/run/docker.sock"));
    put_file(m, "/usr/bin/docker", "");
    assert_int_equal(try(m, NULL, &address, &err), -1);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "sudo apt install docker.io");
    put_file(m, "/usr/bin/podman", "");
    assert_int_equal(try(m, NULL, &address, &err), -1);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "start podman.socket");
    put_file(m, "/usr/sbin/dockerd", "");
    assert_int_equal(try(m, NULL, &address, &err), -1);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "systemctl start docker");
}

static void test_daemon_is_dead(void **state)
{
    const struct machine *m = *state;
    struct engine_address address;
    struct cay_error err;
    char host[200];

    close(listen_at(m, "/run/podman/podman.sock"));
    assert_int_equal(try(m, NULL, &address, &err), -1);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "systemctl start docker");
    assert_non_null(strstr(err.msg, "podman.sock: the daemon is not running"));
    snprintf(host, sizeof host, "unix://%s/run/else.sock", m->top.path);
    assert_int_equal(try(m, host, &address, &err), -1); /* said by name, and not looked past */
    assert_says(&err, "Error: Docker not found", "apt install");
}

static void test_first_that_answers(void **state)
{
    struct machine *m = *state;
    struct engine_address address;
    struct cay_error err;

    close(listen_at(m, "/var/run/docker.sock"));
    m->listening[0] = listen_at(m, "/run/podman/podman.sock");
    assert_int_equal(try(m, NULL, &address, &err), 0);
    assert_non_null(strstr(address.path, "/run/podman/podman.sock"));
    m->listening[1] = listen_at(m, "/run/user/docker.sock");
    assert_int_equal(try(m, NULL, &address, &err), 0);
    assert_non_null(strstr(address.path, "/run/user/docker.sock"));
    assert_int_equal(try(m, "podman", &address, &err), 0);
    assert_non_null(strstr(address.path, "/run/podman/podman.sock"));
}

/* Of a folder that is somebody else's, nothing is believed. */
static void test_runtime_dir_of_another(void **state)
{
    const struct machine *m = *state;
    struct engine_address list[ENGINE_USUAL];
    struct cay_error err;

    assert_int_equal(engine_address_list(
                         &(struct engine_places){ NULL, m->runtime_dir, m->top.path }, list, &err),
                     ENGINE_USUAL);
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(m->runtime_dir, 12345, 12345), 0);
    assert_int_equal(engine_address_list(
                         &(struct engine_places){ NULL, m->runtime_dir, m->top.path }, list, &err),
                     2);
    assert_non_null(strstr(list[1].path, "/run/podman/podman.sock"));
}

static void test_reasons(void **state)
{
    const struct engine_programs all = { true, true, true };
    struct engine_address local, far;
    struct cay_error err;

    (void)state;
    assert_int_equal(engine_address_parse("unix:///run/d.sock", &local, &err), 0);
    assert_int_equal(engine_address_parse("tcp://10.0.0.1:2375", &far, &err), 0);
    assert_int_equal(engine_unreachable(&local, EACCES, &all, &err), -1);
    assert_says(&err, "Error: Cannot connect to Docker daemon: unix:///run/d.sock: permission",
                "usermod -aG docker");
    engine_unreachable(&far, ECONNREFUSED, &all, &err);
    assert_says(&err, "Error: Cannot connect to Docker daemon: tcp://10.0.0.1:2375", "DOCKER_HOST");
    engine_unreachable(&far, ETIMEDOUT, &all, &err);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "DOCKER_HOST");
    engine_unreachable(&local, ETIMEDOUT, &all, &err);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "journalctl");
    engine_unreachable(&far, EHOSTUNREACH, &all, &err);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "cay doctor");
    engine_no_sense(&local, "it does not speak HTTP", &err);
    assert_says(&err, "Error: Cannot connect to Docker daemon", "DOCKER_HOST");
}

static void test_names(void **state)
{
    const struct machine *m = *state;
    static const struct {
        const char *text;
        int family; /* 0: not known */
    } rows[] = {
        { "tcp://engine:2375", AF_INET }, { "tcp://ENGINE6:2375", AF_INET6 },
        { "tcp://localhost:1", AF_INET }, { "tcp://[fe80::1]:1", AF_INET6 },
        { "tcp://elsewhere:2375", 0 },    { "tcp://commented:2375", 0 },
    };

    put_file(m, "/etc/hosts",
             "10.1.2.3\tgate engine # commented\nfd00::1 engine6\nbad elsewhere\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct engine_address address;
        struct sockaddr_storage to;
        socklen_t len = 0;
        struct cay_error err = { 0 };
        assert_int_equal(engine_address_parse(rows[i].text, &address, &err), 0);
        int rc = engine_address_socket(&address, m->top.path, &to, &len, &err);
        assert_int_equal(rc, rows[i].family ? 0 : -1);
        if (rc == 0)
            assert_int_equal(to.ss_family, rows[i].family);
        else
            assert_says(&err, "Error: Cannot connect to Docker daemon", "/etc/hosts");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_addresses),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test_setup_teardown(test_no_docker, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(test_daemon_is_dead, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(test_first_that_answers, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(test_runtime_dir_of_another, make_machine, remove_machine),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test_setup_teardown(test_names, make_machine, remove_machine),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
