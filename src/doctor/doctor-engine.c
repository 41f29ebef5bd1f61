/* SPDX-License-Identifier: Apache-2.0 */
/* The container engine: whether it is there, whether this user may use it, and which it is. It is
 * asked as the caller, by its own API; what it answers is believed no further than to be shown. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "doctor/doctor.h"
#include "net/http.h"
#include "sys/file.h"

enum { ANSWER_BYTES_MAX = 1 << 20, ANSWER_S = 3 };

/* ---- asking ---- */

static int write_request(const char *target, struct strbuf *out)
{
    struct http_writer writer;

    http_write_request(&writer, out, "GET", target, "docker");
    http_write_header(&writer, "Connection", "close");
    return http_write_end(&writer);
}

/* The whole body of a 200, or -1. */
static int read_answer(int fd, struct strbuf *body)
{
    struct http_limits limits = http_default_limits;
    struct http_parser parser;
    char buf[16384];
    int rc = 1;

    limits.body_bytes = ANSWER_BYTES_MAX;
    http_parser_init(&parser, HTTP_RESPONSES, &limits);
    while (rc > 0) {
        ssize_t n = read(fd, buf, sizeof buf);
        const char *data = buf;
        size_t len = n > 0 ? (size_t)n : 0, used;
        enum http_event event = n > 0 ? HTTP_MORE : http_parser_eof(&parser);
        rc = n > 0 ? 1 : -1;
        do {
            if (n > 0) {
                event = http_parser_feed(&parser, data, len, &used);
                data += used;
                len -= used;
            }
            if (event == HTTP_BODY)
                strbuf_add(body, parser.body, parser.body_len);
            if (event == HTTP_END)
                rc = 0;
            if (event == HTTP_ERROR || (event == HTTP_HEAD && parser.head.status != 200))
                rc = -1;
        } while (rc > 0 && n > 0 && event != HTTP_MORE);
    }
    http_parser_done(&parser);
    return rc;
}

static json_t *get(int fd, const char *target)
{
    auto_strbuf struct strbuf request = { 0 }, body = { 0 };
    const struct timeval patience = { .tv_sec = ANSWER_S };

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (write_request(target, &request) < 0 || write_all(fd, request.data, request.len) < 0 ||
        read_answer(fd, &body) < 0)
        return NULL;
    return json_loadb(strbuf_str(&body), body.len, JSON_REJECT_DUPLICATES, NULL);
}

static const char *word(struct facts *f, json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? arena_printf(f->arena, "%.60s", text) : NULL;
}

static void take_version(struct facts *f, struct engine_facts *engine, json_t *version)
{
    json_t *component = json_array_get(json_object_get(version, "Components"), 0);
    const char *name = word(f, component, "Name");

    engine->version = word(f, version, "Version");
    engine->api = word(f, version, "ApiVersion");
    engine->name = name && strstr(name, "odman") ? "Podman" : "Docker";
}

static void take_info(struct engine_facts *engine, json_t *info)
{
    json_t *options = json_object_get(info, "SecurityOptions"), *option;
    size_t i;

    json_array_foreach (options, i, option)
        if (json_is_string(option) && strstr(json_string_value(option), "rootless"))
            engine->is_rootless = true;
    engine->has_runsc = json_object_get(json_object_get(info, "Runtimes"), "runsc") != NULL;
}

void facts_ask_engine(struct facts *f, const struct engine_places *places)
{
    struct engine_facts *engine = &f->engine;
    struct engine_address address;
    struct cay_error err = { 0 };
    int fd = -1;

    engine->is_asked = true;
    engine_programs_find(places->root, &engine->programs);
    if (engine_try(places, &address, &fd, &engine->errnum, &err) == 0) {
        json_t *version = get(fd, "/version");
        close_fd(&fd);
        take_version(f, engine, version);
        json_decref(version);
        engine->answers = engine->version != NULL;
        if (!engine->answers)
            engine_no_sense(&address, "it does not answer as an engine does", &err);
    }
    if (engine->answers && engine_connect(places, &address, &fd, &err) == 0) {
        json_t *info = get(fd, "/info");
        close_fd(&fd);
        take_info(engine, info);
        json_decref(info);
    }
    engine->address = arena_str(f->arena, engine->answers ? address.text : "");
    engine->message = arena_str(f->arena, err.msg);
}

/* Who is in the group docker, by the file: a session that began before does not know it yet. */
void facts_read_group(struct facts *f, int root_fd)
{
    const char *text = facts_text(f, root_fd, "etc/group");

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "docker:", 7) != 0)
            continue;
        f->engine.has_group = true;
        const char *stop = line + strcspn(line, "\n"), *at = line;
        for (int colons = 0; at < stop && colons < 3; at++)
            colons += *at == ':';
        while (at < stop) {
            size_t len = strcspn(at, ",\n");
            f->engine.in_group |= strlen(f->user) == len && memcmp(at, f->user, len) == 0;
            at += len + 1;
        }
    }
}

/* ---- judging ---- */

static void fix_start(const struct facts *f, struct finding *out)
{
    if (f->has_systemd)
        finding_fix(f, out, "start the daemon, now and at each boot",
                    "%ssystemctl enable --now docker", facts_sudo(f));
    else
        finding_fix(f, out, "start the daemon, by hand where no systemd does", "%sdockerd",
                    facts_sudo(f));
}

static void fix_group(const struct facts *f, struct finding *out)
{
    if (f->uid == 0)
        return;
    if (f->engine.in_group)
        finding_fix(f, out, "you are in the group docker, but this session began before that",
                    "newgrp docker");
    else
        finding_fix(f, out,
                    "let this user use it, and log in again; members of the group are as good as "
                    "root on this host",
                    "sudo usermod -aG docker %s", f->user);
}

/* An engine of the user's own: nobody becomes as good as root by it. */
static void fix_rootless(const struct facts *f, struct finding *out)
{
    const char *install = facts_install(f, "podman");

    if (f->uid != 0)
        finding_fix(f, out, "or without root: podman's own socket for this user",
                    "%s%ssystemctl --user enable --now podman.socket",
                    f->engine.programs.has_podman || !install ? "" : install,
                    f->engine.programs.has_podman || !install ? "" : " && ");
}

static void fix_absent(const struct facts *f, struct finding *out)
{
    const struct engine_programs *has = &f->engine.programs;
    const char *install = facts_install(f, "docker.io");

    if (!has->has_dockerd)
        finding_fix(f, out,
                    has->has_docker ? "only the client is here: install the daemon" : "install it",
                    install ? "%s" : NULL, install);
    fix_start(f, out);
    fix_group(f, out);
    fix_rootless(f, out);
}

static void fix_engine(const struct facts *f, struct finding *out)
{
    switch (f->engine.errnum) {
    case ENOENT:
    case ENOTDIR:
        fix_absent(f, out);
        break;
    case EACCES:
    case EPERM:
        fix_group(f, out);
        fix_rootless(f, out);
        break;
    case ECONNREFUSED:
        fix_start(f, out);
        break;
    default:
        finding_fix(f, out, "see where it is, and what it says", "cay config | grep docker_host");
    }
}

void judge_docker(const struct facts *f, struct finding *out)
{
    const struct engine_facts *engine = &f->engine;

    if (!engine->is_asked) {
        finding_say(f, out, FINDING_SKIP, "not asked");
    } else if (engine->answers) {
        finding_say(f, out, FINDING_OK, "%s %s (API %s) at %s%s%s", engine->name, engine->version,
                    engine->api ? engine->api : "?", engine->address,
                    engine->is_rootless ? ", without root" : "",
                    engine->has_runsc ? "; runsc is one of its runtimes" : "");
    } else if (!engine->is_wanted) {
        finding_say(f, out, FINDING_SKIP,
                    "%s; not needed by the default (`cay doctor --backend docker` lists the steps)",
                    engine->message);
    } else {
        finding_say(f, out, FINDING_WARN, "%s", engine->message);
        fix_engine(f, out);
    }
}

/* runsc alone is of no use: an engine has to know it by that name. */
void judge_runsc(const struct facts *f, struct finding *out)
{
    bool is_there = f->tools[TOOL_RUNSC] == TOOL_PRESENT;

    if (f->engine.has_runsc)
        finding_say(f, out, FINDING_OK, "a runtime of the engine: `--runtime runsc` takes it");
    else if (f->engine.is_wanted && f->engine.answers && f->engine.wants_runsc) {
        finding_say(f, out, FINDING_WARN, "%s",
                    is_there ? "installed, but no runtime of the engine" : "not installed");
        const char *install = facts_install(f, "runsc");
        if (!is_there)
            finding_fix(f, out, "install it", install ? "%s" : NULL, install);
        finding_fix(f, out,
                    "make it a runtime of the engine, for containers without a network as cay's "
                    "are, and start that again",
                    "echo '{\"runtimes\": {\"runsc\": {\"path\": \"/usr/bin/runsc\", "
                    "\"runtimeArgs\": [\"--platform=ptrace\", \"--network=none\"]}}}' | "
                    "%stee /etc/docker/daemon.json",
                    facts_sudo(f));
    } else {
        finding_say(f, out, FINDING_SKIP, "%s; not needed by the default",
                    is_there ? "installed, but no runtime of an engine" : "not installed");
    }
}
