/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart HELPER|@SOCKET UID REQUEST…: what a server's front could have its warden do if somebody
 * took it over. Starts a warden as the monitor does, or connects to where one listens; becomes the
 * user, and runs each request (JSON) past all that the server would have refused; a line each: the
 * result, or "refused: WHY". N*REQUEST: so many at once, and one line, "N ran", and why the last of
 * the others did not.
 */
#include <cay/cay.h>

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

static int fail(const char *what)
{
    fprintf(stderr, "apart: %s: %s\n", what, strerror(errno));
    return 1;
}

static int start(char *helper)
{
    char *argv[] = { helper, (char[]){ "warden" }, (char[]){ "unprivileged" }, NULL };
    posix_spawn_file_actions_t actions;
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 9);
    posix_spawn_file_actions_adddup2(&actions, 9, 3);
    errno = posix_spawn(&pid, helper, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    return errno == 0 ? pair[0] : -1;
}

static int join(const char *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    return fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof name) == 0 ? fd : -1;
}

static int give(void *arg, struct cay_error *err)
{
    (void)err;
    return *(int *)arg;
}

static void run(struct cay *cay, const char *json)
{
    struct cay_request *req = cay_request_new();
    struct cay_result *result;
    struct cay_error err;

    if (cay_request_parse(req, json, strlen(json), &err) < 0 ||
        cay_run(cay, req, NULL, &result, &err) < 0) {
        printf("refused: %s\n", err.msg);
    } else {
        char *text = cay_result_json(result);
        puts(text);
        free(text);
        cay_result_free(result);
    }
    cay_request_free(req);
}

struct crowd {
    unsigned n, ran;
    char why[400];
};

static void on_done(void *arg, struct cay_result *result, const struct cay_error *err)
{
    struct crowd *crowd = arg;

    crowd->n--;
    crowd->ran += result && result->exit_code == 0;
    if (!result || result->exit_code != 0)
        snprintf(crowd->why, sizeof crowd->why, "%s", result ? result->error_message : err->msg);
    cay_result_free(result);
}

static void run_many(struct cay *cay, unsigned n, const char *json)
{
    struct cay_request *req = cay_request_new();
    struct crowd crowd = { 0 };
    const struct cay_start_options options = { .on_done = on_done, .arg = &crowd };
    struct cay_running *running;
    struct cay_error err;

    if (cay_request_parse(req, json, strlen(json), &err) < 0)
        exit(fail(err.msg));
    for (; n > 0; n--, crowd.n++)
        if (cay_start(cay, req, &options, &running, &err) < 0)
            exit(fail(err.msg));
    while (crowd.n > 0) {
        struct pollfd fd = { .fd = cay_fd(cay), .events = POLLIN };
        poll(&fd, 1, -1);
        cay_dispatch(cay, &err);
    }
    printf("%u ran, %s\n", crowd.ran, crowd.why);
    cay_request_free(req);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int fd = *argv[1] == '@' ? 0 : start(argv[1]);
    uid_t uid = (uid_t)strtoul(argv[2], NULL, 10);
    const struct cay_options options = { .no_project = true,
                                         .start_warden = give,
                                         .start_arg = &fd };
    struct cay *cay;
    struct cay_error err;

    if (fd < 0)
        return fail("start a warden");
    if (geteuid() == 0 &&
        (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
        return fail("become another user");
    if (*argv[1] == '@' && (fd = join(argv[1] + 1)) < 0) /* it is looked at who comes */
        return fail("connect to the warden");
    if (cay_open(&options, &cay, &err) < 0)
        return fail(err.msg);
    for (int i = 3; i < argc; i++) {
        const char *star = *argv[i] == '{' ? NULL : strchr(argv[i], '*');
        if (star)
            run_many(cay, (unsigned)strtoul(argv[i], NULL, 10), star + 1);
        else
            run(cay, argv[i]);
    }
    cay_close(cay);
    return 0;
}
