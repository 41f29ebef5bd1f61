/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The subcommands, a row each: cmd_NAME in NAME.c gets argv from its own name on and returns the
 * exit status. Help, dispatch and suggestions come from these rows.
 *
 * CMD rows are in both programs. FULL rows need libraries that starting `cay run` must not pay for
 * (a server's, a database's): they are in cay-full, which `cay` becomes when one is asked for
 * (exec-full.c).
 */

#define COMMANDS(CMD, FULL)                                           \
    CMD(run, "Run code in a sandbox")                                 \
    CMD(exec, "Run a command in a sandbox")                           \
    CMD(check, "Check what code would do, without running it")        \
    CMD(show, "Show a recorded run, or list the newest")              \
    CMD(explain, "Explain why a run failed, and what to try")         \
    CMD(apply, "Write a run's changes to its workspace")              \
    CMD(discard, "Discard a run's changes")                           \
    FULL(serve, "Serve runs over HTTP")                               \
    FULL(token, "Add, list or remove tokens of a server's clients")   \
    FULL(history, "List executions, by language, cause, time …")      \
    FULL(stats, "Success rate, causes and times of executions")       \
    FULL(image, "Build, import, list, export, remove images")         \
    CMD(audit, "Verify or print the log of all executions")           \
    CMD(cleanup, "Remove what a killed cay left, and old records")    \
    CMD(languages, "List the languages and where their runtimes are") \
    CMD(config, "Show each setting in force and where it came from")  \
    CMD(doctor, "Check this host, with the fix for each problem")     \
    CMD(setup, "Give a user a cgroup subtree of their own (root)")    \
    CMD(bench, "Measure this host, beside bare and other sandboxes")  \
    CMD(completion, "Print completions for bash, zsh or fish")        \
    CMD(version, "Show the version")                                  \
    CMD(help, "Show help for a command")

#define COMMAND_DECLARE(name, help) int cmd_##name(int argc, char **argv);
COMMANDS(COMMAND_DECLARE, COMMAND_DECLARE)
#undef COMMAND_DECLARE

struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv);
};

/* The server's recorder, in cay-full only; started by the server, not for people. */
int cmd_recorder(void);

/* Becomes cay-full with these words behind its name. Returns only where it is not there. */
int full_exec(int argc, char **argv);

/* All of them, ended by a row without a name. */
extern const struct command commands[];

/* NULL when there is none of that name. */
const struct command *command_find(const char *name);

/* Says that there is none, or not yet, and the nearest right one. Returns the exit status. */
int command_unknown(const char *name);
