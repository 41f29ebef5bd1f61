/* SPDX-License-Identifier: Apache-2.0 */
#include "store/compiled.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "core/config.h"
#include "core/harvest.h"
#include "core/language.h"
#include "core/payload.h"
#include "core/plan.h"

/* Past this much code, hashing it costs what compiling it does. */
enum { CODE_BYTES_MAX = 8 << 20 };

/* ---- the key ---- */

/* With its length before it: "ab", "c" is not "a", "bc". */
static void add(struct digest *digest, const void *data, size_t len)
{
    uint64_t prefix = len;

    digest_add(digest, &prefix, sizeof prefix);
    digest_add(digest, data, len);
}

static void add_words(struct digest *digest, const char *const *words)
{
    uint64_t n = 0;

    while (words && words[n])
        n++;
    digest_add(digest, &n, sizeof n);
    for (uint64_t i = 0; i < n; i++)
        add(digest, words[i], strlen(words[i]));
}

/* Which file this is, or folder: an upgrade makes it another. */
static void add_path(struct digest *digest, const char *path)
{
    struct stat st;
    uint64_t which[5] = { 0 };

    if (path && stat(path, &st) == 0) {
        which[0] = st.st_dev;
        which[1] = st.st_ino;
        which[2] = (uint64_t)st.st_size;
        which[3] = (uint64_t)st.st_mtim.tv_sec;
        which[4] = (uint64_t)st.st_mtim.tv_nsec;
    }
    add(digest, path ? path : "", path ? strlen(path) : 0);
    add(digest, which, sizeof which);
}

/* The compiler, and what it takes from the host: headers and libraries come and go with packages,
 * or with files of the administrator's own. */
static void add_host(struct digest *digest, struct plan *plan)
{
    static const char *const others[] = {
        "/var/lib/dpkg/status",
        "/usr/local/include",
        "/usr/local/lib",
    };

    if (plan->image) { /* all of it is in there */
        add(digest, plan->image, strlen(plan->image));
        add(digest, plan->image_digest, strlen(plan->image_digest));
        return;
    }
    add_path(digest, plan->program);
    for (const char *const *name = plan->language->programs; *name; name++)
        add_path(digest, language_program(&plan->arena, *name));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        add_path(digest, others[i]);
}

static void make_key(struct compiled *compiled, const char *tenant, struct plan *plan)
{
    static const char version[] = "cay compiled 1";
    struct digest digest;

    digest_begin(&digest);
    add(&digest, version, sizeof version);
    add(&digest, tenant, strlen(tenant));
    add(&digest, plan->backend->name, strlen(plan->backend->name));
    add(&digest, plan->language->name, strlen(plan->language->name));
    add_words(&digest, plan->language->outputs);
    add_words(&digest, plan->compile.argv);
    add_words(&digest, plan->env);
    add_host(&digest, plan);
    for (size_t i = 0; i < plan->n_files; i++) {
        const struct payload_file *file = &plan->files[i];
        uint64_t mode = file->mode;
        add(&digest, file->name, strlen(file->name));
        digest_add(&digest, &mode, sizeof mode);
        add(&digest, file->data, file->len);
    }
    memcpy(compiled->key, digest_end(&digest).sha256, sizeof compiled->key);
    digest_hex(tenant, strlen(tenant), compiled->tenant);
}

/* ---- which runs ---- */

static bool has_word(const struct payload_file *file, const char *const *words)
{
    for (; *words; words++)
        if (file->len > 0 && memmem(file->data, file->len, *words, strlen(*words)))
            return true;
    return false;
}

static bool is_repeatable(const struct plan *plan)
{
    uint64_t bytes = 0;

    if (!plan->language || !plan->has_compile || !plan->language->outputs[0] || plan->is_strict ||
        plan->workspace || plan->n_folders > 0 ||
        (plan->backend->abilities & BACKEND_IMAGES)) /* an image changes behind its name */
        return false;
    for (size_t i = 0; i < plan->n_files; i++)
        bytes += plan->files[i].len;
    if (bytes > CODE_BYTES_MAX)
        return false;
    for (size_t i = 0; i < plan->n_files; i++)
        if (has_word(&plan->files[i], plan->language->varies))
            return false;
    return true;
}

static uint64_t max_bytes(const struct config *config)
{
    return config->settings[FIELD_COMPILE_CACHE].value.num;
}

/* Where it does not fit into the sandbox, the compiler says that better. */
static bool fits(const struct compiled *compiled, const struct plan *plan)
{
    const uint64_t page = 4096;
    uint64_t bytes = 0;

    for (size_t i = 0; i < compiled->n_files; i++)
        bytes += compiled->files[i].len + page;
    for (size_t i = 0; i < plan->n_files; i++)
        bytes += plan->files[i].len + page;
    return bytes <= plan->run.spec.limits.disk_bytes;
}

void compiled_find(struct compiled *ret, const struct config *config, int folder_fd,
                   const char *tenant, struct plan *plan)
{
    *ret = (struct compiled){ .folder_fd = folder_fd };
    if (max_bytes(config) == 0 || !is_repeatable(plan))
        return;
    make_key(ret, tenant, plan);
    ret->is_found = compiled_load(ret, &plan->arena) && fits(ret, plan);
    if (!ret->is_found)
        return;
    plan->has_compile = false;
    plan->sandbox.limits = plan->run.spec.limits;
}

bool compiled_is_wanted(const struct compiled *compiled)
{
    return compiled->key[0] && !compiled->is_found;
}

/* ---- the payload ---- */

static const struct payload_file *find(const struct payload_file *files, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

/* Where the compiler has overwritten a file of the request, its own is the one that there is. */
static void put_files(const struct compiled *compiled, struct plan *plan,
                      struct payload_source *payload)
{
    struct payload_file *files =
        arena_alloc(&plan->arena, (payload->n_files + compiled->n_files) * sizeof *files);
    size_t n = 0;

    for (size_t i = 0; i < payload->n_files; i++)
        if (!find(compiled->files, compiled->n_files, payload->files[i].name))
            files[n++] = payload->files[i];
    for (size_t i = 0; i < compiled->n_files; i++)
        files[n++] = compiled->files[i];
    payload->files = files;
    payload->n_files = n;
}

void compiled_put(const struct compiled *compiled, struct plan *plan,
                  struct payload_source *payload)
{
    struct value globs = { .list = payload->globs };

    if (compiled->is_found)
        put_files(compiled, plan, payload);
    if (!compiled_is_wanted(compiled))
        return;
    for (const char *const *name = plan->language->outputs; *name; name++)
        field_append(&plan->arena, &globs, arena_printf(&plan->arena, "/product/%s", *name));
    payload->globs = globs.list;
}

/* ---- keeping ---- */

/* What pid 1 reported of one: a regular file with a plain name, and all of its data. */
static bool take_product(const struct harvest_entry *entry, struct payload_file *ret)
{
    static const char place[] = "product/";

    if (entry->kind != HARVEST_FILE || !entry->has_data ||
        strncmp(entry->path, place, strlen(place)) != 0 ||
        !payload_name_ok(entry->path + strlen(place)))
        return false;
    *ret = (struct payload_file){
        .name = entry->path + strlen(place),
        .data = entry->data,
        .len = entry->size,
        .mode = entry->mode & 0111 ? 0755 : 0644,
    };
    return true;
}

void compiled_keep(struct compiled *compiled, const struct config *config, int products_fd)
{
    struct harvest harvest;
    struct cay_error err;

    if (!compiled_is_wanted(compiled) || harvest_open(products_fd, &harvest, &err) < 0)
        return;
    auto_free struct payload_file *files = mem_alloc((harvest.n + 1) * sizeof *files);
    size_t n = 0;
    while (n < harvest.n && take_product(&harvest.entries[n], &files[n]))
        n++;
    if (n > 0 && n == harvest.n && !harvest.errnum)
        compiled_store(compiled, files, n, max_bytes(config));
    harvest_close(&harvest);
}

void compiled_done(struct compiled *compiled)
{
    if (compiled->map)
        munmap(compiled->map, compiled->len);
    compiled->map = NULL;
}
