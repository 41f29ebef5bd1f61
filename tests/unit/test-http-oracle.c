/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever our codec takes, libhttp-parser takes with the same method, target, fields and body, and
 * sees its end at the same byte. (We refuse much that it takes: never the other way round.) The
 * streams are the fuzzer's corpus, each as it is and changed in a few thousand ways.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "base/auto.h"
#include "http-oracle.h"
#include "http-transcript.h"

#define CHANGES 3000 /* of each stream */

/* The same on every run. */
static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* What is likely to be read in two ways. */
static const char *const pieces[] = {
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "0",
    "1",
    "a",
    "F",
    "\x80",
    "\r\n ",
    "\r\n\r\n",
    "0\r\n\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Connection: close\r\n",
    "X: y\r\n",
    ";a=\"b\"",
    "?",
    "%",
    "*",
    "HTTP/1.1",
    "HTTP/1.0",
    "POST ",
    "/",
};

static void change(struct strbuf *text, uint64_t *seed)
{
    for (uint32_t n = 1 + next_random(seed) % 3; n > 0 && text->len > 0; n--) {
        size_t at = next_random(seed) % text->len;
        size_t len = 1 + next_random(seed) % 8;
        auto_strbuf struct strbuf made = { 0 };

        strbuf_add(&made, text->data, at);
        switch (next_random(seed) % 4) {
        case 0: /* take some out */
            at += MIN(len, text->len - at);
            break;
        case 1: /* put something in */
            strbuf_puts(&made, pieces[next_random(seed) % ARRAY_LEN(pieces)]);
            break;
        case 2: /* say some twice */
            strbuf_add(&made, text->data + at, MIN(len, text->len - at));
            break;
        default: /* another byte */
            strbuf_putc(&made, (char)next_random(seed));
            at++;
        }
        strbuf_add(&made, text->data + at, text->len - at);
        struct strbuf old = *text;
        *text = made;
        made = old;
    }
}

/* Where it errs (2.9.4): it takes "Transfer-Encodings" for a coding that it does not know, and no
 * tab behind the fields that frame. */
static bool is_misread(const struct http_head *head, const char *data, size_t len)
{
    static const char name[] = "Transfer-Encoding";

    if ((http_header(head, "Content-Length") || http_header(head, name)) && memchr(data, '\t', len))
        return true;
    for (size_t i = 0; i < head->n_headers; i++) {
        if (strncasecmp(head->headers[i].name, name, strlen(name)) == 0 &&
            strlen(head->headers[i].name) > strlen(name))
            return true;
    }
    return false;
}

struct ours {
    struct strbuf text;
    char method[64];
    size_t used;
    bool at_eof;
    bool is_misread;
};

/* The first message, in the oracle's words; false: it was refused, or is not whole. */
static bool read_first(enum http_side side, const char *data, size_t len, struct ours *ours)
{
    struct http_parser parser;
    enum http_event event = HTTP_MORE;
    bool is_whole = false;

    http_parser_init(&parser, side, NULL);
    do {
        size_t used = 0;
        event = http_parser_feed(&parser, data + ours->used, len - ours->used, &used);
        ours->used += used;
        if (event == HTTP_MORE) {
            ours->at_eof = true;
            event = http_parser_eof(&parser);
        }
        const struct http_head *head = &parser.head;
        if (event == HTTP_HEAD) {
            snprintf(ours->method, sizeof ours->method, "%s", head->method ? head->method : "");
            if (side == HTTP_REQUESTS)
                strbuf_printf(&ours->text, "%s %s ", head->method, head->target);
            else
                strbuf_printf(&ours->text, "%d ", head->status);
            for (size_t i = 0; i < head->n_headers; i++)
                strbuf_printf(&ours->text, "{%s=%s}", head->headers[i].name,
                              head->headers[i].value);
            strbuf_puts(&ours->text, "[");
            ours->is_misread = is_misread(head, data, ours->used);
        }
        if (event == HTTP_BODY)
            strbuf_add(&ours->text, parser.body, parser.body_len);
        if (event == HTTP_END) {
            strbuf_puts(&ours->text, "]");
            ours->at_eof = head->framing == HTTP_CLOSE;
            is_whole = true;
        }
    } while (event == HTTP_HEAD || event == HTTP_BODY);
    http_parser_done(&parser);
    return is_whole;
}

/* Whether ours took it; fails where the oracle did not, or otherwise. */
static bool compare(struct oracle *oracle, enum http_side side, const char *data, size_t len)
{
    auto_strbuf struct strbuf theirs = { 0 };
    struct ours ours = { 0 };
    bool is_taken = read_first(side, data, len, &ours);

    if (is_taken && !ours.is_misread &&
        (side == HTTP_RESPONSES || oracle_knows_method(oracle, ours.method))) {
        const char *wrong =
            oracle_read(oracle, side == HTTP_REQUESTS, ours.at_eof, data, ours.used, &theirs);
        if (wrong)
            fail_msg("the oracle says \"%s\" of\n%.*s", wrong, (int)ours.used, data);
        if (ours.text.len != theirs.len || memcmp(ours.text.data, theirs.data, theirs.len) != 0)
            fail_msg("%s\nis for the oracle\n%s", ours.text.data, theirs.data);
    }
    strbuf_done(&ours.text);
    return is_taken;
}

static char *read_stream(const char *folder, const char *name, size_t *ret_len)
{
    char path[512];
    char *data = mem_alloc(4096);

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    *ret_len = fread(data, 1, 4096, in);
    fclose(in);
    return data;
}

static void test_oracle(void **state)
{
    const char *source = getenv("CAY_SOURCE");
    char folder[512];
    struct dirent **entries = NULL;
    size_t taken = 0;
    uint64_t seed = 1;

    (void)state;
    struct oracle *oracle = oracle_open();
    if (!oracle) {
        print_message("libhttp_parser.so.2.9 is not there\n");
        skip();
    }
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/http", source ? source : ".");
    int count = scandir(folder, &entries, NULL, alphasort);
    assert_true(count > 20);
    for (int i = 0; i < count; i++) {
        size_t len = 0;
        if (entries[i]->d_name[0] != '.') {
            auto_free char *data = read_stream(folder, entries[i]->d_name, &len);
            enum http_side side = data[0] == 'R' ? HTTP_REQUESTS : HTTP_RESPONSES;
            for (int n = 0; n < CHANGES && data[0] != 'H'; n++) {
                auto_strbuf struct strbuf text = { 0 };
                strbuf_add(&text, data + 1, len - 1);
                if (n > 0)
                    change(&text, &seed);
                taken += compare(oracle, side, strbuf_str(&text), text.len);
            }
        }
        free(entries[i]);
    }
    free(entries);
    oracle_close(oracle);
    /* Were nearly all refused, this would show nothing. */
    if (taken < 5000)
        fail_msg("only %zu were taken", taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
