/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of the load test, good and hostile, and what must come of each. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "load.h"

#define PYTHON(code) "{\"language\":\"python\",\"code\":\"" code "\"}"
#define HOSTILE(language, code, rest) \
    "{\"language\":\"" language "\",\"code\":\"" code "\"," rest "}"

static const struct kind kinds[] = {
    { "python", 45, false, STAYS, false, 200, PYTHON("print(%u)"), " ok ", "%u\n", 0 },
    { "command", 20, false, STAYS, false, 200, "{\"command\":[\"/bin/echo\",\"%u\"]}", " ok ",
      "%u\n", 0 },
    { "bash", 10, false, STAYS, false, 200,
      "{\"language\":\"bash\",\"code\":\"read x; echo $x\",\"stdin\":\"%u\\n\"}", " ok ", "%u\n",
      0 },
    { "python, files", 5, false, STAYS, false, 200,
      "{\"language\":\"python\",\"code\":\"import m\\nprint(m.x)\",\"files\":{\"m.py\":\"x = "
      "%u\"}}",
      " ok ", "%u\n", 0 },
    { "python, exit 7", 5, false, STAYS, false, 200, PYTHON("print(%u); raise SystemExit(7)"),
      " exit ", "%u\n", 7 },
    { "python, stream", 15, false, STAYS, true, 200,
      PYTHON("import sys\\nfor i in range(5):\\n    print(%u, flush=True)"), " ok ",
      "%u\n%u\n%u\n%u\n%u\n", 0 },

    { "fork bomb", 2, true, STAYS, false, 200,
      HOSTILE("bash", "# %u\\n:(){ :|:& };:; wait", "\"timeout\":2,\"limits\":{\"pids\":30}"),
      " pids wall_timeout memory exit ok signal ", NULL, -1 },
    { "memory bomb", 3, true, STAYS, false, 200,
      HOSTILE("python", "x = [%u]\\nwhile True: x.append(bytearray(1 << 20))",
              "\"timeout\":10,\"limits\":{\"memory\":\"64m\"}"),
      " memory ", NULL, 137 },
    { "busy loop", 2, true, STAYS, false, 200,
      HOSTILE("python", "while %u + 1: pass", "\"timeout\":2"), " wall_timeout ", NULL, 124 },
    { "flood", 2, true, STAYS, false, 200,
      "{\"command\":[\"/usr/bin/yes\",\"%u\"],\"timeout\":10,\"limits\":{\"output_cap\":\"4m\"}}",
      " output ", NULL, 137 },
    { "sleeper", 4, true, STAYS, false, 200,
      "{\"command\":[\"/bin/sleep\",\"9%u\"],\"timeout\":20}", " wall_timeout ", NULL, 124 },
    { "disk filler", 2, true, STAYS, false, 200,
      HOSTILE("bash", "head -c 1%u000000 /dev/zero >/tmp/x || exit 3",
              "\"timeout\":20,\"limits\":{\"disk\":\"8m\"}"),
      " disk ", NULL, 3 },
    { "leaves in stream", 3, true, LEAVES_IN_STREAM, true, 200,
      HOSTILE("python", "while True: print(%u, flush=True)", "\"timeout\":20"), "", NULL, -1 },
    { "leaves at once", 3, true, LEAVES_AT_ONCE, false, 200,
      HOSTILE("python", "import time; time.sleep(9%u)", "\"timeout\":20"), "", NULL, -1 },
    { "dawdles", 1, true, DAWDLES, false, 0, "{}%u", "", NULL, -1 },
    { "no JSON", 1, true, STAYS, false, 400, "{\"language\": %u", "", NULL, -1 },
    { "no token", 1, true, STAYS, false, 401, "{\"code\": \"%u\"}", "", NULL, -1, true },
    { "unknown field", 1, true, STAYS, false, 400, "{\"kode\": \"%u\"}", "", NULL, -1 },
};

size_t kinds_count(void)
{
    return ARRAY_LEN(kinds);
}

const struct kind *kind_at(size_t i)
{
    return &kinds[i];
}

const struct kind *kind_pick(bool is_hostile, uint32_t random)
{
    unsigned sum = 0;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        sum += kinds[i].is_hostile == is_hostile ? kinds[i].weight : 0;
    unsigned at = random % sum;
    for (size_t i = 0;; i++) {
        if (kinds[i].is_hostile != is_hostile)
            continue;
        if (at < kinds[i].weight)
            return &kinds[i];
        at -= kinds[i].weight;
    }
}

/* Puts the number in the place of each "%u". */
static void fill_in(struct strbuf *out, const char *text, unsigned number)
{
    for (const char *mark; (mark = strstr(text, "%u")); text = mark + 2) {
        strbuf_add(out, text, (size_t)(mark - text));
        strbuf_printf(out, "%u", number);
    }
    strbuf_puts(out, text);
}

void kind_request(const struct kind *kind, unsigned number, const char *host, const char *token,
                  struct strbuf *out)
{
    auto_strbuf struct strbuf body = { 0 };

    fill_in(&body, kind->body, number);
    strbuf_printf(out, "POST /v1/execute HTTP/1.1\r\nHost: %s\r\n", host);
    if (kind->behaviour == DAWDLES)
        return;
    if (!kind->has_no_token)
        strbuf_printf(out, "Authorization: Bearer %s\r\n", token);
    strbuf_printf(out,
                  "Accept: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                  kind->is_stream ? "text/event-stream" : "application/json", body.len);
    strbuf_add(out, strbuf_str(&body), body.len);
}

/* ---- checks ---- */

#define FAIL(...) (snprintf(why, why_size, __VA_ARGS__), false)

static bool check_result(const struct kind *kind, unsigned number, json_t *result,
                         char ret_id[static 33], char *why, size_t why_size)
{
    auto_strbuf struct strbuf output = { 0 };
    const char *id = json_string_value(json_object_get(result, "id"));
    const char *cause =
        json_string_value(json_object_get(json_object_get(result, "verdict"), "cause"));
    const char *out = json_string_value(json_object_get(result, "stdout"));
    json_t *code = json_object_get(result, "exit_code");
    char word[32];

    if (!id || strlen(id) != 32 || !cause || !out || !json_is_integer(code))
        return FAIL("fields are missing");
    memcpy(ret_id, id, 33);
    snprintf(word, sizeof word, " %s ", cause);
    if (!strstr(kind->causes, word))
        return FAIL("cause %s, not one of%s(exit code %lld, stderr %.120s)", cause, kind->causes,
                    (long long)json_integer_value(code),
                    json_string_value(json_object_get(result, "stderr")));
    if (kind->exit_code >= 0 && json_integer_value(code) != kind->exit_code)
        return FAIL("exit code %lld, not %d", (long long)json_integer_value(code), kind->exit_code);
    if (!kind->output)
        return true;
    fill_in(&output, kind->output, number);
    if (strcmp(out, strbuf_str(&output)) != 0)
        return FAIL("stdout is %.60s, not %.60s", out, strbuf_str(&output));
    return true;
}

/* "id: N", "event: …", "data: JSON": numbers without a gap, output as expected, "finished" last. */
static bool check_stream(const struct kind *kind, unsigned number, const char *text,
                         char ret_id[static 33], char *why, size_t why_size)
{
    auto_strbuf struct strbuf output = { 0 }, expected = { 0 };
    json_int_t last = 0;
    bool is_finished = false, is_right = true;

    for (const char *line = text; is_right && (line = strstr(line, "data: ")); line++) {
        line += 6;
        json_t *event = json_loadb(line, strcspn(line, "\r\n"), JSON_REJECT_DUPLICATES, NULL);
        json_int_t seq = json_integer_value(json_object_get(event, "seq"));
        const char *name = json_string_value(json_object_get(event, "event"));
        const char *data = json_string_value(json_object_get(event, "data"));
        if (!name || seq != last + 1 || is_finished)
            is_right = FAIL("event %lld follows %lld", (long long)seq, (long long)last);
        else if (strcmp(name, "stdout") == 0 && data)
            strbuf_puts(&output, data);
        else if (strcmp(name, "finished") == 0) {
            is_finished = true;
            is_right =
                check_result(kind, number, json_object_get(event, "result"), ret_id, why, why_size);
        }
        last = seq;
        json_decref(event);
    }
    if (!is_right)
        return false;
    if (!is_finished)
        return FAIL("the stream ended without \"finished\"");
    fill_in(&expected, kind->output, number);
    if (strcmp(strbuf_str(&output), strbuf_str(&expected)) != 0)
        return FAIL("events say %.60s", strbuf_str(&output));
    return true;
}

bool kind_check(const struct kind *kind, unsigned number, const struct reply *reply,
                char ret_id[static 33], char *why, size_t why_size)
{
    ret_id[0] = '\0';
    if (reply->status != kind->status)
        return FAIL("status %d, not %d: %.200s", reply->status, kind->status,
                    strbuf_str(&reply->body));
    if (kind->is_stream)
        return check_stream(kind, number, strbuf_str(&reply->body), ret_id, why, why_size);
    json_t *root = json_loadb(strbuf_str(&reply->body), reply->body.len,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    bool is_right = true;
    if (!root)
        is_right = FAIL("the answer is no JSON");
    else if (kind->status == 200)
        is_right = check_result(kind, number, root, ret_id, why, why_size);
    else if (!json_string_value(json_object_get(json_object_get(root, "error"), "message")))
        is_right = FAIL("the error has no message");
    json_decref(root);
    return is_right;
}
