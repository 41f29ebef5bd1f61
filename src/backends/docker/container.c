/* SPDX-License-Identifier: Apache-2.0 */
/* A container as JSON for the engine: everything that can be limited is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "core/layer.h"
#include "core/libexec.h"
#include "net/http.h"
#include "sys/userns.h"

#define INSIDE_PATH "/.cay-inside"

/* The names that reach the kernel, from the same rows that the native filter is compiled from. The
 * engine's filter is the outer one: it looks at names only, and lets the init put on the exact one
 * and landlock. */
static const char *const allowed_calls[] = {
#include "backends/docker/docker-syscalls.h"
    "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "capset",
};

/* ---- shapes -----------------------------------------------------------------------------------
 */

struct cgroup_limits shape_limits(const struct cay_limits *limits)
{
    return (struct cgroup_limits){
        .memory_bytes = limits->memory_bytes,
        .swap_bytes = limits->swap_bytes,
        .pids = limits->pids,
        .cpus_milli = limits->cpus_milli,
    };
}

void shape_of(const struct job *job, struct shape *ret)
{
    const struct cay_limits *run = &job->limits[job->n_stages - 1];

    *ret = (struct shape){
        .disk_bytes = run->disk_bytes,
        .inodes = run->inodes,
        .has_workspace = job->folder_fds[0] >= 0,
        .limits = shape_limits(&job->limits[0]),
    };
    memcpy(ret->image, job->image, sizeof ret->image);
    memcpy(ret->runtime, job->runtime, sizeof ret->runtime);
}

/* ---- making it --------------------------------------------------------------------------------
 */

static void put_labels(struct json_writer *w, const char *run_id)
{
    char owner[128];

    sweep_owner(owner, sizeof owner);
    json_field_object(w, "Labels");
    json_field_string(w, DOCKER_LABEL_RUN, run_id);
    json_field_string(w, DOCKER_LABEL_OWNER, owner);
    json_end_object(w);
}

/* Everything that a container is made from. */
struct making {
    const char *run_id;
    const struct shape *shape;
    char *const *folders;
    const json_t *volumes; /* that the image wants, by their paths */
    const char *inside;    /* where our init is */
    /* What an engine may want otherwise, and tells by refusing it: */
    bool is_copied;   /* the init is brought in later, by bring_inside() */
    bool is_filtered; /* by its own profile: podman takes ours for the name of a file */
    bool is_plain;    /* podman's tmpfs has no owner, and no bound of inodes but memory's */
};

static bool is_ours(const char *path)
{
    static const char *const own[] = { "/sandbox", "/tmp", "/dev/shm", "/workspace",
                                       INSIDE_COPY_FOLDER };
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strlen(own[i]) == len && strncmp(path, own[i], len) == 0)
            return true;
    return false;
}

/* A volume that an image declares would be a folder on the engine's disk without any bound: it is
 * an empty one that nobody can write to. */
static void put_empty_volumes(struct json_writer *w, const json_t *volumes)
{
    json_t *object = (json_t *)(uintptr_t)volumes; /* jansson's iterators know no const */

    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        if (!is_ours(json_object_iter_key(at)))
            json_field_string(w, json_object_iter_key(at),
                              "ro,nosuid,nodev,noexec,mode=0555,size=4096");
}

/* In eighths of what can be written; what is there of them together is the limit. A workspace and
 * copies of folders are input: they get room of their own on top of it, as in an overlay. */
static void put_tmpfs(struct json_writer *w, const struct making *making)
{
    const struct shape *shape = making->shape;
    char *const *folders = making->folders;
    const char *own = making->is_plain ? "mode=1777" : "mode=0755,uid=1000,gid=1000";
    const struct {
        const char *path, *options, *mode;
        unsigned eighths;
        bool is_on;
    } places[] = {
        { "/sandbox", "exec", own, shape->has_workspace ? 2 : 4, true },
        { "/tmp", "exec", "mode=1777", shape->has_workspace ? 2 : 3, true },
        { "/dev/shm", "noexec", "mode=1777", 1, true },
        { "/workspace", "exec", own, 3, shape->has_workspace },
    };
    char text[160];

    json_field_object(w, "Tmpfs");
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (!places[i].is_on)
            continue;
        int len = snprintf(text, sizeof text, "rw,nosuid,nodev,%s,%s,size=%llu", places[i].options,
                           places[i].mode,
                           (unsigned long long)(shape->disk_bytes * places[i].eighths / 8));
        if (!making->is_plain)
            snprintf(text + len, sizeof text - (size_t)len, ",nr_inodes=%llu",
                     (unsigned long long)MAX(shape->inodes * places[i].eighths / 8, 4));
        json_field_string(w, places[i].path, text);
    }
    for (; folders && *folders; folders++) {
        snprintf(text, sizeof text, "rw,nosuid,nodev,exec,%s,size=%llu", own,
                 (unsigned long long)shape->disk_bytes);
        json_field_string(w, *folders, text);
    }
    put_empty_volumes(w, making->volumes);
    json_end_object(w);
}

static char *seccomp_option(void)
{
    auto_strbuf struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    strbuf_puts(&out, "seccomp=");
    json_begin_object(&w);
    json_field_string(&w, "defaultAction", "SCMP_ACT_ERRNO");
    json_field_uint(&w, "defaultErrnoRet", ENOSYS);
    json_field_array(&w, "syscalls");
    json_begin_object(&w);
    json_field_array(&w, "names");
    for (size_t i = 0; i < ARRAY_LEN(allowed_calls); i++)
        json_put_string(&w, allowed_calls[i]);
    json_end_array(&w);
    json_field_string(&w, "action", "SCMP_ACT_ALLOW");
    json_end_object(&w);
    json_end_array(&w);
    json_end_object(&w);
    return strbuf_take(&out);
}

static void put_security(struct json_writer *w, const struct making *making)
{
    /* The engine's own list, and what else tells about the host or is not needed: terminals,
     * message queues as files, the names of the host's resolvers. */
    static const char *const masked[] = {
        "/proc/acpi",          "/proc/asound",
        "/proc/interrupts",    "/proc/kcore",
        "/proc/keys",          "/proc/latency_stats",
        "/proc/sched_debug",   "/proc/scsi",
        "/proc/timer_list",    "/proc/timer_stats",
        "/proc/sysrq-trigger", "/sys",
        "/dev/mqueue",         "/dev/pts",
        "/etc/resolv.conf",
    };
    static const char *const readonly[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys" };
    auto_free char *seccomp = seccomp_option();

    json_field_bool(w, "ReadonlyRootfs", true);
    json_field_bool(w, "Privileged", false);
    json_field_array(w, "CapDrop");
    json_put_string(w, "ALL");
    json_end_array(w);
    json_field_array(w, "SecurityOpt");
    json_put_string(w, "no-new-privileges");
    if (!making->is_filtered)
        json_put_string(w, seccomp);
    json_end_array(w);
    json_field_array(w, "MaskedPaths");
    for (size_t i = 0; i < ARRAY_LEN(masked); i++)
        json_put_string(w, masked[i]);
    json_end_array(w);
    json_field_array(w, "ReadonlyPaths");
    for (size_t i = 0; i < ARRAY_LEN(readonly); i++)
        json_put_string(w, readonly[i]);
    json_end_array(w);
    json_field_string(w, "NetworkMode", "none");
    json_field_string(w, "IpcMode", "none"); /* a namespace of its own; /dev/shm is one of ours */
    json_field_string(w, "CgroupnsMode", "private");
}

/* Quota rather than NanoCpus, which the engine refuses beyond the CPUs that there are. The init is
 * one process more than the program has. */
static void put_limits(struct json_writer *w, const struct cgroup_limits *limits)
{
    json_field_uint(w, "Memory", limits->memory_bytes);
    json_field_uint(w, "MemorySwap", limits->memory_bytes + limits->swap_bytes);
    json_field_uint(w, "CpuPeriod", 100000);
    json_field_uint(w, "CpuQuota", MAX(limits->cpus_milli * UINT64_C(100), 1000));
    json_field_uint(w, "PidsLimit", limits->pids + UINT64_C(1));
}

/* Of each process. The init sets open files, of which jobs have numbers of their own; the size of a
 * file is bounded by the tmpfs that it is in. podman asks the kernel for a million open files
 * unless told, which not everybody may have: ours is as many as it can be given. */
static void put_ulimits(struct json_writer *w, const struct making *making)
{
    struct rlimit files = { .rlim_max = 1024 }, processes = { .rlim_max = 1024 };

    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NPROC, &processes);
    const struct {
        const char *name;
        uint64_t most;
        bool is_on;
    } rows[] = {
        { "core", 0, true },
        { "msgqueue", 819200, true },
        { "nofile", files.rlim_max, making->is_plain },
        { "nproc", MIN(processes.rlim_max, 32768), making->is_plain },
    };

    json_field_array(w, "Ulimits");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!rows[i].is_on)
            continue;
        json_begin_object(w);
        json_field_string(w, "Name", rows[i].name);
        json_field_uint(w, "Soft", rows[i].most);
        json_field_uint(w, "Hard", rows[i].most);
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_mount(struct json_writer *w, const char *type, const char *source,
                      const char *target, bool is_read_only)
{
    json_begin_object(w);
    json_field_string(w, "Type", type);
    if (source)
        json_field_string(w, "Source", source);
    json_field_string(w, "Target", target);
    json_field_bool(w, "ReadOnly", is_read_only);
    json_end_object(w);
}

static void put_mounts(struct json_writer *w, const struct making *making)
{
    json_field_array(w, "Mounts");
    if (making->is_copied)
        put_mount(w, "volume", NULL, INSIDE_COPY_FOLDER, false);
    else
        put_mount(w, "bind", making->inside, INSIDE_PATH, true);
    json_end_array(w);
}

static void put_host_config(struct json_writer *w, const struct making *making)
{
    const struct shape *shape = making->shape;

    json_field_object(w, "HostConfig");
    put_security(w, making);
    put_limits(w, &shape->limits);
    put_ulimits(w, making);
    put_tmpfs(w, making);
    json_field_bool(w, "AutoRemove", true);
    json_field_object(w, "LogConfig");
    json_field_string(w, "Type", "none");
    json_end_object(w);
    if (shape->runtime[0])
        json_field_string(w, "Runtime", shape->runtime);
    put_mounts(w, making);
    json_end_object(w);
}

static char *create_body(const struct making *making)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    static const char *const flags[] = { "AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin",
                                         "StdinOnce" };
    char user[32];

    snprintf(user, sizeof user, "%d:%d", SANDBOX_UID, SANDBOX_GID);
    json_begin_object(&w);
    json_field_string(&w, "Image", making->shape->image);
    json_field_array(&w, "Entrypoint");
    json_put_string(&w, making->is_copied ? INSIDE_COPY_FOLDER "/" INSIDE_COPY_NAME : INSIDE_PATH);
    json_end_array(&w);
    json_field_array(&w, "Cmd");
    json_end_array(&w);
    json_field_string(&w, "User", user);
    json_field_string(&w, "WorkingDir", "/sandbox");
    json_field_string(&w, "Hostname", "cay");
    json_field_string(&w, "StopSignal", "SIGKILL");
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        json_field_bool(&w, flags[i], true);
    json_field_bool(&w, "Tty", false);
    json_field_object(&w, "Healthcheck");
    json_field_array(&w, "Test");
    json_put_string(&w, "NONE");
    json_end_array(&w);
    json_end_object(&w);
    put_labels(&w, making->run_id);
    put_host_config(&w, making);
    json_end_object(&w);
    return strbuf_take(&out);
}

/* ---- what the engine answers ------------------------------------------------------------------
 */

static int fail_missing_image(const struct shape *shape, struct cay_error *err)
{
    cay_fail(err, CAY_E_UNSUPPORTED, "docker: there is no image '%s'", shape->image);
    return cay_hint(err, "cay image build, docker pull %.30s, or --image with one you have",
                    shape->image);
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
    return cay_fail(err, CAY_E_UNSUPPORTED, "docker: %s: %.300s (%d)", what, words, status);
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

/* The volumes that the image declares, or NULL (json_decref). -1: there is no such image. */
static int look_at_image(struct api *api, const struct shape *shape, json_t **ret,
                         struct cay_error *err)
{
    auto_strbuf struct strbuf target = { 0 };
    json_t *answer = NULL;

    strbuf_puts(&target, "/images/");
    http_escape(&target, shape->image);
    strbuf_puts(&target, "/json");
    int status = api_call(api, "GET", strbuf_str(&target), NULL, &answer, err);
    if (status == 200)
        *ret = json_incref(json_object_get(json_object_get(answer, "Config"), "Volumes"));
    json_decref(answer);
    if (status == 404)
        return fail_missing_image(shape, err);
    return status < 0 ? -1 : 0;
}

/* Whether the engine refuses what can be had in another way, which is then set. Either way the
 * exact filter is the init's own. */
static bool is_mendable(struct making *making, const json_t *answer)
{
    const char *words = api_message(answer);
    bool is_blind = strcasestr(words, "bind source path does not exist") ||
                    (strcasestr(words, "cay-inside") && strcasestr(words, "no such file"));

    if (is_blind && !making->is_copied)
        return making->is_copied = true;
    if (strcasestr(words, "seccomp profile") && !making->is_filtered)
        return making->is_filtered = true;
    if (strcasestr(words, "unknown mount option") && !making->is_plain)
        return making->is_plain = true;
    return false;
}

static int create(struct api *api, struct making *making, struct container *ret,
                  struct cay_error *err)
{
    char target[96];
    json_t *answer;
    int status;

    snprintf(target, sizeof target, "/containers/create?name=%s", ret->name);
    for (;;) {
        auto_free char *body = create_body(making);
        answer = NULL;
        status = api_call(api, "POST", target, body, &answer, err);
        if (status < 400 || !is_mendable(making, answer))
            break;
        json_decref(answer);
    }
    const char *id = json_string_value(json_object_get(answer, "Id"));
    int rc = status < 0 ? -1 : 0;
    if (rc == 0 && (status != 201 || !id || strlen(id) >= sizeof ret->id))
        rc = fail_engine("create a container", status, making->shape, answer, err);
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
    if (look_at_image(api, shape, &volumes, err) < 0)
        return -1;
    /* An engine at an address may be anywhere, and have another file of that name. */
    struct making making = {
        run_id, shape, folders, volumes, inside, api->where.kind == ENGINE_TCP
    };
    snprintf(ret->name, sizeof ret->name, DOCKER_NAME_PREFIX "%s", run_id);
    int rc = create(api, &making, ret, err);
    json_decref(volumes);
    return rc == 0 && making.is_copied ? bring_inside(api, ret, inside, err) : rc;
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
    put_limits(&w, limits);
    json_end_object(&w);
    snprintf(target, sizeof target, "/containers/%s/update", container->id);
    int status = api_call(api, "POST", target, strbuf_str(&body), &answer, err);
    int rc = status < 0 ? -1 : 0;
    if (rc == 0 && status == 404 && !*api_message(answer)) {
        cay_fail(err, CAY_E_UNSUPPORTED, "docker: this engine can't change a container's limits");
        rc = cay_hint(err,
                      "podman learned it after 4.3; compiling needs it, for it has other limits");
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
