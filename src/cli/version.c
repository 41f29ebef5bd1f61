/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/utsname.h>

#include <cay/version.h>

#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/print.h"

int cmd_version(int argc, char **argv)
{
    auto_strbuf struct strbuf out = { 0 };
    struct utsname system;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return print_help("cay version", "Shows the version of cay and of the kernel it runs on.",
                          NULL, "  cay version\n  cay --version\n");
    if (argc > 1)
        return print_unexpected_argument("version", argv[1]);
    strbuf_printf(&out, "cay %s\n", CAY_VERSION);
    if (uname(&system) == 0)
        strbuf_printf(&out, "%s %s %s\n", system.sysname, system.release, system.machine);
    return print_text(strbuf_str(&out));
}
