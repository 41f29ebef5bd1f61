/* SPDX-License-Identifier: Apache-2.0 */
/* A container: making, starting, changing and removing it, and what the engine answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "backends/docker/spec.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "core/image-definition.h"
#include "core/layer.h"
#include "core/libexec.h"
#include "net/http.h"

/* ---- shapes -----------------------------------------------------------------------------------
 */

struct cgroup_limits docker_limits(const struct cay_limits *limits)
{
    struct cgroup_limits shape;

    memset(&shape, 0, sizeof shape); /* compared as bytes */
    shape.memory_bytes = limits->memory_bytes;
    shape.swap_bytes = limits->swap_bytes;
    shape.pids = limits->pids;
    shape.cpus_milli = limits->cpus_milli;
    shape.cpu_shares = limits->cpu_shares;
    return shape;
}

static bool is_gvisor(const struct shape *shape)
{
    return strncmp(shape->runtime, "runsc", 5) == 0;
}

bool shape_is_split(const struct shape *shape)
{
    return is_gvisor(shape);
}

/* Its runtime has no update. */
bool shape_is_fixed(const struct shape *shape)
{
    return is_gvisor(shape);
}

void shape_of(const struct sandbox_spec *spec, struct shape *ret)
{
    *ret = (struct shape){
        .disk_bytes = spec->limits.disk_bytes,
        .inodes = spec->limits.inodes,
        .has_workspace = spec->folder_fds[0] >= 0,
        .limits = docker_limits(&spec->limits),
    };
    memcpy(ret->image, spec->image, sizeof ret->image);
    memcpy(ret->runtime, spec->runtime, sizeof ret->runtime);
}

/* ---- what the engine answers ------------------------------------------------------------------
 */

static int fail_missing_image(const struct shape *shape, struct cay_error *err)
{
    static const char own[] = "cay/", usual[] = "coding-agent-sandbox", latest[] = ":latest";
    const char *image = shape->image;
    const char *name = strncmp(image, own, strlen(own)) == 0 ? image + strlen(own) : image;
    size_t len = strcspn(name, ":");

    cay_fail(err, CAY_E_UNSUPPORTED, "docker: no such image: '%s'", image);
    if (strcmp(name + len, latest) == 0 || !name[len]) {
        if (len == strlen(usual) && strncmp(name, usual, len) == 0) /* docker_image, unless told */
            return image_hint_build(err, "python-node --engine docker --tag %s", image);
        if (image_definition_is_there(name, len))
            return image_hint_build(err, "%.*s --engine docker --tag %s", (int)len, name, image);
    }
    /* A command that was cut would not work. */
    if (strlen(image) <= 60)
        return cay_hint(err, "`docker pull %s`, or --image with one you have", image);
    return cay_hint(err, "pull it into the engine, or --image with one you have");
}

static int fail_missing_runtime(const struct shape *shape, struct cay_error *err)
{
    cay_fail(err, CAY_E_UNSUPPORTED, "docker: the engine has no runtime '%s'", shape->runtime);
    if (strncmp(shape->runtime, "runsc", 5) == 0)
        return cay_hint(err,
                        "apt-get install runsc; name it in /etc/docker/daemon.json, \"runtimes\"");
    return cay_hint(err, "name it in /etc/docker/daemon.json, \"runtimes\"");
}

static int fail_engine(const char *what, int status, const struct shape *shape,
                       const json_t *answer, struct cay_error *err)
{
    const char *words = api_message(answer);

    if (shape->runtime[0] &&
        (strcasestr(words, "unknown runtime") || strcasestr(words, "invalid runtime") ||
         strcasestr(words, "unknown or invalid runtime")))
        return fail_missing_runtime(shape, err);
    if (status == 404 && strcasestr(words, "no such image"))
        return fail_missing_image(shape, err);
    if (shape->runtime[0] && strcasestr(words, shape->runtime) &&
        (strcasestr(words, "executable file not found") || strcasestr(words, "no such file")))
        return fail_missing_runtime(shape, err);
    cay_fail(err, CAY_E_UNSUPPORTED, "docker: %s: %.300s (%d)", what, words, status);
    if (strcasestr(words, "network enabled in root network namespace")) /* gVisor's words */
        return cay_hint(err,
                        "give runsc --network=none: \"runtimeArgs\" in /etc/docker/daemon.json");
    return -1;
}

/* What the engine was asked for and did not refuse; its warnings name what the kernel lacks. */
static uint32_t layers_of(const json_t *answer)
{
    static const struct {
        const char *word;
        uint32_t layer;
    } rows[] = {
        { "memory", LAYER_BIT(CGROUP_MEMORY) },
        { "pids", LAYER_BIT(CGROUP_PIDS) },
        { "cpu", LAYER_BIT(CGROUP_CPU) },
    };
    uint32_t layers = LAYER_BIT(MOUNT_NS) | LAYER_BIT(NET_NS) | LAYER_BIT(IPC_NS) |
                      LAYER_BIT(UTS_NS) | LAYER_BIT(CGROUP_NS) | LAYER_CGROUP_BITS;
    const json_t *warnings = json_object_get(answer, "Warnings");
    const json_t *warning;
    size_t i;

    json_array_foreach (warnings, i, warning) {
        const char *text = json_string_value(warning);
        for (size_t k = 0; text && k < ARRAY_LEN(rows); k++)
            if (strcasestr(text, rows[k].word) && !strcasestr(text, "swap"))
                layers &= ~rows[k].layer;
    }
    return layers;
}

/* The volumes that the image declares, or NULL (json_decref), and its digest. -1: there is no such
 * image. */
static int look_at_image(struct api *api, const struct shape *shape, json_t **ret,
                         char digest[static IMAGE_DIGEST_BYTES], struct cay_error *err)
{
    auto_strbuf struct strbuf target = { 0 };
    json_t *answer = NULL;

    strbuf_puts(&target, "/images/");
    http_escape(&target, shape->image);
    strbuf_puts(&target, "/json");
    int status = api_call(api, "GET", strbuf_str(&target), NULL, &answer, err);
    if (status == 200) {
        const char *id = json_string_value(json_object_get(answer, "Id"));
        *ret = json_incref(json_object_get(json_object_get(answer, "Config"), "Volumes"));
        snprintf(digest, IMAGE_DIGEST_BYTES, "%s", id ? id : "");
    }
    json_decref(answer);
    if (status == 404)
        return fail_missing_image(shape, err);
    return status < 0 ? -1 : 0;
}

/* Whether the engine refuses what can be had in another way, which is then set. Either way the
 * exact filter is the init's own. */
static bool is_mendable(struct spec *spec, const json_t *answer)
{
    const char *words = api_message(answer);
    bool is_blind = strcasestr(words, "bind source path does not exist") ||
                    (strcasestr(words, "cay-inside") && strcasestr(words, "no such file"));

    if (is_blind && !spec->is_copied)
        return spec->is_copied = true;
    if (strcasestr(words, "seccomp profile") && !spec->is_filtered)
        return spec->is_filtered = true;
    if (strcasestr(words, "unknown mount option") && !spec->is_plain)
        return spec->is_plain = true;
    return false;
}

static int create(struct api *api, struct spec *spec, struct container *ret, struct cay_error *err)
{
    char target[96];
    json_t *answer;
    int status;

    snprintf(target, sizeof target, "/containers/create?name=%s", ret->name);
    for (;;) {
        auto_free char *body = spec_json(spec);
        answer = NULL;
        status = api_call(api, "POST", target, body, &answer, err);
        if (status < 400 || !is_mendable(spec, answer))
            break;
        json_decref(answer);
    }
    const char *id = json_string_value(json_object_get(answer, "Id"));
    int rc = status < 0 ? -1 : 0;
    if (rc == 0 && (status != 201 || !id || strlen(id) >= sizeof ret->id))
        rc = fail_engine("create a container", status, spec->shape, answer, err);
    if (rc == 0) {
        snprintf(ret->id, sizeof ret->id, "%s", id);
        ret->layers = layers_of(answer);
    }
    json_decref(answer);
    return rc;
}

int container_create(struct api *api, const char *run_id, const struct shape *shape,
                     char *const *folders, struct container *ret, struct cay_error *err)
{
    char inside[4200];
    json_t *volumes = NULL;

    *ret = (struct container){ 0 };
    if (libexec_find("cay-inside", inside, sizeof inside) < 0)
        return cay_fail(err, CAY_E_UNSUPPORTED, "docker: cay-inside is not installed");
    if (look_at_image(api, shape, &volumes, ret->image_digest, err) < 0)
        return -1;
    /* An engine at an address may be anywhere, and have another file of that name. */
    struct spec spec = { run_id, shape, folders, volumes, inside, api->where.kind == ENGINE_TCP };
    snprintf(ret->name, sizeof ret->name, DOCKER_NAME_PREFIX "%s", run_id);
    int rc = create(api, &spec, ret, err);
    json_decref(volumes);
    return rc == 0 && spec.is_copied ? upload_init(api, ret, inside, err) : rc;
}

int container_start(struct api *api, const struct container *container, const struct shape *shape,
                    struct cay_error *err)
{
    char target[96];
    json_t *answer = NULL;

    snprintf(target, sizeof target, "/containers/%s/start", container->id);
    int status = api_call(api, "POST", target, NULL, &answer, err);
    int rc = status < 0 ? -1 : 0;
    if (rc == 0 && status != 204)
        rc = fail_engine("start the container", status, shape, answer, err);
    json_decref(answer);
    return rc;
}

int container_update(struct api *api, const struct container *container,
                     const struct cgroup_limits *limits, struct cay_error *err)
{
    auto_strbuf struct strbuf body = { 0 };
    struct json_writer w = { .out = &body };
    char target[96];
    json_t *answer = NULL;

    json_begin_object(&w);
    spec_put_limits(&w, limits);
    json_end_object(&w);
    snprintf(target, sizeof target, "/containers/%s/update", container->id);
    int status = api_call(api, "POST", target, strbuf_str(&body), &answer, err);
    int rc = status < 0 ? -1 : 0;
    if (rc == 0 && status == 404 && !*api_message(answer)) {
        cay_fail(err, CAY_E_UNSUPPORTED, "docker: this engine can't change a container's limits");
        rc = cay_hint(
            err, "podman can do it since 4.4; compiling needs it, as it has limits of its own");
    } else if (rc == 0 && status != 200) {
        rc = cay_fail(err, CAY_E_UNSUPPORTED, "docker: change the limits: %.300s (%d)",
                      api_message(answer), status);
    }
    json_decref(answer);
    return rc;
}

/* The engine may be at it already, for the container removes itself when its init ends. */
void container_remove(struct api *api, const char *id)
{
    struct cay_error ignored;
    char target[128];

    snprintf(target, sizeof target, "/containers/%s?force=true&v=true", id);
    if (api_do(api, "DELETE", target, NULL, &ignored) != 409)
        return;
    snprintf(target, sizeof target, "/containers/%s/wait?condition=removed", id);
    api_do(api, "POST", target, NULL, &ignored);
}
