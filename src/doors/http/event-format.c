/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/event-format.h"

#include <inttypes.h>

#include "base/strbuf.h"

const struct event_format event_formats[EVENT_FORMATS] = {
    [EVENT_SSE] = { "text/event-stream", event_put_sse },
    [EVENT_NDJSON] = { "application/x-ndjson", event_put_ndjson },
};

void event_put_sse(struct strbuf *out, const struct logged_event *event, size_t from, size_t len)
{
    if (from == 0)
        strbuf_printf(out, "id: %" PRIu64 "\nevent: %s\ndata: ", event->seq, event->name);
    event_json_put(out, event, from, len);
    if (from + len == event->len)
        strbuf_puts(out, "\n\n");
}

void event_put_ndjson(struct strbuf *out, const struct logged_event *event, size_t from, size_t len)
{
    event_json_put(out, event, from, len);
    if (from + len == event->len)
        strbuf_putc(out, '\n');
}
