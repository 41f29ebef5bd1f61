/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/backend.h"
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

/* The front checked all this; a front that was taken over did not. */
void check_cap(const struct warden_options *options, struct job *job)
{
    job->n_stages = (uint8_t)MAX(1, MIN(job->n_stages, JOB_STAGES));
    job->tty = job->tty != 0;
    job->wants_usage = job->wants_usage != 0;
    job->writes = job->writes != 0;
    job->id[sizeof job->id - 1] = '\0';
    for (char *c = job->id; *c; c++)
        if (!strchr("0123456789abcdef", *c))
            *c = '0';
    job->shell_allow[sizeof job->shell_allow - 1] = '\0'; /* its names: shell_root */
    job->image[sizeof job->image - 1] = '\0';             /* what it may be: image_open */
    for (int i = 0; i < job->n_stages; i++)
        cap_limits(&job->limits[i], i + 1 == job->n_stages ? options->caps : options->compile_caps);
}

/* The program gets pipes and nothing else: no folder, socket or terminal that a front which was
 * taken over might hold. What is mounted are folders. */
static bool are_all(const int *fds, int n, mode_t type)
{
    struct stat st;

    for (int i = 0; i < n; i++)
        if (fds[i] >= 0 && (fstat(fds[i], &st) < 0 || (st.st_mode & S_IFMT) != type))
            return false;
    return true;
}

/* Where a terminal is made, the first one is what it is sent to the front by, before anything of
 * the request runs, and the program never has it. */
static bool are_streams(const struct job *job)
{
    if (!job->tty)
        return are_all(job->std_fds, 3, S_IFIFO);
    return job->std_fds[0] >= 0 && are_all(job->std_fds, 1, S_IFSOCK) &&
           are_all(job->std_fds + 1, 2, S_IFIFO);
}

/* Open for reading, which is the proof that the front may: O_PATH asks for no right to the folder.
 */
static bool are_open(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0 && (fcntl(fds[i], F_GETFL) & (O_PATH | O_ACCMODE)) != O_RDONLY)
            return false;
    return true;
}

/* A front that was taken over could have us do what it may not do itself: run a program without a
 * sandbox, or show one a folder as its owner sees it. That holds for whoever connects, too: he may
 * be that front, which is of our own user where a server is not root's. */
static bool is_allowed(const struct warden_options *options, const struct backend *backend,
                       const struct job *job)
{
    if (!options->is_unprivileged)
        return true;
    for (int i = 0; i < JOB_FOLDERS; i++)
        if (job->folder_fds[i] >= 0)
            return false;
    return backend->tier != TIER_NONE;
}

/* The payload is in its file, or in the job. */
static bool is_given_once(const struct job *job)
{
    return job->inline_len <= JOB_INLINE && (job->inline_len > 0) == (job->payload_fd < 0);
}

int check_job(const struct warden_options *options, const struct backend *backend,
              const struct job *job, struct cay_error *err)
{
    if (!is_allowed(options, backend, job)) {
        cay_fail(err, CAY_E_POLICY,
                 "warden: not on a server: folders of the host, and runs without isolation");
        return cay_hint(err, "--no-server runs it without the server");
    }
    if (!is_given_once(job))
        return cay_fail(err, CAY_E_USAGE, "warden: the payload is not there, or there twice");
    if (!are_streams(job) || !are_all(&job->harvest_fd, 1, S_IFIFO))
        return cay_fail(err, CAY_E_USAGE, "warden: the streams are not pipes");
    if (!are_all(job->folder_fds, JOB_FOLDERS, S_IFDIR) || !are_open(job->folder_fds, JOB_FOLDERS))
        return cay_fail(err, CAY_E_USAGE, "warden: the folders are not folders");
    return 0;
}
