/* SPDX-License-Identifier: Apache-2.0 */
/* What files and variables say about this host. Nothing here changes anything. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "doctor/doctor.h"
#include "sys/file.h"

enum { TEXT_BYTES_MAX = 256 * 1024 };

const char *facts_text(struct facts *f, int root_fd, const char *path)
{
    auto_free char *text = mem_alloc(TEXT_BYTES_MAX);
    ssize_t len = file_read_at(root_fd, path, text, TEXT_BYTES_MAX);
    if (len < 0)
        return NULL;
    while (len > 0 && text[len - 1] == '\n')
        len--;
    return arena_dup(f->arena, text, (size_t)len);
}

int64_t facts_number(int root_fd, const char *path)
{
    uint64_t number;
    return file_read_uint_at(root_fd, path, &number) < 0 || number > INT64_MAX ? -1
                                                                               : (int64_t)number;
}

const char *facts_variable(const char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; *environment; environment++)
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=')
            return *environment + len + 1;
    return NULL;
}

/* The value of "KEY=value" or 'KEY="value"' on a line of its own; "" where there is none. */
static const char *shell_value(struct facts *f, const char *text, const char *key)
{
    size_t len = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) != 0 || line[len] != '=')
            continue;
        const char *value = line + len + 1;
        value += *value == '"';
        return arena_dup(f->arena, value, strcspn(value, "\"\n"));
    }
    return "";
}

static void read_system(struct facts *f, int root_fd)
{
    const char *text = facts_text(f, root_fd, "usr/lib/os-release");
    const char *release = facts_text(f, root_fd, "proc/sys/kernel/osrelease");
    if (!text)
        text = facts_text(f, root_fd, "etc/os-release");
    f->os_name = shell_value(f, text, "PRETTY_NAME");
    f->os_id = arena_printf(f->arena, "%s %s", shell_value(f, text, "ID"),
                            shell_value(f, text, "ID_LIKE"));
    f->release = release ? release : f->release;
    if (f->release) {
        char *end;
        unsigned long major = strtoul(f->release, &end, 10);
        unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
        f->version = (unsigned)(MIN(major, 999UL) * 100 + MIN(minor, 99UL));
    }
}

static void read_switches(struct facts *f, int root_fd)
{
    static const char status[] = "proc/self/status";
    const char *text = facts_text(f, root_fd, status);
    const char *seccomp = text ? strstr(text, "\nSeccomp:\t") : NULL;
    const char *privs = text ? strstr(text, "\nNoNewPrivs:\t") : NULL;

    f->max_user_ns = facts_number(root_fd, "proc/sys/user/max_user_namespaces");
    f->userns_clone = facts_number(root_fd, "proc/sys/kernel/unprivileged_userns_clone");
    f->apparmor_userns =
        facts_number(root_fd, "proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    f->selinux = facts_number(root_fd, "sys/fs/selinux/enforce");
    f->lsm = facts_text(f, root_fd, "sys/kernel/security/lsm");
    f->seccomp_mode = seccomp ? seccomp[strlen("\nSeccomp:\t")] - '0' : -1;
    f->no_new_privs = privs && privs[strlen("\nNoNewPrivs:\t")] == '1';
}

/* ---- mounts ---- */

struct mount_line {
    char point[256], type[32], options[512];
};

static bool parse_mount(const char *line, struct mount_line *ret)
{
    return sscanf(line, "%*s %255s %31s %511s", ret->point, ret->type, ret->options) == 3;
}

static bool is_read_only(const struct mount_line *m)
{
    return strncmp(m->options, "ro", 2) == 0 && (m->options[2] == ',' || m->options[2] == '\0');
}

/* A fresh /proc is refused when something hides a part of the one that is there. What the kernel
 * itself keeps for a mount (binfmt_misc) hides nothing. */
static void see_proc_mask(struct facts *f, const struct mount_line *m)
{
    if (strncmp(m->point, "/proc/", 6) != 0 || strcmp(m->point, "/proc/sys/fs/binfmt_misc") == 0)
        return;
    if (f->proc_masks++ == 0)
        f->proc_mask = arena_str(f->arena, m->point);
}

static void see_cgroup(struct facts *f, const struct mount_line *m, bool *has_v1, bool *has_unified)
{
    if (strcmp(m->type, "cgroup2") == 0 && strcmp(m->point, "/sys/fs/cgroup") == 0) {
        f->cgroup_layout = CGROUPS_V2;
        f->cgroup_read_only = is_read_only(m);
    } else if (strcmp(m->type, "cgroup2") == 0) {
        *has_unified = true;
    } else if (strcmp(m->type, "cgroup") == 0 &&
               strncmp(m->point, "/sys/fs/cgroup/", strlen("/sys/fs/cgroup/")) == 0) {
        *has_v1 = true;
        if (strstr(m->point, "memory"))
            f->cgroup_read_only = is_read_only(m);
    } else if (strcmp(m->point, "/sys/fs/cgroup") == 0) {
        /* What was there is under this one now. */
        f->cgroup_layout = CGROUPS_NONE;
        *has_v1 = *has_unified = false;
    }
}

static void read_mounts(struct facts *f, int root_fd)
{
    bool has_v1 = false, has_unified = false;
    const char *text = facts_text(f, root_fd, "proc/self/mounts");

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        struct mount_line m;
        line += *line == '\n';
        if (!parse_mount(line, &m))
            continue;
        see_proc_mask(f, &m);
        see_cgroup(f, &m, &has_v1, &has_unified);
    }
    if (f->cgroup_layout != CGROUPS_V2 && has_v1)
        f->cgroup_layout = has_unified ? CGROUPS_HYBRID : CGROUPS_V1;
}

/* ---- cgroups ---- */

/* Rows of /proc/cgroups: name, hierarchy, number of groups, enabled. */
static void read_controllers(struct facts *f, int root_fd)
{
    const char *text = facts_text(f, root_fd, "proc/cgroups");
    const char *v2 = facts_text(f, root_fd, "sys/fs/cgroup/cgroup.controllers");
    char *list = arena_str(f->arena, "");

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        char name[32], enabled[16];
        line += *line == '\n';
        if (sscanf(line, "%31s %*s %*s %15s", name, enabled) != 2 || name[0] == '#')
            continue;
        bool is_on = strcmp(enabled, "1") == 0;
        if (strcmp(name, "memory") == 0 && !is_on)
            f->cgroup_memory_off = true;
        if (is_on)
            list = arena_printf(f->arena, "%s%s%s", list, *list ? " " : "", name);
    }
    f->cgroup_controllers = f->cgroup_layout == CGROUPS_V2 && v2 ? v2 : list;

    const char *swaps = facts_text(f, root_fd, "proc/swaps");
    f->has_swap = swaps && strchr(swaps, '\n');
    f->has_systemd = faccessat(root_fd, "run/systemd/system", F_OK, 0) == 0;
    f->has_systemd_user =
        faccessat(root_fd, arena_printf(f->arena, "run/user/%u/systemd", f->uid), F_OK, 0) == 0;
}

/* ---- tools ---- */

static const char *const tool_files[FACTS_TOOLS][3] = {
    { "run/docker.sock", "var/run/docker.sock" },
    { NULL },
    { "dev/kvm" },
    { "usr/bin/qemu-system-x86_64", "usr/bin/qemu-system-aarch64" },
    { "usr/bin/runsc", "usr/local/bin/runsc" },
    { "usr/bin/bwrap" },
};

/* Whether a server answers at a socket; the socket's owner was checked before. */
static enum tool_state socket_at(int root_fd, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    auto_close int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int len =
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", root_fd, path);

    if (sock < 0 || len < 0 || (size_t)len >= sizeof address.sun_path)
        return TOOL_SILENT;
    return connect(sock, (const struct sockaddr *)&address, sizeof address) == 0 ||
                   errno == EAGAIN || errno == EINPROGRESS
               ? TOOL_PRESENT
               : TOOL_SILENT;
}

static enum tool_state tool_at(int root_fd, const char *path)
{
    struct stat st;

    if (fstatat(root_fd, path, &st, 0) < 0)
        return errno == EACCES ? TOOL_REFUSED : TOOL_ABSENT;
    int mode = S_ISREG(st.st_mode) ? X_OK : R_OK | W_OK;
    if (faccessat(root_fd, path, mode, AT_EACCESS) < 0)
        return TOOL_REFUSED;
    return S_ISSOCK(st.st_mode) ? socket_at(root_fd, path) : TOOL_PRESENT;
}

static void read_tools(struct facts *f, int root_fd, const char *const *environment)
{
    const char *runtime = facts_variable(environment, "XDG_RUNTIME_DIR");

    for (size_t i = 0; i < FACTS_TOOLS; i++)
        for (size_t j = 0; tool_files[i][j] && f->tools[i] == TOOL_ABSENT; j++)
            f->tools[i] = tool_at(root_fd, tool_files[i][j]);
    f->tools[1] = tool_at(root_fd, "run/podman/podman.sock");
    if (f->uid != 0)
        f->tools[1] =
            runtime && *runtime == '/'
                ? tool_at(root_fd, arena_printf(f->arena, "%s/podman/podman.sock", runtime + 1))
                : TOOL_ABSENT;
}

/* The helper can do its work by the setuid bit or by a file capability. */
static void read_newuidmap(struct facts *f, int root_fd)
{
    static const char *const names[] = { "usr/bin/newuidmap", "usr/bin/newgidmap" };

    f->newuidmap = 2;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct stat st;
        auto_close int fd = openat(root_fd, names[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
            f->newuidmap = 0;
            return;
        }
        bool is_setuid = (st.st_mode & S_ISUID) && st.st_uid == 0;
        if (!is_setuid && fgetxattr(fd, "security.capability", NULL, 0) <= 0)
            f->newuidmap = 1;
    }
}

/* A free range begins behind all that are taken. */
static void read_subids(struct facts *f, int root_fd)
{
    static const char *const names[] = { "etc/subuid", "etc/subgid" };

    f->subids_next = 100000;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = facts_text(f, root_fd, names[i]);
        for (const char *line = text; line && *line; line = strchr(line, '\n')) {
            char *end;
            line += *line == '\n';
            const char *colon = line + strcspn(line, ":\n");
            uint64_t start = *colon == ':' ? strtoull(colon + 1, &end, 10) : 0;
            if (start > 0 && *end == ':')
                f->subids_next = MAX(f->subids_next, start + strtoull(end + 1, NULL, 10));
        }
    }
}

void facts_read(struct facts *f, int root_fd, const char *const *environment)
{
    read_system(f, root_fd);
    read_switches(f, root_fd);
    read_mounts(f, root_fd);
    read_controllers(f, root_fd);
    read_tools(f, root_fd, environment);
    read_newuidmap(f, root_fd);
    read_subids(f, root_fd);
    facts_read_group(f, root_fd);
    facts_read_place(f, root_fd, environment);
}
