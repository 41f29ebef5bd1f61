/* SPDX-License-Identifier: Apache-2.0 */
/* A job on its way into the container. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"

int send_read_payload(struct keeper *keeper)
{
    int rc = payload_of(&keeper->job, &keeper->payload);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < keeper->job.n_stages; i++)
        if (keeper->payload.argc[i] == 0)
            return -EINVAL;
    keeper->folders = arena_alloc(&keeper->arena, (keeper->payload.n_folders + 1) * sizeof(char *));
    payload_folders(&keeper->payload, keeper->folders);
    return 0;
}

/* Without a warden there is nothing to go on for: a large folder takes its time. */
static int send_frame(void *arg, uint32_t kind, const void *data, size_t len)
{
    const struct keeper *keeper = arg;

    if (keeper_is_hung_up(keeper))
        return -ECANCELED;
    return attach_send(&keeper->attach, kind, data, len);
}

static void add_strings(struct arena *arena, struct strbuf *out, const struct payload *payload,
                        uint32_t n, void (*get)(const struct payload *, char **))
{
    char **list = arena_alloc(arena, (n + (size_t)1) * sizeof *list);

    get(payload, list);
    for (uint32_t i = 0; i < n; i++)
        strbuf_add(out, list[i], strlen(list[i]) + 1);
}

static void get_argv_0(const struct payload *payload, char **list)
{
    payload_argv(payload, 0, list);
}

static void get_argv_1(const struct payload *payload, char **list)
{
    payload_argv(payload, 1, list);
}

static int send_head(struct keeper *keeper)
{
    const struct payload *payload = &keeper->payload;
    const struct job *job = &keeper->job;
    auto_strbuf struct strbuf out = { 0 };
    struct wire_job head = {
        .n_stages = job->n_stages,
        .require = job->require,
        .is_split = shape_is_split(&keeper->shape),
        .has_input = job->std_fds[0] >= 0,
        .has_harvest = job->harvest_fd >= 0,
        .has_workspace = job->folder_fds[0] >= 0,
        .envc = payload->envc,
        .n_globs = payload->n_globs,
        .n_folders = payload->n_folders,
    };

    while (keeper->version_argv && keeper->version_argv[head.version_argc])
        head.version_argc++;
    memcpy(head.limits, job->limits, sizeof head.limits);
    for (unsigned i = 0; i < job->n_stages; i++)
        head.argc[i] = payload->argc[i];
    strbuf_add(&out, (const char *)&head, sizeof head);
    add_strings(&keeper->arena, &out, payload, head.argc[0], get_argv_0);
    if (job->n_stages > 1)
        add_strings(&keeper->arena, &out, payload, head.argc[1], get_argv_1);
    add_strings(&keeper->arena, &out, payload, head.envc, payload_env);
    add_strings(&keeper->arena, &out, payload, head.n_globs, payload_globs);
    add_strings(&keeper->arena, &out, payload, head.n_folders, payload_folders);
    for (uint32_t i = 0; i < head.version_argc; i++)
        strbuf_add(&out, keeper->version_argv[i], strlen(keeper->version_argv[i]) + 1);
    if (out.len > WIRE_JOB_MAX)
        return -E2BIG;
    return send_frame(keeper, WIRE_JOB, out.data, out.len);
}

static int send_file(struct keeper *keeper, const struct payload_file *file)
{
    size_t path_len = strlen(file->name);
    const struct wire_entry entry = {
        .kind = WIRE_FILE,
        .mode = file->mode,
        .path_len = (uint32_t)path_len,
        .size = file->len,
    };
    auto_strbuf struct strbuf head = { 0 };

    strbuf_add(&head, (const char *)&entry, sizeof entry);
    strbuf_add(&head, file->name, path_len);
    int rc = send_frame(keeper, WIRE_ENTRY, head.data, head.len);
    for (uint64_t at = 0; at < file->len && rc == 0; at += WIRE_PIECE)
        rc = send_frame(keeper, WIRE_DATA, file->data + at, MIN(file->len - at, WIRE_PIECE));
    return rc;
}

static int send_files(struct keeper *keeper)
{
    struct payload_file file;
    size_t pos = 0;
    int rc = 0;

    for (uint32_t i = 0; i < keeper->payload.n_files && rc == 0; i++)
        rc = payload_next_file(&keeper->payload, &pos, &file) ? send_file(keeper, &file) : -EINVAL;
    return rc;
}

/* The one beyond the folders, if there is one, is the workspace by its own path: a link, for which
 * a read-only root has no place. */
static int send_folders(struct keeper *keeper)
{
    const int *fds = keeper->job.folder_fds;
    int rc = 0;

    if (fds[0] >= 0)
        rc = carry_folder(fds[0], 1, send_frame, keeper);
    for (uint32_t i = 0; i < keeper->payload.n_folders && rc == 0; i++)
        if (i + 1 < JOB_FOLDERS && fds[i + 1] >= 0)
            rc = carry_folder(fds[i + 1], 2 + i, send_frame, keeper);
    return rc;
}

int send_job(struct keeper *keeper, struct cay_error *err)
{
    int rc = send_head(keeper);
    if (rc == 0)
        rc = send_files(keeper);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "docker: send the job into the container");
    rc = send_folders(keeper);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "docker: copy a folder into the container");
    rc = send_frame(keeper, WIRE_BEGIN, NULL, 0);
    return rc < 0 ? cay_fail_errno(err, -rc, "docker: begin the run") : 0;
}
