/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "cli/print.h"

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* nobody is there to wait */
}

void progress_begin(struct progress *progress, const char *what, bool is_quiet)
{
    progress_clear(progress);
    progress->what = what;
    progress->is_quiet_stage = is_quiet;
    progress->since_ns = clock_now_ns();
}

void progress_tick(struct progress *progress)
{
    auto_strbuf struct strbuf line = { 0 };
    int64_t passed = clock_now_ns() - progress->since_ns;

    if (!progress->is_on || !progress->is_quiet_stage || passed < NS_PER_SEC)
        return;
    strbuf_printf(&line, "\r\033[K%s%s … %lld s", print_prefix(), progress->what,
                  (long long)(passed / NS_PER_SEC));
    put(strbuf_str(&line));
    progress->is_shown = true;
}

void progress_clear(struct progress *progress)
{
    if (progress->is_shown)
        put("\r\033[K");
    progress->is_shown = false;
}
