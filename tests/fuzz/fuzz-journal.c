/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a line of a server's journal, and as a line of the audit log: refused, or what comes
 * of it can be written and read again, and its id is one. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/strbuf.h"
#include "store/audit.h"
#include "store/journal.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_entry(struct arena *arena, const struct audit_entry *entry)
{
    auto_strbuf struct strbuf text = { 0 }, again = { 0 };
    struct audit_entry back;

    audit_put(&text, entry);
    must(!strpbrk(text.data, "\t\n\r"));
    must(audit_parse(arena, text.data, text.len, &back) == 0);
    audit_put(&again, &back);
    must(strcmp(text.data, again.data) == 0);
    audit_end_ns(entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *line = (const char *)data;
    struct arena arena = { 0 };
    struct audit_entry entry;
    struct record_text text;
    struct audit_line checked;

    uint64_t number;
    if (journal_parse(&arena, line, size, &entry, &text, &number) == 0) {
        must(record_is_name(entry.id, "") && strcmp(entry.kind, "run") == 0);
        must((text.result[0].data == NULL) == (text.extra == NULL));
        must(!text.has_code || text.extra_len > 2);
        must(!text.result[0].data ||
             (text.result[0].data >= line && text.extra + text.extra_len == line + size));
        check_entry(&arena, &entry);
    }
    if (audit_parse(&arena, line, size, &entry) == 0)
        check_entry(&arena, &entry);
    if (audit_check_line(line, size, &checked) == 0)
        must(checked.seq > 0 && strlen(checked.hash) == DIGEST_HEX && checked.is_intact);
    arena_done(&arena);
    return 0;
}
