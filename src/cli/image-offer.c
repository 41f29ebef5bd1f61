/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image-offer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cay/error.h>

#include "base/auto.h"
#include "cli/print.h"

#define COMMAND "cay image build "

enum { WORDS_MAX = 16 };

/* The command is in backticks in the hint of an error that it helps against. */
static bool find_command(const struct cay_error *err, char *ret, size_t size)
{
    const char *start = strchr(err->hint, '`'), *end = start ? strchr(start + 1, '`') : NULL;

    if (err->errnum != ENOMEDIUM || !end || strncmp(start + 1, COMMAND, strlen(COMMAND)) != 0)
        return false;
    snprintf(ret, size, "%.*s", (int)(end - start - 1), start + 1);
    return true;
}

/* A line of what is typed; false: nobody answers. */
static bool read_line(int cancel_fd, char *line, size_t size)
{
    size_t len = 0;

    while (len + 1 < size) {
        struct pollfd list[] = { { STDIN_FILENO, POLLIN, 0 }, { cancel_fd, POLLIN, 0 } };
        if (poll(list, ARRAY_LEN(list), -1) < 0 && errno != EINTR)
            return false;
        if (list[1].revents)
            return false;
        if (!list[0].revents)
            continue;
        if (read(STDIN_FILENO, line + len, 1) != 1)
            return false;
        if (line[len] == '\n')
            break;
        len++;
    }
    line[len] = '\0';
    return true;
}

static bool is_wanted(const struct cay_error *err, const char *command, int cancel_fd)
{
    char line[64];

    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return false;
    print_message("%s", err->msg);
    print_message("`%s` builds it from Debian packages, which takes minutes", command);
    fprintf(stderr, "%sbuild it now? [Y/n] ", print_prefix());
    fflush(stderr);
    if (!read_line(cancel_fd, line, sizeof line)) {
        fputc('\n', stderr);
        return false;
    }
    return !line[0] || strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
}

/* By this same program, which reports progress on stderr. stdout is for the run. */
static bool build(char *command)
{
    char *words[WORDS_MAX + 1] = { 0 }, *rest = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t ignored;
    pid_t pid;
    int status = -1;
    size_t n = 0;

    for (char *word = strtok_r(command, " ", &rest); word && n < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    sigaddset(&ignored, SIGXFSZ);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &ignored);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    int rc = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (rc != 0) {
        print_message("start `%s`: %s", COMMAND, strerror(rc));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0;
}

bool image_offer_build(const struct cay_error *err, bool is_agreed, int cancel_fd)
{
    char command[sizeof err->hint];

    if (!find_command(err, command, sizeof command))
        return false;
    return (is_agreed || is_wanted(err, command, cancel_fd)) && build(command);
}
