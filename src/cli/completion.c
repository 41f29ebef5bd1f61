/* SPDX-License-Identifier: Apache-2.0 */
/* `cay completion SHELL`: from the same rows that parse. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/run-options.h"
#include "cli/tell.h"

static void put_command_names(struct strbuf *out)
{
    for (const struct command *command = commands; command->name; command++)
        strbuf_printf(out, "%s%s", command == commands ? "" : " ", command->name);
}

/* The words of `cay run`, one a line: "--timeout=", "--json", "-l". */
static void run_words(struct strbuf *out)
{
    auto_free struct run_args *args = mem_alloc(sizeof *args);
    struct opt rows[RUN_OPTION_ROWS];

    run_options(args, false, rows);
    opt_list_words(out, rows);
}

static void put_words(struct strbuf *out)
{
    auto_strbuf struct strbuf words = { 0 };

    run_words(&words);
    for (const char *pos = strbuf_str(&words); *pos; pos++)
        strbuf_putc(out, *pos == '\n' ? ' ' : *pos);
}

static void put_bash(struct strbuf *out)
{
    strbuf_puts(out, "_cay()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]}\n"
                     "    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                     "        mapfile -t COMPREPLY < <(compgen -W '");
    put_command_names(out);
    strbuf_puts(out, "' -- \"$cur\")\n    elif [[ $cur == -* ]]; then\n"
                     "        mapfile -t COMPREPLY < <(compgen -W '");
    put_words(out);
    strbuf_puts(out,
                "' -- \"$cur\")\n"
                "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
                "    else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n    fi\n}\n"
                "complete -o filenames -F _cay cay\n");
}

static void put_zsh(struct strbuf *out)
{
    strbuf_puts(out,
                "#compdef cay\n_cay() {\n    if (( CURRENT == 2 )); then\n        compadd -- ");
    put_command_names(out);
    strbuf_puts(out, "\n    elif [[ $words[CURRENT] == -* ]]; then\n        compadd -S '' -- ");
    put_words(out);
    strbuf_puts(out, "\n    else\n        _files\n    fi\n}\ncompdef _cay cay\n");
}

static void put_fish(struct strbuf *out)
{
    auto_free struct run_args *args = mem_alloc(sizeof *args);
    struct opt rows[RUN_OPTION_ROWS];

    for (const struct command *command = commands; command->name; command++)
        strbuf_printf(out, "complete -c cay -n __fish_use_subcommand -a %s -d '%s'\n",
                      command->name, command->help);
    run_options(args, false, rows);
    struct opt_iter it = { { rows } };
    for (const struct opt *opt; (opt = opt_next(&it));)
        if (opt->name && opt->help)
            strbuf_printf(out,
                          "complete -c cay -n '__fish_seen_subcommand_from run exec' -l %s%s\n",
                          opt->name, opt_takes_value(opt) ? " -r" : "");
}

static const struct {
    const char *shell;
    void (*put)(struct strbuf *out);
} shells[] = { { "bash", put_bash }, { "zsh", put_zsh }, { "fish", put_fish } };

int cmd_completion(int argc, char **argv)
{
    auto_strbuf struct strbuf out = { 0 };

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return tell_help("cay completion bash|zsh|fish", "Prints completions for a shell.", NULL,
                         "  cay completion bash > /etc/bash_completion.d/cay\n"
                         "  source <(cay completion bash)\n");
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(shells); i++)
        if (strcmp(argv[1], shells[i].shell) == 0) {
            shells[i].put(&out);
            return tell_text(strbuf_str(&out));
        }
    tell("completion: '%s' is not one of: bash zsh fish", argc > 1 ? argv[1] : "");
    return 2;
}
