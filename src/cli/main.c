/* SPDX-License-Identifier: Apache-2.0 */
/* The command: finds the subcommand and hands over. Subcommands are rows in commands.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/run.h>

#include "base/auto.h"
#include "base/opt.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/print.h"

const struct command commands[] = {
#define COMMAND_ROW(name, help) { #name, help, cmd_##name },
#ifdef CAY_FULL
#define FULL_ROW COMMAND_ROW
#else
#define FULL_ROW(name, help) { #name, help, full_exec },
#endif
    COMMANDS(COMMAND_ROW, FULL_ROW)
#undef COMMAND_ROW
#undef FULL_ROW
        { NULL, NULL, NULL },
};

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static bool is_unbuilt(const char *name)
{
    static const char *const unbuilt[] = { "batch",   "compare", "test", "verify",
                                           "session", "repl",    "mcp" };

    for (size_t i = 0; i < ARRAY_LEN(unbuilt); i++)
        if (strcmp(unbuilt[i], name) == 0)
            return true;
    return false;
}

int command_unknown(const char *name)
{
    const char *names[ARRAY_LEN(commands)];
    char hint[96];
    size_t n = 0;

    if (is_unbuilt(name)) {
        return print_usage_error(NULL, "cay %s is not built yet", name);
    }
    if (name[0] == '-') {
        snprintf(hint, sizeof hint, "`cay run %.40s …`; `cay help` lists the commands", name);
        return print_usage_error(hint, "expected a command before the option '%s'", name);
    }
    if (strpbrk(name, "./"))
        return print_usage_error("`cay run FILE` or `cay FILE` runs one", "there is no file '%s'",
                                 name);
    for (const struct command *command = commands; command->name; command++)
        names[n++] = command->name;
    const char *near = suggest(name, names, n);
    if (near)
        snprintf(hint, sizeof hint, "did you mean `cay %s`?", near);
    return print_usage_error(near ? hint : "`cay help` lists the commands", "unknown command '%s'",
                             name);
}

/* `cay script.py` is `cay run script.py`. */
static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* A caller may have closed them; what is opened next must not land there. */
static void have_standard_fds(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= 2)
        fcntl(fd, F_SETFD, 0);
    if (fd > 2)
        close(fd);
}

int main(int argc, char **argv)
{
    if (fcntl(0, F_GETFD) < 0 || fcntl(1, F_GETFD) < 0 || fcntl(2, F_GETFD) < 0)
        have_standard_fds();
    print_set_form(false, false);
    if (argc < 2)
        return cmd_help(1, argv), 2;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cmd_help(1, argv);
    if (strcmp(argv[1], "--version") == 0)
        return cmd_version(1, argv);
    if (strcmp(argv[1], "warden") == 0)
        return cay_warden_main(3, argv[2]); /* started by libcay; not for people */
#ifdef CAY_FULL
    if (strcmp(argv[1], "recorder") == 0 && argc == 2)
        return cmd_recorder();
#endif
    const struct command *command = command_find(argv[1]);
    bool is_code = !command && is_file(argv[1]);
    /* These have a result to print, of a run that failed to begin too. */
    bool has_result = is_code || (command && (command->run == cmd_run || command->run == cmd_exec));
    print_set_form(!has_result && opt_is_given(argc, argv, "--json"),
                   opt_is_given(argc, argv, "--no-color"));
    if (is_code)
        return cmd_run(argc, argv);
    return command ? command->run(argc - 1, argv + 1) : command_unknown(argv[1]);
}
