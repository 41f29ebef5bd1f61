/* SPDX-License-Identifier: Apache-2.0 */
/* What makes two compilations the same, and what is kept of them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "core/config.h"
#include "core/plan.h"
#include "core/state.h"
#include "store/compiled.h"
#include "sys/rmtree.h"

enum { MIB = 1 << 20 };

struct world {
    struct config config;
    char compiler[64]; /* a file of the test's own */
    char tenant[64];
};

static const char *compiler_path; /* for find_program, which has no argument of its own */

static const char *find_program(struct arena *arena, const char *name)
{
    (void)name;
    return arena_str(arena, compiler_path);
}

static const char *real_path(struct arena *arena, const char *path)
{
    return arena_str(arena, path);
}

static const struct plan_host host = { find_program, NULL, real_path };

static int setup(void **state)
{
    struct world *world = mem_alloc(sizeof *world);
    const struct config_sources none = { 0 };
    struct cay_error err;

    setenv("XDG_STATE_HOME", "/tmp",
           1); /* root's is another; the tenant's folder goes in any case */
    assert_int_equal(config_load(&none, &world->config, &err), 0);
    snprintf(world->compiler, sizeof world->compiler, "/tmp/cay-test-compiled-XXXXXX");
    close(mkstemp(world->compiler));
    compiler_path = world->compiler;
    snprintf(world->tenant, sizeof world->tenant, "unit test %d", (int)getpid());
    *state = world;
    return 0;
}

static int open_compiled(void)
{
    auto_close int state_fd = state_open();
    return openat(state_fd, "compiled", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int teardown(void **state)
{
    struct world *world = *state;
    char folder[DIGEST_HEX + 1];
    auto_close int fd = open_compiled();

    digest_hex(world->tenant, strlen(world->tenant), folder);
    if (fd >= 0)
        rmtree_at(fd, folder, INT64_MAX);
    unlink(world->compiler);
    config_done(&world->config);
    free(world);
    return 0;
}

/* One request, and what it differs in from the first. */
struct what {
    const char *code, *file_name, *file, *env, *arg, *language;
    unsigned mode;
    bool is_strict;
    const char *tenant;
    const char *memory;
    const char *image, *digest; /* of the image */
};

static void find(struct world *world, const struct what *what, struct compiled *ret)
{
    struct cay_request *req = cay_request_new();
    struct cay_error err;
    struct plan plan;

    cay_request_set(req, "language", what->language ? what->language : "c", &err);
    cay_request_set(req, "code", what->code ? what->code : "int main(void) { return 0; }", &err);
    cay_request_add_file(req, what->file_name ? what->file_name : "a.h",
                         what->file ? what->file : "x", 1, what->mode ? what->mode : 0644, &err);
    if (what->env)
        cay_request_add_env(req, "CPATH", what->env, &err);
    if (what->arg)
        cay_request_set(req, "args", what->arg, &err);
    if (what->memory)
        cay_request_set(req, "memory", what->memory, &err);
    if (what->is_strict)
        cay_request_set(req, "strict", "true", &err);
    if (plan_make(req, &world->config, &host, &plan, &err) < 0)
        fail_msg("%s", err.msg);
    plan.image = what->image;
    plan.image_digest = what->digest;
    bool has_compile = plan.has_compile;
    compiled_find(ret, &world->config, -1, what->tenant ? what->tenant : world->tenant, &plan);
    assert_int_equal(plan.has_compile, has_compile && !ret->is_found);
    compiled_done(ret); /* the key stays */
    plan_done(&plan);
    cay_request_free(req);
}

static void test_key(void **state)
{
    static const struct what others[] = {
        { .code = "int main(void) { return 1; }" },
        { .file = "y" },
        { .file_name = "b.h" },
        { .mode = 0755 },
        { .env = "/usr/include" },
        { .language = "cpp" },
        { .image = "a", .digest = "sha256:1" },
        { .tenant = "somebody else" },
        { .tenant = "" },
    };
    static const struct what same[] = { { .arg = "word" }, { .memory = "64m" } };
    static const struct what never[] = {
        { .is_strict = true },
        { .code = "const char *when = __TIME__;" },
        { .file = "/", .code = "#include \"/dev/stdin\"" },
        { .language = "python", .code = "print(1)" },
    };
    struct world *world = *state;
    struct compiled first, compiled;
    struct stat st;

    find(world, &(struct what){ 0 }, &first);
    assert_int_equal(strlen(first.key), DIGEST_HEX);
    assert_false(first.is_found);
    assert_true(compiled_is_wanted(&first));
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        find(world, &same[i], &compiled);
        assert_string_equal(compiled.key, first.key);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        find(world, &others[i], &compiled);
        assert_int_equal(strlen(compiled.key), DIGEST_HEX);
        assert_string_not_equal(compiled.key, first.key);
        assert_int_equal(strcmp(compiled.tenant, first.tenant) == 0, others[i].tenant == NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        find(world, &never[i], &compiled);
        assert_string_equal(compiled.key, "");
        assert_false(compiled_is_wanted(&compiled));
    }
    /* Of an image, name and digest count, and nothing of the host's. */
    struct compiled inside;
    find(world, &(struct what){ .image = "a", .digest = "sha256:1" }, &inside);
    find(world, &(struct what){ .image = "a", .digest = "sha256:2" }, &compiled);
    assert_string_not_equal(compiled.key, inside.key);
    find(world, &(struct what){ .image = "b", .digest = "sha256:1" }, &compiled);
    assert_string_not_equal(compiled.key, inside.key);
    /* Another compiler in its place. */
    assert_int_equal(stat(world->compiler, &st), 0);
    const struct timespec later[2] = { { .tv_nsec = UTIME_OMIT },
                                       { .tv_sec = st.st_mtim.tv_sec + 1 } };
    assert_int_equal(utimensat(AT_FDCWD, world->compiler, later, 0), 0);
    find(world, &(struct what){ 0 }, &compiled);
    assert_string_not_equal(compiled.key, first.key);
    find(world, &(struct what){ .image = "a", .digest = "sha256:1" }, &compiled);
    assert_string_equal(compiled.key, inside.key);

    world->config.settings[FIELD_COMPILE_CACHE].value.num = 0;
    find(world, &(struct what){ 0 }, &compiled);
    assert_string_equal(compiled.key, "");
}

static const struct payload_file files[] = {
    { .name = "main", .data = "\177ELF", .len = 4, .mode = 0755 },
    { .name = "deep/er/x.class", .data = "", .len = 0, .mode = 0644 },
};

static void test_entry(void **state)
{
    struct world *world = *state;
    struct compiled compiled, stranger;
    struct arena arena = { 0 };

    find(world, &(struct what){ 0 }, &compiled);
    compiled.said[1] = (struct bytes){ "a warning", 9 };
    assert_int_equal(compiled_store(&compiled, files, 2, MIB), 0);
    memset(compiled.said, 0, sizeof compiled.said);
    assert_true(compiled_load(&compiled, &arena));
    assert_int_equal(compiled.n_files, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(compiled.files[i].name, files[i].name);
        assert_int_equal(compiled.files[i].len, files[i].len);
        assert_int_equal(compiled.files[i].mode, files[i].mode);
        assert_memory_equal(compiled.files[i].data, files[i].data, files[i].len);
    }
    assert_int_equal(compiled.said[0].len, 0);
    assert_int_equal(compiled.said[1].len, 9);
    assert_memory_equal(compiled.said[1].data, "a warning", 9);
    compiled_done(&compiled);

    /* It is the tenant's own, though the other knew the very name. */
    find(world, &(struct what){ .tenant = "somebody else" }, &stranger);
    assert_false(stranger.is_found);
    memcpy(stranger.key, compiled.key, sizeof stranger.key);
    assert_false(compiled_load(&stranger, &arena));

    find(world, &(struct what){ 0 }, &compiled);
    assert_true(compiled.is_found);
    arena_done(&arena);
}

static bool is_one(struct compiled *compiled, int dir_fd, const char *path, const char *entry,
                   size_t len)
{
    struct arena arena = { 0 };
    auto_close int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, entry, len), len);
    bool is_loaded = compiled_load(compiled, &arena);
    compiled_done(compiled);
    arena_done(&arena);
    return is_loaded;
}

/* Every byte that is off or missing makes it none. */
static void test_torn(void **state)
{
    struct world *world = *state;
    struct compiled compiled;
    char path[2 * DIGEST_HEX + 8], entry[1024];

    find(world, &(struct what){ 0 }, &compiled);
    assert_int_equal(compiled_store(&compiled, files, 2, MIB), 0);
    snprintf(path, sizeof path, "%s/%s", compiled.tenant, compiled.key);
    auto_close int dir_fd = open_compiled();
    auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, entry, sizeof entry);
    assert_true(got > 100 && got < (ssize_t)sizeof entry);
    size_t len = (size_t)got;
    for (size_t i = 0; i < len; i++) {
        entry[i] ^= 0x10;
        assert_false(is_one(&compiled, dir_fd, path, entry, len));
        entry[i] ^= 0x10;
        assert_false(is_one(&compiled, dir_fd, path, entry, i));
    }
    assert_true(is_one(&compiled, dir_fd, path, entry, len));
    assert_false(is_one(&compiled, dir_fd, path, entry, len + 1));
    assert_int_equal(faccessat(dir_fd, path, F_OK, 0), -1); /* and is removed */
}

static void test_room(void **state)
{
    enum { N = 6, LEN = 100000 };
    struct world *world = *state;
    struct compiled compiled[N];
    struct arena arena = { 0 };
    auto_free char *data = mem_alloc(LEN);
    const struct payload_file large = { .name = "main", .data = data, .len = LEN, .mode = 0755 };
    auto_close int dir_fd = -1;

    for (int i = 0; i < N; i++) {
        find(world, &(struct what){ 0 }, &compiled[i]);
        compiled[i].key[0] = (char)('0' + i);
    }
    for (int i = 0; i < N; i++) {
        char path[2 * DIGEST_HEX + 8];
        assert_int_equal(compiled_store(&compiled[i], &large, 1, 3 * LEN + 30000), 0);
        /* Their times are told apart: the first was used last. */
        snprintf(path, sizeof path, "%s/%s", compiled[i].tenant, compiled[i].key);
        close_fd(&dir_fd);
        dir_fd = open_compiled();
        const struct timespec when[2] = { { .tv_sec = 1000 }, { .tv_sec = i ? 1000 + i : 2000 } };
        assert_int_equal(utimensat(dir_fd, path, when, 0), 0);
    }
    for (int i = 0; i < N; i++) {
        bool is_there = compiled_load(&compiled[i], &arena);
        assert_int_equal(is_there, i == 0 || i >= N - 2);
        compiled_done(&compiled[i]);
    }
    assert_true(compiled_store(&compiled[1], &large, 1, LEN) < 0);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_torn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
