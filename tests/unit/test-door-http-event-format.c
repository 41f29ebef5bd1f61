/* SPDX-License-Identifier: Apache-2.0 */
/* Events as clients get them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "doors/http/event-format.h"

static void test_forms(void **state)
{
    auto_strbuf struct strbuf out = { 0 };
    char json[] = "{\"seq\":7}";
    const struct logged_event event = { .seq = 7, .name = "stage", .json = json, .len = 9 };
    const struct logged_event gap = { .seq = 9, .name = "warning", .is_gap = true, .first = 8 };

    (void)state;
    event_put_sse(&out, &event, 0, event.len);
    assert_string_equal(strbuf_str(&out), "id: 7\nevent: stage\ndata: {\"seq\":7}\n\n");
    out.len = 0;
    event_put_ndjson(&out, &event, 0, 1); /* in pieces */
    event_put_ndjson(&out, &event, 1, event.len - 1);
    assert_string_equal(strbuf_str(&out), "{\"seq\":7}\n");
    out.len = 0;
    event_put_sse(&out, &gap, 0, 0);
    assert_non_null(strstr(strbuf_str(&out), "id: 9\nevent: warning\ndata: {\"seq\":9,"));
    assert_non_null(strstr(strbuf_str(&out), "\"gap\":[8,9]}\n\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
