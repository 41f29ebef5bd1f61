/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a payload: refused, or everything that is read from it lies within it, and writing
 * the same again gives the same bytes but for the bits of a mode that are not permissions.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void must_lie_within(const struct payload *payload, const char *from, size_t len)
{
    must(from >= payload->data && len <= payload->len &&
         from + len <= payload->data + payload->len);
}

static char **vector(const struct payload *payload, uint32_t n)
{
    (void)payload;
    return mem_alloc((n + 1) * sizeof(char *));
}

static void check_vector(const struct payload *payload, char **vec, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        must_lie_within(payload, vec[i], strlen(vec[i]) + 1);
    must(vec[n] == NULL);
}

static void check_again(const struct payload *payload, enum payload_kind kind,
                        const struct payload_source *source)
{
    struct payload again;
    struct cay_error err = { 0 };
    int fd = -1;

    must(payload_write(source, &fd, &err) == 0);
    must(payload_map(fd, kind, &again) == 0);
    must(again.len == payload->len && again.files_at == payload->files_at);
    must(memcmp(again.data, payload->data, again.files_at) == 0);
    payload_unmap(&again);
    close(fd);
}

static void check_as(enum payload_kind kind, const uint8_t *data, size_t size)
{
    struct payload payload;
    int rc = payload_check(data, size, kind, &payload);

    if (rc < 0) {
        must(rc == -EINVAL);
        return;
    }
    auto_free char **argv = vector(&payload, payload.argc);
    auto_free char **env = vector(&payload, payload.envc);
    auto_free struct payload_file *files = mem_alloc((payload.n_files + 1) * sizeof *files);
    payload_argv(&payload, argv);
    payload_env(&payload, env);
    auto_free char **globs = vector(&payload, payload.n_globs);
    auto_free char **folders = vector(&payload, payload.n_folders);
    payload_globs(&payload, globs);
    payload_folders(&payload, folders);
    check_vector(&payload, globs, payload.n_globs);
    check_vector(&payload, folders, payload.n_folders);
    for (uint32_t i = 0; i < payload.n_folders; i++)
        must(payload_folder_ok(folders[i]));
    check_vector(&payload, argv, payload.argc);
    check_vector(&payload, env, payload.envc);
    must((kind == PAYLOAD_EXEC) == (payload.argc > 0));

    size_t pos = 0;
    for (uint32_t i = 0; i < payload.n_files; i++) {
        must(payload_next_file(&payload, &pos, &files[i]) == 1);
        must_lie_within(&payload, files[i].name, strlen(files[i].name) + 1);
        must_lie_within(&payload, files[i].data, files[i].len);
        must(payload_name_ok(files[i].name) && files[i].mode <= 0777);
    }
    check_again(&payload, kind,
                &(struct payload_source){
                    .argv = (const char *const *)argv,
                    .env = (const char *const *)env,
                    .globs = (const char *const *)globs,
                    .folders = (const char *const *)folders,
                    .files = files,
                    .n_files = payload.n_files,
                });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_as(PAYLOAD_EXEC, data, size);
    check_as(PAYLOAD_SANDBOX, data, size);
    return 0;
}
