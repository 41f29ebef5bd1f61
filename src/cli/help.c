/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/print.h"

static const char examples[] = "  cay run -l python -e 'print(6 * 7)'\n"
                               "  cay run --timeout 2 --memory 64m script.py\n"
                               "  cay exec -- ls -la /sandbox\n";

static int overview(void)
{
    auto_strbuf struct strbuf out = { 0 };

    strbuf_puts(&out,
                "Usage: cay COMMAND [options]\n\n"
                "Runs code that nobody has read yet in a sandbox of its own, with hard limits,\n"
                "and tells the truth about what happened. Needs no root and no daemon.\n\n"
                "Commands:\n");
    for (const struct command *command = commands; command->name; command++)
        strbuf_printf(&out, "  %-12s %s\n", command->name, command->help);
    strbuf_printf(&out,
                  "\n"
                  "Examples:\n"
                  "%s\n"
                  "See `cay help COMMAND` or `man cay` for more.\n",
                  examples);
    return print_text(strbuf_str(&out));
}

int cmd_help(int argc, char **argv)
{
    const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;
    char flag[] = "--help";

    if (argc <= 1 || (command && command->run == cmd_help))
        return overview();
    if (!command)
        return command_unknown(argv[1]);
    return command->run(2, (char *[]){ argv[1], flag, NULL });
}
