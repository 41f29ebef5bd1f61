/* SPDX-License-Identifier: Apache-2.0 */
/* `cay discard`: throws a change set away. */
#include <cay/executions.h>

#include "base/error.h"
#include "base/opt.h"
#include "cli/changes-view.h"
#include "cli/commands.h"
#include "cli/print.h"

int cmd_discard(int argc, char **argv)
{
    bool help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay_execution *run;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay discard ID",
                          "Discards what a run changed in its workspace. Its result and output\n"
                          "stay until they are pruned. ID as in `cay show`.",
                          opts, "  cay discard last\n  cay discard 3f2a\n");
    if (first == argc) {
        cay_fail(&err, CAY_E_USAGE, "discard: which execution?");
        cay_hint(&err, "cay discard ID, or `cay discard last`");
        return print_error(&err);
    }
    if (first + 1 < argc)
        return print_unexpected_argument("discard", argv[first + 1]);
    if (cay_execution_open(argv[first], &run, &err) < 0)
        return print_error(&err);
    int status = cay_execution_discard(run, &err) < 0 ? changes_print_error(run, &err) : 0;
    if (status == 0)
        print_message("the changes of %.8s are gone; the folder was never touched",
                      cay_execution_id(run));
    cay_execution_close(run);
    return status;
}
