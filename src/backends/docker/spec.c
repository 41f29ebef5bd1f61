/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/docker/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/json.h"
#include "sys/userns.h"

#define INSIDE_PATH "/.cay-inside"

/* The names that reach the kernel, from the same rows that the native filter is compiled from. The
 * engine's filter is the outer one: it looks at names only, and lets the init put on the exact one
 * and landlock. */
static const char *const allowed_calls[] = {
#include "backends/docker/docker-syscalls.h"
    "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "capset",
};

static void put_labels(struct json_writer *w, const char *run_id)
{
    char owner[128];

    sweep_owner(owner, sizeof owner);
    json_field_object(w, "Labels");
    json_field_string(w, DOCKER_LABEL_RUN, run_id);
    json_field_string(w, DOCKER_LABEL_OWNER, owner);
    json_end_object(w);
}

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
static void put_tmpfs(struct json_writer *w, const struct spec *spec)
{
    const struct shape *shape = spec->shape;
    char *const *folders = spec->folders;
    const char *own = spec->is_plain ? "mode=1777" : "mode=0755,uid=1000,gid=1000";
    /* runc gives it the mode that the folder has in the image, which may be 0755: then it is at
     * least the program's own. */
    const char *shared = spec->is_plain ? "mode=1777" : "mode=1777,uid=1000,gid=1000";
    const struct {
        const char *path, *options, *mode;
        unsigned eighths;
        bool is_on;
    } places[] = {
        { "/sandbox", "exec", own, shape->has_workspace ? 2 : 4, true },
        { "/tmp", "exec", shared, shape->has_workspace ? 2 : 3, true },
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
        if (!spec->is_plain)
            snprintf(text + len, sizeof text - (size_t)len, ",nr_inodes=%llu",
                     (unsigned long long)MAX(shape->inodes * places[i].eighths / 8, 4));
        json_field_string(w, places[i].path, text);
    }
    for (; folders && *folders; folders++) {
        snprintf(text, sizeof text, "rw,nosuid,nodev,exec,%s,size=%llu", own,
                 (unsigned long long)shape->disk_bytes);
        json_field_string(w, *folders, text);
    }
    put_empty_volumes(w, spec->volumes);
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

static void put_security(struct json_writer *w, const struct spec *spec)
{
    /* The engine's own list, and what else tells about the host or is not needed: terminals,
     * message queues as files, the names of the host's resolvers. */
    static const char *const masked[] = {
        "/proc/acpi",        "/proc/asound",        "/proc/cmdline", "/proc/fs",
        "/proc/interrupts",  "/proc/kcore",         "/proc/keys",    "/proc/latency_stats",
        "/proc/locks",       "/proc/sched_debug",   "/proc/scsi",    "/proc/timer_list",
        "/proc/timer_stats", "/proc/sysrq-trigger", "/sys",          "/dev/mqueue",
        "/dev/pts",          "/etc/resolv.conf",
    };
    static const char *const readonly[] = { "/proc/bus", "/proc/irq", "/proc/sys" };
    auto_free char *seccomp = seccomp_option();

    json_field_bool(w, "ReadonlyRootfs", true);
    json_field_bool(w, "Privileged", false);
    json_field_array(w, "CapDrop");
    json_put_string(w, "ALL");
    json_end_array(w);
    if (shape_is_split(spec->shape)) { /* to start the program as its user, and to end it */
        static const char *const rights[] = { "SETUID", "SETGID", "SETPCAP", "KILL" };
        json_field_array(w, "CapAdd");
        for (size_t i = 0; i < ARRAY_LEN(rights); i++)
            json_put_string(w, rights[i]);
        json_end_array(w);
    }
    json_field_array(w, "SecurityOpt");
    json_put_string(w, "no-new-privileges");
    if (!spec->is_filtered)
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
void spec_put_limits(struct json_writer *w, const struct cgroup_limits *limits)
{
    json_field_uint(w, "Memory", limits->memory_bytes);
    json_field_uint(w, "MemorySwap", limits->memory_bytes + limits->swap_bytes);
    json_field_uint(w, "CpuPeriod", 100000);
    json_field_uint(w, "CpuQuota", MAX(limits->cpus_milli * UINT64_C(100), 1000));
    if (limits->cpu_shares < 1024) /* which some runtimes make less on v2 than what is not set */
        json_field_uint(w, "CpuShares", limits->cpu_shares);
    json_field_uint(w, "PidsLimit", limits->pids + UINT64_C(1));
}

/* Of each process. The init sets open files, of which jobs have numbers of their own; the size of a
 * file is bounded by the tmpfs that it is in. podman asks the kernel for a million open files
 * unless told, which not everybody may have: ours is as many as it can be given. */
static void put_ulimits(struct json_writer *w, const struct spec *spec)
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
        { "nofile", files.rlim_max, spec->is_plain },
        { "nproc", MIN(processes.rlim_max, 32768), spec->is_plain },
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

static void put_mounts(struct json_writer *w, const struct spec *spec)
{
    json_field_array(w, "Mounts");
    if (spec->is_copied)
        put_mount(w, "volume", NULL, INSIDE_COPY_FOLDER, false);
    else
        put_mount(w, "bind", spec->inside, INSIDE_PATH, true);
    json_end_array(w);
}

static void put_host_config(struct json_writer *w, const struct spec *spec)
{
    const struct shape *shape = spec->shape;

    json_field_object(w, "HostConfig");
    put_security(w, spec);
    spec_put_limits(w, &shape->limits);
    put_ulimits(w, spec);
    put_tmpfs(w, spec);
    json_field_bool(w, "AutoRemove", true);
    json_field_object(w, "LogConfig");
    json_field_string(w, "Type", "none");
    json_end_object(w);
    if (shape->runtime[0])
        json_field_string(w, "Runtime", shape->runtime);
    put_mounts(w, spec);
    json_end_object(w);
}

char *spec_json(const struct spec *spec)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };
    static const char *const flags[] = { "AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin",
                                         "StdinOnce" };
    char user[32];

    if (shape_is_split(spec->shape))
        snprintf(user, sizeof user, "0:0");
    else
        snprintf(user, sizeof user, "%d:%d", SANDBOX_UID, SANDBOX_GID);
    json_begin_object(&w);
    json_field_string(&w, "Image", spec->shape->image);
    json_field_array(&w, "Entrypoint");
    json_put_string(&w, spec->is_copied ? INSIDE_COPY_FOLDER "/" INSIDE_COPY_NAME : INSIDE_PATH);
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
    put_labels(&w, spec->run_id);
    put_host_config(&w, spec);
    json_end_object(&w);
    return strbuf_take(&out);
}
