/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/spec.h"
#include "sandbox/backend.h"
#include "warden/warden.h"

/* Past these nothing adds up any more. */
#define BYTES_MAX (UINT64_C(1) << 50)
#define TIME_MAX  (NS_PER_SEC * 86400 * 365)
enum { COUNT_MAX = 1 << 22, CPU_SHARES_MAX = 1024 };

static void cap(uint64_t *value, uint64_t most, uint64_t absolute)
{
    *value = MIN(*value, most > 0 ? MIN(most, absolute) : absolute);
}

static void cap32(uint32_t *value, uint32_t most)
{
    *value = MAX(1U, MIN(*value, most > 0 ? most : (uint32_t)COUNT_MAX));
}

static void cap_time(int64_t *value, int64_t most)
{
    *value = MAX(0, MIN(*value, most > 0 ? most : TIME_MAX));
}

static void cap_limits(struct cay_limits *limits, const struct cay_limits *most)
{
    cap_time(&limits->timeout_ns, most->timeout_ns);
    cap_time(&limits->cpu_time_ns, most->cpu_time_ns);
    cap(&limits->memory_bytes, most->memory_bytes, BYTES_MAX);
    cap(&limits->swap_bytes, most->swap_bytes, BYTES_MAX);
    cap(&limits->disk_bytes, most->disk_bytes, BYTES_MAX);
    cap(&limits->inodes, most->inodes, COUNT_MAX);
    cap32(&limits->pids, most->pids);
    cap32(&limits->cpus_milli, most->cpus_milli);
    cap32(&limits->open_files, most->open_files);
    cap32(&limits->cpu_shares, most->cpu_shares ? most->cpu_shares : CPU_SHARES_MAX);
}

/* A compiler's are the highest that anything in a sandbox may have. */
void check_cap_sandbox(const struct warden_options *options, struct sandbox_spec *spec)
{
    spec->has_terminals = spec->has_terminals != 0;
    spec->writes = spec->writes != 0;
    spec->is_restricted = spec->is_restricted != 0;
    spec->id[sizeof spec->id - 1] = '\0';
    for (char *c = spec->id; *c; c++)
        if (!strchr("0123456789abcdef", *c))
            *c = '0';
    spec->shell_allow[sizeof spec->shell_allow - 1] = '\0'; /* its names: shell_root */
    spec->image[sizeof spec->image - 1] = '\0';             /* what it may be: image_open */
    spec->runtime[sizeof spec->runtime - 1] = '\0';
    cap_limits(&spec->limits, options->compile_caps);
}

void check_cap_exec(const struct warden_options *options, struct exec_spec *spec)
{
    cap_limits(&spec->limits, spec->is_compiler ? options->compile_caps : options->caps);
    if (spec->harvest > HARVEST_ALL || !spec->owns_sandbox || spec->harvest_fd < 0)
        spec->harvest = HARVEST_NOTHING;
}

/* The program gets pipes and nothing else: no folder, socket or terminal that a client which was
 * taken over might hold. What is mounted are folders. */
static bool are_all(const int *fds, int n, mode_t type)
{
    struct stat st;

    for (int i = 0; i < n; i++)
        if (fds[i] >= 0 && (fstat(fds[i], &st) < 0 || (st.st_mode & S_IFMT) != type))
            return false;
    return true;
}

/* Where a terminal is made, the first one is what it is sent to the client by, before anything of
 * the request runs, and the program never has it. */
static bool are_streams(const struct exec_spec *spec)
{
    if (!spec->has_terminal)
        return are_all(spec->std_fds, 3, S_IFIFO);
    return spec->std_fds[0] >= 0 && are_all(spec->std_fds, 1, S_IFSOCK) &&
           are_all(spec->std_fds + 1, 2, S_IFIFO);
}

/* Open for reading, which is the proof that the client may: O_PATH asks for no right to the folder.
 */
static bool are_open(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0 && (fcntl(fds[i], F_GETFL) & (O_PATH | O_ACCMODE)) != O_RDONLY)
            return false;
    return true;
}

/* A client that was taken over could have us do what it may not do itself: run a program without a
 * sandbox, or show one a folder as its owner sees it. That holds for whoever connects, too: he may
 * be that front, which is of our own user where a server is not root's. */
static bool is_allowed(const struct warden_options *options, const struct backend *backend,
                       const struct sandbox_spec *spec)
{
    if (!options->is_unprivileged)
        return true;
    for (int i = 0; i < SANDBOX_FOLDERS; i++)
        if (spec->folder_fds[i] >= 0)
            return false;
    return backend->kind.tier != TIER_NONE;
}

int check_sandbox(const struct warden_options *options, const struct backend *backend,
                  const struct sandbox_spec *spec, struct cay_error *err)
{
    if (!is_allowed(options, backend, spec)) {
        cay_fail(err, CAY_E_POLICY,
                 "warden: not on a server: folders of the host, and runs without isolation");
        return cay_hint(err, "--no-server runs it without the server");
    }
    if (!are_all(spec->folder_fds, SANDBOX_FOLDERS, S_IFDIR) ||
        !are_open(spec->folder_fds, SANDBOX_FOLDERS))
        return cay_fail(err, CAY_E_USAGE, "warden: the folders are not folders");
    return 0;
}

int check_exec(const struct exec_spec *spec, bool has_terminals, struct cay_error *err)
{
    if (spec->payload_fd < 0)
        return cay_fail(err, CAY_E_USAGE, "warden: the payload is missing");
    if (spec->has_terminal && !has_terminals)
        return cay_fail(err, CAY_E_USAGE, "warden: the sandbox has no terminals");
    if (!are_streams(spec) || !are_all(&spec->harvest_fd, 1, S_IFIFO))
        return cay_fail(err, CAY_E_USAGE, "warden: the streams are not pipes");
    return 0;
}
