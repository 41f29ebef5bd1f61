/* SPDX-License-Identifier: Apache-2.0 */
#include "http-oracle.h"

#include <dlfcn.h>
#include <http_parser.h>
#include <string.h>

#include "base/auto.h"

struct oracle {
    void *library;
    void (*init)(http_parser *parser, enum http_parser_type type);
    size_t (*execute)(http_parser *parser, const http_parser_settings *settings, const char *data,
                      size_t len);
    const char *(*method_str)(enum http_method method);
    const char *(*errno_description)(enum http_errno err);
};

struct reading {
    struct strbuf start;
    struct strbuf fields;
    struct strbuf body;
    bool in_value;
    bool is_head_over;
    bool is_complete;
};

struct oracle *oracle_open(void)
{
    void *library = dlopen("libhttp_parser.so.2.9", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return NULL;
    struct oracle *oracle = mem_alloc(sizeof(*oracle));
    oracle->library = library;
    *(void **)&oracle->init = dlsym(library, "http_parser_init");
    *(void **)&oracle->execute = dlsym(library, "http_parser_execute");
    *(void **)&oracle->method_str = dlsym(library, "http_method_str");
    *(void **)&oracle->errno_description = dlsym(library, "http_errno_description");
    return oracle;
}

void oracle_close(struct oracle *oracle)
{
    dlclose(oracle->library);
    free(oracle);
}

bool oracle_knows_method(const struct oracle *oracle, const char *method)
{
#define SAME(num, name, string) strcmp(method, oracle->method_str(num)) == 0 ||
    return HTTP_METHOD_MAP(SAME) false;
#undef SAME
}

static int on_begin(http_parser *parser)
{
    struct reading *reading = parser->data;

    reading->start.len = reading->fields.len = reading->body.len = 0;
    reading->in_value = reading->is_head_over = reading->is_complete = false;
    return 0;
}

static int on_url(http_parser *parser, const char *at, size_t len)
{
    strbuf_add(&((struct reading *)parser->data)->start, at, len);
    return 0;
}

/* It leaves blanks at the end of a value. */
static void end_value(struct reading *reading)
{
    struct strbuf *fields = &reading->fields;

    while (fields->len > 0 &&
           (fields->data[fields->len - 1] == ' ' || fields->data[fields->len - 1] == '\t'))
        fields->len--;
    strbuf_puts(fields, "}");
    reading->in_value = false;
}

static int on_field(http_parser *parser, const char *at, size_t len)
{
    struct reading *reading = parser->data;

    if (reading->is_head_over)
        return 0;
    if (reading->in_value)
        end_value(reading);
    if (reading->fields.len == 0 || reading->fields.data[reading->fields.len - 1] == '}')
        strbuf_puts(&reading->fields, "{");
    strbuf_add(&reading->fields, at, len);
    return 0;
}

static int on_value(http_parser *parser, const char *at, size_t len)
{
    struct reading *reading = parser->data;

    if (reading->is_head_over)
        return 0;
    if (!reading->in_value)
        strbuf_puts(&reading->fields, "=");
    reading->in_value = true;
    strbuf_add(&reading->fields, at, len);
    return 0;
}

static int on_head(http_parser *parser)
{
    struct reading *reading = parser->data;

    if (reading->in_value)
        end_value(reading);
    reading->is_head_over = true;
    /* It leaves it to its caller to know which answers have no body: 1 says so. */
    return parser->type == HTTP_RESPONSE &&
           (parser->status_code < 200 || parser->status_code == 204 || parser->status_code == 304);
}

static int on_body(http_parser *parser, const char *at, size_t len)
{
    strbuf_add(&((struct reading *)parser->data)->body, at, len);
    return 0;
}

static int on_complete(http_parser *parser)
{
    struct reading *reading = parser->data;

    reading->is_complete = parser->type == HTTP_REQUEST || parser->status_code >= 200;
    return 0;
}

static const char *run(struct oracle *oracle, http_parser *parser, bool eof, const char *data,
                       size_t len)
{
    static const http_parser_settings settings = {
        .on_message_begin = on_begin,
        .on_url = on_url,
        .on_header_field = on_field,
        .on_header_value = on_value,
        .on_headers_complete = on_head,
        .on_body = on_body,
        .on_message_complete = on_complete,
    };
    const struct reading *reading = parser->data;

    for (size_t i = 0; i < len; i++) {
        if (reading->is_complete)
            return "it ends earlier";
        size_t used = oracle->execute(parser, &settings, data + i, 1);
        if (HTTP_PARSER_ERRNO(parser) != HPE_OK)
            return oracle->errno_description(HTTP_PARSER_ERRNO(parser));
        if (used != 1 && !parser->upgrade)
            return "a byte is not used";
    }
    if (reading->is_complete && eof)
        return "it ends before the stream";
    if (eof)
        oracle->execute(parser, &settings, NULL, 0);
    return reading->is_complete ? NULL : "it does not end here";
}

const char *oracle_read(struct oracle *oracle, bool is_request, bool eof, const char *data,
                        size_t len, struct strbuf *out)
{
    struct reading reading = { 0 };
    http_parser parser = { .data = &reading };

    oracle->init(&parser, is_request ? HTTP_REQUEST : HTTP_RESPONSE);
    const char *wrong = run(oracle, &parser, eof, data, len);
    if (!wrong) {
        if (is_request)
            strbuf_printf(out, "%s %s ", oracle->method_str((enum http_method)parser.method),
                          strbuf_str(&reading.start));
        else
            strbuf_printf(out, "%u ", (unsigned)parser.status_code);
        strbuf_add(out, strbuf_str(&reading.fields), reading.fields.len);
        strbuf_puts(out, "[");
        strbuf_add(out, strbuf_str(&reading.body), reading.body.len);
        strbuf_puts(out, "]");
    }
    strbuf_done(&reading.start);
    strbuf_done(&reading.fields);
    strbuf_done(&reading.body);
    return wrong;
}
