/* SPDX-License-Identifier: Apache-2.0 */
/* On its way into the container: what a sandbox has, and what an exec brings along. */
#include <errno.h>
#include <string.h>

#include "backends/docker/keeper.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"

/* Of which exec a frame is. */
struct upload {
    struct keeper *keeper;
    uint16_t exec;
};

/* Without a warden there is nothing to go on for: a large folder takes its time. */
static int send_frame(void *arg, uint16_t kind, const void *data, size_t len)
{
    const struct upload *upload = arg;

    if (keeper_is_hung_up(upload->keeper))
        return -ECANCELED;
    return attach_send(&upload->keeper->attach, kind, upload->exec, data, len);
}

static void add_strings(struct strbuf *out, char *const *list)
{
    for (; list && *list; list++)
        strbuf_add(out, *list, strlen(*list) + 1);
}

/* ---- a sandbox --------------------------------------------------------------------------------
 */

/* The one beyond the folders, if there is one, is the workspace by its own path: a link, for which
 * a read-only root has no place. */
static int send_folders(struct upload *upload, uint32_t n_folders)
{
    const int *fds = upload->keeper->spec.folder_fds;
    int rc = 0;

    if (fds[0] >= 0)
        rc = upload_dir(fds[0], 1, send_frame, upload);
    for (uint32_t i = 0; i < n_folders && rc == 0; i++)
        if (i + 1 < SANDBOX_FOLDERS && fds[i + 1] >= 0)
            rc = upload_dir(fds[i + 1], 2 + i, send_frame, upload);
    return rc;
}

int upload_sandbox(struct keeper *keeper, struct cay_error *err)
{
    struct upload upload = { keeper, WIRE_NO_EXEC };
    auto_strbuf struct strbuf out = { 0 };
    struct wire_open head = {
        .require = keeper->spec.require,
        .is_split = shape_is_split(&keeper->shape),
        .has_workspace = keeper->spec.folder_fds[0] >= 0,
    };

    while (keeper->folders && keeper->folders[head.n_folders])
        head.n_folders++;
    strbuf_add(&out, (const char *)&head, sizeof head);
    add_strings(&out, keeper->folders);
    int rc = send_frame(&upload, WIRE_OPEN, out.data, out.len);
    if (rc == 0)
        rc = send_folders(&upload, head.n_folders);
    if (rc == 0)
        rc = send_frame(&upload, WIRE_OPEN_END, NULL, 0);
    return rc < 0 ? cay_fail_errno(err, -rc, "docker: copy a folder into the container") : 0;
}

/* ---- an exec ----------------------------------------------------------------------------------
 */

static int send_head(struct upload *upload, const struct exec_spec *spec,
                     const struct payload *payload)
{
    const struct keeper *keeper = upload->keeper;
    auto_strbuf struct strbuf out = { 0 };
    struct wire_exec head = {
        .limits = spec->limits,
        .harvest_max = keeper->spec.limits.disk_bytes,
        .owns_sandbox = spec->owns_sandbox,
        .in_workspace = spec->in_workspace,
        .has_input = spec->std_fds[0] >= 0,
        .harvest = spec->harvest_fd >= 0 ? spec->harvest : HARVEST_NOTHING,
        .argc = payload->argc,
        .envc = payload->envc,
        .n_globs = payload->n_globs,
    };

    while (keeper->version_argv && keeper->version_argv[head.version_argc])
        head.version_argc++;
    strbuf_add(&out, (const char *)&head, sizeof head);
    /* As they are in the payload, behind each other. */
    strbuf_add(&out, payload->data + payload->strings_at, payload->files_at - payload->strings_at);
    if (head.version_argc > 0)
        add_strings(&out, keeper->version_argv);
    if (out.len > WIRE_HEAD_MAX)
        return -E2BIG;
    return send_frame(upload, WIRE_EXEC, out.data, out.len);
}

static int send_file(struct upload *upload, const struct payload_file *file)
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
    int rc = send_frame(upload, WIRE_ENTRY, head.data, head.len);
    for (uint64_t at = 0; at < file->len && rc == 0; at += WIRE_PIECE)
        rc = send_frame(upload, WIRE_DATA, file->data + at, MIN(file->len - at, WIRE_PIECE));
    return rc;
}

int upload_exec(struct keeper *keeper, const struct keeper_exec *exec,
                const struct payload *payload)
{
    struct upload upload = { keeper, keeper_exec_slot(keeper, exec) };
    struct payload_file file;
    size_t pos = 0;
    int rc = send_head(&upload, &exec->spec, payload);

    for (uint32_t i = 0; i < payload->n_files && rc == 0; i++)
        rc = payload_next_file(payload, &pos, &file) ? send_file(&upload, &file) : -EINVAL;
    return rc < 0 ? rc : send_frame(&upload, WIRE_START, NULL, 0);
}
