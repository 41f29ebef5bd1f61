/* SPDX-License-Identifier: Apache-2.0 */
/* `cay completion SHELL`: from the same rows that parse. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/run-options.h"

static void put_command_names(struct strbuf *out)
{
    for (const struct command *command = commands; command->name; command++)
        strbuf_printf(out, "%s%s", command == commands ? "" : " ", command->name);
}

/* The words of `cay run`, one a line: "--timeout=", "--json", "-l". */
static void put_words(struct strbuf *out, const struct opt *rows)
{
    auto_strbuf struct strbuf words = { 0 };

    opt_list_words(&words, rows);
    for (const char *pos = strbuf_str(&words); *pos; pos++)
        strbuf_putc(out, *pos == '\n' ? ' ' : *pos);
}

/* ---- what an option's value can be ---- */

enum values {
    VALUES_ANY,
    VALUES_FILES,
    VALUES_FOLDERS,
    VALUES_WORDS,
    VALUES_LANGUAGES,
    VALUES_PROFILES,
    VALUES_IMAGES
};

/* The languages are asked for when they are needed: the list is data, and may have grown. */
#define LIST_LANGUAGES " languages 2>/dev/null | awk 'NR > 1 { print $1 }'"

/* So are the profiles, which a configuration may have more of. */
#define LIST_PROFILES \
    " config 2>/dev/null | sed -n 's/^profiles  *\\([^ ]*\\).*/\\1/p' | tr , '\\n'"

/* Names of images, and of what can be built. */
#define LIST_IMAGES    " image list 2>/dev/null | cut -f 1"
#define LIST_AVAILABLE " image list --available 2>/dev/null | awk '{ print $1 }'"

/* The newest executions. */
#define LIST_IDS " history -n 20 2>/dev/null | cut -c 1-8"

/* The options of the other commands, whose rows are their own, from what their help says. */
#define LIST_OPTIONS "--help 2>/dev/null | grep -oE -- '^ +(-., )?--[a-z-]+' | grep -oE -- '--.*'"

static bool is_field(const struct cay_field *field, const char *option)
{
    size_t i = 0;

    while (option[i] && field->name[i] == (option[i] == '-' ? '_' : option[i]))
        i++;
    return option[i] == '\0' && field->name[i] == '\0';
}

static enum values values_of(const struct opt *opt, const char **ret_words)
{
    const struct cay_field *field;

    if (strcmp(opt->name, "language") == 0)
        return VALUES_LANGUAGES;
    if (strcmp(opt->name, "image") == 0)
        return VALUES_IMAGES;
    if (strcmp(opt->name, "profile") == 0)
        return VALUES_PROFILES;
    if (strncmp(opt->arg, "DIR", 3) == 0)
        return VALUES_FOLDERS;
    if (strstr(opt->arg, "FILE") || strstr(opt->arg, "PATH"))
        return VALUES_FILES;
    for (size_t i = 0; (field = cay_field_at(i)); i++)
        if (is_field(field, opt->name) && field->choices) {
            *ret_words = field->choices;
            return VALUES_WORDS;
        }
    return VALUES_ANY;
}

/* How a shell offers each of these. */
struct dialect {
    const char *files, *folders, *words_before, *words_after, *languages, *profiles, *images;
};

/* A case for each option that takes a value: "-l|--language) … ;;". */
static void put_cases(struct strbuf *out, const struct opt *rows, const struct dialect *dialect)
{
    struct opt_iter it = { { rows } };

    for (const struct opt *opt; (opt = opt_next(&it));) {
        const char *words = NULL;
        if (!opt->name || !opt->help || !opt_takes_value(opt))
            continue;
        strbuf_puts(out, "    ");
        if (opt->letter)
            strbuf_printf(out, "-%c|", opt->letter);
        strbuf_printf(out, "--%s) ", opt->name);
        switch (values_of(opt, &words)) {
        case VALUES_ANY:
            break;
        case VALUES_FILES:
            strbuf_puts(out, dialect->files);
            break;
        case VALUES_FOLDERS:
            strbuf_puts(out, dialect->folders);
            break;
        case VALUES_WORDS:
            strbuf_printf(out, "%s%s%s", dialect->words_before, words, dialect->words_after);
            break;
        case VALUES_LANGUAGES:
            strbuf_puts(out, dialect->languages);
            break;
        case VALUES_PROFILES:
            strbuf_puts(out, dialect->profiles);
            break;
        case VALUES_IMAGES:
            strbuf_puts(out, dialect->images);
            break;
        }
        strbuf_puts(out, "return ;;\n");
    }
}

static void put_bash(struct strbuf *out, const struct opt *rows)
{
    static const struct dialect dialect = {
        .files = "_cay_files -f; ",
        .folders = "_cay_files -d; ",
        .words_before = "mapfile -t COMPREPLY < <(compgen -W '",
        .words_after = "' -- \"$cur\"); ",
        .languages = "mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\"" LIST_LANGUAGES
                     ")\" -- \"$cur\"); ",
        .profiles = "mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\"" LIST_PROFILES
                    ")\" -- \"$cur\"); ",
        .images = "mapfile -t COMPREPLY < <(compgen -W \"host $(\"${COMP_WORDS[0]}\"" LIST_IMAGES
                  ")\" -- \"$cur\"); ",
    };

    /* Only names of files are quoted: an option would become --timeout\\= . */
    strbuf_puts(out, "_cay_files()\n{\n"
                     "    compopt -o filenames 2>/dev/null\n"
                     "    mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$cur\")\n}\n\n"
                     "_cay()\n{\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "    local command=${COMP_WORDS[1]}\n"
                     "    COMPREPLY=()\n"
                     "    # --name=value comes as three words.\n"
                     "    if [ \"$cur\" = = ]; then cur=\n"
                     "    elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                     "    if [ \"$COMP_CWORD\" -eq 1 ] || [ \"$command\" = help ]; then\n"
                     "        mapfile -t COMPREPLY < <(compgen -W '");
    put_command_names(out);
    strbuf_puts(out, "' -- \"$cur\")\n        return\n"
                     "    elif [ \"$command\" = completion ]; then\n"
                     "        mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- \"$cur\")\n"
                     "        return\n    fi\n    case $prev in\n");
    put_cases(out, rows, &dialect);
    strbuf_puts(out,
                "    esac\n    if [[ $cur == -* && $command != run && $command != exec ]]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\" "
                "\"$command\" " LIST_OPTIONS ")\" -- \"$cur\")\n"
                "    elif [[ $cur == -* ]]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W '");
    put_words(out, rows);
    strbuf_puts(out,
                "' -- \"$cur\")\n"
                "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
                "    elif [[ $command == image && $COMP_CWORD -eq 2 ]]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W 'build list import export remove' -- "
                "\"$cur\")\n"
                "    elif [[ $command == image && ${COMP_WORDS[2]} == build ]]; then\n"
                "        _cay_files -f -X '!*.toml'\n"
                "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "
                "\"$(\"${COMP_WORDS[0]}\"" LIST_AVAILABLE ")\" -- \"$cur\")\n"
                "    elif [[ $command == image && ${COMP_WORDS[2]} == import ]]; then\n"
                "        _cay_files -f\n"
                "    elif [[ $command == image ]]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\"" LIST_IMAGES
                ")\" -- \"$cur\")\n"
                "    elif [[ $command == show || $command == explain || $command == apply || "
                "$command == discard ]]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"last $(\"${COMP_WORDS[0]}\"" LIST_IDS
                ")\" -- \"$cur\")\n"
                "    elif [[ $command == run || $command == exec || $command == check ]]; then\n"
                "        _cay_files -f\n    fi\n}\n"
                "complete -F _cay cay\n");
}

static void put_zsh(struct strbuf *out, const struct opt *rows)
{
    static const struct dialect dialect = {
        .files = "_files; ",
        .folders = "_files -/; ",
        .words_before = "compadd -- ",
        .words_after = "; ",
        .languages = "compadd -- ${(f)\"$($words[1]" LIST_LANGUAGES ")\"}; ",
        .profiles = "compadd -- ${(f)\"$($words[1]" LIST_PROFILES ")\"}; ",
        .images = "compadd -- host ${(f)\"$($words[1]" LIST_IMAGES ")\"}; ",
    };

    strbuf_puts(out, "#compdef cay\n_cay() {\n    local prev=$words[CURRENT-1]\n"
                     "    if [[ $PREFIX == --*=* ]]; then\n"
                     "        prev=${PREFIX%%=*}\n        compset -P '*='\n    fi\n"
                     "    if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then\n"
                     "        compadd -- ");
    put_command_names(out);
    strbuf_puts(out, "\n        return\n    elif [[ $words[2] == completion ]]; then\n"
                     "        compadd -- bash zsh fish\n        return\n    fi\n"
                     "    case $prev in\n");
    put_cases(out, rows, &dialect);
    strbuf_puts(out, "    esac\n"
                     "    if [[ $words[CURRENT] == -* && $words[2] != (run|exec) ]]; then\n"
                     "        compadd -- ${(f)\"$($words[1] $words[2] " LIST_OPTIONS ")\"}\n"
                     "    elif [[ $words[CURRENT] == -* ]]; then\n"
                     "        compadd -S '' -- ");
    put_words(out, rows);
    strbuf_puts(out, "\n    elif [[ $words[2] == image ]] && (( CURRENT == 3 )); then\n"
                     "        compadd -- build list import export remove\n"
                     "    elif [[ $words[2] == image && $words[3] == build ]]; then\n"
                     "        compadd -- ${(f)\"$($words[1]" LIST_AVAILABLE ")\"}\n"
                     "        _files -g '*.toml'\n"
                     "    elif [[ $words[2] == image && $words[3] == import ]]; then\n"
                     "        _files\n"
                     "    elif [[ $words[2] == image ]]; then\n"
                     "        compadd -- ${(f)\"$($words[1]" LIST_IMAGES ")\"}\n");
    strbuf_puts(out, "    elif [[ $words[2] == (show|explain|apply|discard) ]]; then\n"
                     "        compadd -- last ${(f)\"$($words[1]" LIST_IDS ")\"}\n"
                     "    elif [[ $words[2] == (run|exec) ]]; then\n        _files\n    "
                     "fi\n}\ncompdef _cay cay\n");
}

/* Within single quotes. */
static void put_quoted(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            strbuf_putc(out, '\\');
        strbuf_putc(out, *text);
    }
}

static void put_fish(struct strbuf *out, const struct opt *rows)
{
    struct opt_iter it = { { rows } };

    for (const struct command *command = commands; command->name; command++) {
        strbuf_printf(out, "complete -c cay -f -n __fish_use_subcommand -a %s -d '", command->name);
        put_quoted(out, command->help);
        strbuf_puts(out, "'\n");
    }
    strbuf_puts(out, "complete -c cay -f -n '__fish_seen_subcommand_from help' -a '");
    put_command_names(out);
    strbuf_puts(out,
                "'\ncomplete -c cay -f -n '__fish_seen_subcommand_from completion' "
                "-a 'bash zsh fish'\n"
                "complete -c cay -f -n '__fish_seen_subcommand_from show explain apply discard' "
                "-a 'last (cay" LIST_IDS ")'\n"
                "complete -c cay -f -n '__fish_seen_subcommand_from image; and not "
                "__fish_seen_subcommand_from build list import export remove' "
                "-a 'build list import export remove'\n"
                "complete -c cay -n '__fish_seen_subcommand_from image; and "
                "__fish_seen_subcommand_from build' -a '(cay image list --available "
                "2>/dev/null | string replace -r \" .*\" \"\")'\n"
                "complete -c cay -f -n '__fish_seen_subcommand_from image; and "
                "__fish_seen_subcommand_from export remove' -a '(cay" LIST_IMAGES ")'\n"
                "complete -c cay -n 'not __fish_use_subcommand; and not "
                "__fish_seen_subcommand_from run exec' -a '(cay (commandline -opc)[2] --help "
                "2>/dev/null | string match -rg \"^ +(?:-., )?(--[a-z-]+)\")'\n");
    for (const struct opt *opt; (opt = opt_next(&it));) {
        const char *words = NULL;
        if (!opt->name || !opt->help)
            continue;
        strbuf_printf(out, "complete -c cay -n '__fish_seen_subcommand_from run exec' -l %s",
                      opt->name);
        if (opt->letter)
            strbuf_printf(out, " -s %c", opt->letter);
        enum values values = opt_takes_value(opt) ? values_of(opt, &words) : VALUES_ANY;
        if (opt_takes_value(opt))
            strbuf_puts(out, values == VALUES_FILES ? " -r -F" : " -x");
        if (values == VALUES_FOLDERS)
            strbuf_puts(out, " -a '(__fish_complete_directories)'");
        if (values == VALUES_WORDS)
            strbuf_printf(out, " -a '%s'", words);
        if (values == VALUES_PROFILES)
            strbuf_puts(out,
                        " -a '(cay config 2>/dev/null | string match -rg \"^profiles +([^ ]*)\" |"
                        " string split ,)'");
        if (values == VALUES_IMAGES)
            strbuf_puts(out, " -a 'host (cay" LIST_IMAGES ")'");
        if (values == VALUES_LANGUAGES)
            strbuf_puts(out, " -a '(cay languages 2>/dev/null | tail -n +2 |"
                             " string replace -r \" .*\" \"\")'");
        strbuf_puts(out, " -d '");
        put_quoted(out, opt->help);
        strbuf_puts(out, "'\n");
    }
}

static const struct {
    const char *shell;
    void (*put)(struct strbuf *out, const struct opt *rows);
} shells[] = { { "bash", put_bash }, { "zsh", put_zsh }, { "fish", put_fish } };

int cmd_completion(int argc, char **argv)
{
    auto_strbuf struct strbuf out = { 0 };

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return print_help("cay completion bash|zsh|fish", "Prints completions for a shell.", NULL,
                          "  cay completion bash > /etc/bash_completion.d/cay\n"
                          "  source <(cay completion bash)\n");
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(shells); i++)
        if (strcmp(argv[1], shells[i].shell) == 0) {
            auto_free struct run_args *args = mem_alloc(sizeof *args);
            struct opt rows[RUN_OPTION_ROWS];
            run_options(args, false, rows);
            shells[i].put(&out, rows);
            return print_text(strbuf_str(&out));
        }
    if (argc < 2)
        return print_usage_error("cay completion bash, zsh or fish", "completion: of which shell?");
    return print_usage_error(NULL, "completion: '%s' is not one of: bash zsh fish", argv[1]);
}
