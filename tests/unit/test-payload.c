/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/payload.h"

/* The wire form, written down a second time: a change of it must show here. */
enum {
    HEADER = 24,
    FILE_HEADER = 16,
    AT_MAGIC = 0,
    AT_ARGC = 4,
    AT_ENVC = 8,
    AT_GLOBS = 12,
    AT_FOLDERS = 16,
    AT_FILES = 20
};

static const char *const some_argv[] = { "gcc", "", "main.c", NULL };
static const char *const some_env[] = { "A=1", "B=", NULL };
static const struct payload_file some_files[] = {
    { "main.c", "int main;\0x", 11, 0644 },
    { "d/e/empty", "", 0, 0755 },
    { "last", "z", 1, 0600 },
};
static const struct payload_source some_source = {
    .argv = some_argv,
    .env = some_env,
    .files = some_files,
    .n_files = ARRAY_LEN(some_files),
};

static int written(const struct payload_source *source)
{
    struct cay_error err = { 0 };
    int fd = -1;

    if (payload_write(source, &fd, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(fd >= 0);
    return fd;
}

static void check_vector(char **vec, const char *const *want)
{
    size_t n = 0;

    for (; want[n]; n++)
        assert_string_equal(vec[n], want[n]);
    assert_null(vec[n]);
}

static void test_round_trip(void **state)
{
    auto_close int fd = written(&some_source);
    struct payload payload;
    struct payload_file file;
    char *vec[8];
    size_t pos = 0;

    (void)state;
    assert_int_equal(payload_map(fd, PAYLOAD_EXEC, &payload), 0);
    assert_int_equal(payload.argc, 3);
    assert_int_equal(payload.envc, 2);
    assert_int_equal(payload.n_files, 3);
    payload_argv(&payload, vec);
    check_vector(vec, some_argv);
    payload_env(&payload, vec);
    check_vector(vec, some_env);
    for (size_t i = 0; i < ARRAY_LEN(some_files); i++) {
        assert_int_equal(payload_next_file(&payload, &pos, &file), 1);
        assert_string_equal(file.name, some_files[i].name);
        assert_int_equal(file.len, some_files[i].len);
        assert_memory_equal(file.data, some_files[i].data, file.len);
        assert_int_equal(file.mode, some_files[i].mode);
    }
    assert_int_equal(payload_next_file(&payload, &pos, &file), 0);
    payload_unmap(&payload);
}

static void test_argv_and_nothing_else(void **state)
{
    const char *const argv[] = { "x", NULL };
    auto_close int fd = written(&(struct payload_source){ .argv = argv });
    struct payload payload;
    struct payload_file file;
    char *vec[2];
    size_t pos = 0;

    (void)state;
    assert_int_equal(payload_map(fd, PAYLOAD_EXEC, &payload), 0);
    payload_argv(&payload, vec);
    check_vector(vec, argv);
    payload_env(&payload, vec);
    assert_null(vec[0]);
    assert_int_equal(payload_next_file(&payload, &pos, &file), 0);
    payload_unmap(&payload);
    assert_null(payload.data);
}

/* What is an exec's is no sandbox's, and the other way round. */
static void test_kinds(void **state)
{
    static const char *const argv[] = { "x", NULL }, *const folders[] = { "/data", NULL };
    static const struct payload_source both = { .argv = argv, .folders = folders };
    auto_close int exec = written(&some_source);
    auto_close int sandbox = written(&(struct payload_source){ .folders = folders });
    auto_close int mixed = written(&both);
    auto_close int none = written(&(struct payload_source){ 0 });
    struct payload payload;

    (void)state;
    assert_int_equal(payload_map(exec, PAYLOAD_SANDBOX, &payload), -EINVAL);
    assert_int_equal(payload_map(sandbox, PAYLOAD_EXEC, &payload), -EINVAL);
    assert_int_equal(payload_map(mixed, PAYLOAD_EXEC, &payload), -EINVAL);
    assert_int_equal(payload_map(mixed, PAYLOAD_SANDBOX, &payload), -EINVAL);
    assert_int_equal(payload_map(none, PAYLOAD_EXEC, &payload), -EINVAL);
    assert_int_equal(payload_map(sandbox, PAYLOAD_SANDBOX, &payload), 0);
    assert_int_equal(payload.n_folders, 1);
    payload_unmap(&payload);
}

/* Larger than the writer's buffer, and not by a multiple of it. */
static void test_large(void **state)
{
    enum { LEN = 3 * 1024 * 1024 + 7 };
    auto_free char *data = mem_alloc(LEN);
    const char *const argv[] = { "x", NULL };
    struct payload payload;
    struct payload_file file;
    size_t pos = 0;

    (void)state;
    for (size_t i = 0; i < LEN; i++)
        data[i] = (char)(i * 31);
    const struct payload_file files[] = { { "big", data, LEN, 0644 }, { "small", "s", 1, 0644 } };
    auto_close int fd = written(
        &(struct payload_source){ .argv = argv, .files = files, .n_files = ARRAY_LEN(files) });
    assert_int_equal(payload_map(fd, PAYLOAD_EXEC, &payload), 0);
    assert_int_equal(payload_next_file(&payload, &pos, &file), 1);
    assert_int_equal(file.len, LEN);
    assert_memory_equal(file.data, data, LEN);
    assert_int_equal(payload_next_file(&payload, &pos, &file), 1);
    assert_string_equal(file.name, "small");
    payload_unmap(&payload);
}

static void test_sealed(void **state)
{
    auto_close int fd = written(&some_source);

    (void)state;
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), -1);
}

/* A memfd that holds these bytes, with these seals. */
static int memfd_of(const void *data, size_t len, int seals)
{
    int fd = memfd_create("cay-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    if (seals)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static size_t bytes_of(const struct payload_source *source, char **ret)
{
    auto_close int fd = written(source);
    off_t len = lseek(fd, 0, SEEK_END);
    char *data = mem_alloc((size_t)len);

    assert_int_equal(pread(fd, data, (size_t)len, 0), len);
    *ret = data;
    return (size_t)len;
}

static void test_map_wants_every_seal(void **state)
{
    static const int seals[] = { F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE };
    auto_free char *data = NULL;
    size_t len = bytes_of(&some_source, &data);
    struct payload payload;
    int all = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(seals); i++)
        all |= seals[i];
    for (size_t i = 0; i < ARRAY_LEN(seals); i++) {
        auto_close int fd = memfd_of(data, len, all & ~seals[i]);
        assert_int_equal(payload_map(fd, PAYLOAD_EXEC, &payload), -EPERM);
    }
    auto_close int unsealed = memfd_of(data, len, 0);
    assert_int_equal(payload_map(unsealed, PAYLOAD_EXEC, &payload), -EPERM);
    auto_close int whole = memfd_of(data, len, all);
    assert_int_equal(payload_map(whole, PAYLOAD_EXEC, &payload), 0);
    payload_unmap(&payload);
    auto_close int empty = memfd_of("", 0, all);
    assert_int_equal(payload_map(empty, PAYLOAD_EXEC, &payload), -EINVAL);
    auto_close int garbage = memfd_of("garbage that is long enough", 27, all);
    assert_int_equal(payload_map(garbage, PAYLOAD_EXEC, &payload), -EINVAL);

    /* A file on a disk that has what a memfd should: whoever has it open could change it. */
    char path[] = "./test-payload-XXXXXX";
    auto_close int plain = mkostemp(path, O_CLOEXEC);
    assert_true(plain >= 0);
    unlink(path);
    assert_int_equal(write(plain, data, len), (ssize_t)len);
    assert_int_equal(payload_map(plain, PAYLOAD_EXEC, &payload), -EPERM);

    /* Not a memfd at all: a pipe, a file, nothing. */
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    assert_true(payload_map(pair[0], PAYLOAD_EXEC, &payload) < 0);
    close(pair[0]);
    close(pair[1]);
    auto_close int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(payload_map(file, PAYLOAD_EXEC, &payload) < 0);
    assert_true(payload_map(-1, PAYLOAD_EXEC, &payload) < 0);
}

/* A copy of its exact size, so that the address sanitizer sees a step too far. */
static int check_exact_as(enum payload_kind kind, const char *data, size_t len)
{
    auto_free char *copy = malloc(len ? len : 1);
    struct payload payload;

    memcpy(copy, data, len);
    return payload_check(copy, len, kind, &payload);
}

static int check_exact(const char *data, size_t len)
{
    return check_exact_as(PAYLOAD_EXEC, data, len);
}

static void test_every_cut_is_refused(void **state)
{
    auto_free char *data = NULL;
    size_t len = bytes_of(&some_source, &data);

    (void)state;
    assert_int_equal(check_exact(data, len), 0);
    for (size_t cut = 0; cut < len; cut++)
        if (check_exact(data, cut) != -EINVAL)
            fail_msg("%zu of %zu bytes were accepted", cut, len);
    auto_free char *longer = mem_alloc(len + 1);
    memcpy(longer, data, len);
    assert_int_equal(check_exact(longer, len + 1), -EINVAL);
}

static void put32(char *data, size_t at, uint32_t value)
{
    memcpy(data + at, &value, sizeof value);
}

static void test_wrong_numbers(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
    } rows[] = {
        { AT_MAGIC, 0 },
        { AT_MAGIC, UINT32_MAX },
        { AT_ARGC, 0 },
        { AT_ARGC, 2 },
        { AT_ARGC, 4 },
        { AT_ARGC, PAYLOAD_STRINGS_MAX + 1 },
        { AT_ARGC, UINT32_MAX },
        { AT_ENVC, 0 },
        { AT_ENVC, UINT32_MAX },
        { AT_FILES, 0 },
        { AT_FILES, 2 },
        { AT_FILES, 4 },
        { AT_FILES, PAYLOAD_FILES_MAX + 1 },
        { AT_FILES, UINT32_MAX },
        { AT_GLOBS, 1 },
        { AT_GLOBS, UINT32_MAX },
        { AT_FOLDERS, 1 },
        { AT_FOLDERS, UINT32_MAX },
    };
    auto_free char *data = NULL;
    size_t len = bytes_of(&some_source, &data);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *bad = mem_dup(data, len);
        put32(bad, rows[i].at, rows[i].value);
        if (check_exact(bad, len) != -EINVAL)
            fail_msg("%u at %zu was accepted", rows[i].value, rows[i].at);
    }
}

static void test_globs_and_folders(void **state)
{
    static const char *const argv[] = { "x", NULL };
    static const char *const globs[] = { "/sandbox/*", "/workspace/**", NULL };
    static const char *const folders[] = { "/data", "/tmp/a/b", NULL };
    static const char *const bad[] = { "/etc/x", NULL };
    static const char *const nested[] = { "/data", "/data/link/x", NULL };
    auto_free char *data = NULL, *places = NULL, *wrong = NULL, *within = NULL;
    char *vec[4];
    struct payload payload;

    (void)state;
    size_t len = bytes_of(&(struct payload_source){ .argv = argv, .globs = globs }, &data);
    assert_int_equal(payload_check(data, len, PAYLOAD_EXEC, &payload), 0);
    payload_globs(&payload, vec);
    assert_int_equal(payload.n_globs, 2);
    assert_string_equal(vec[1], "/workspace/**");
    assert_null(vec[2]);
    len = bytes_of(&(struct payload_source){ .folders = folders }, &places);
    assert_int_equal(payload_check(places, len, PAYLOAD_SANDBOX, &payload), 0);
    payload_folders(&payload, vec);
    assert_int_equal(payload.n_folders, 2);
    assert_string_equal(vec[0], "/data");
    assert_string_equal(vec[1], "/tmp/a/b");
    len = bytes_of(&(struct payload_source){ .folders = bad }, &wrong);
    assert_int_equal(check_exact_as(PAYLOAD_SANDBOX, wrong, len), -EINVAL);
    len = bytes_of(&(struct payload_source){ .folders = nested }, &within);
    assert_int_equal(check_exact_as(PAYLOAD_SANDBOX, within, len), -EINVAL);
}

static void test_folder_paths(void **state)
{
    static const char *const good[] = { "/data",      "/home/u/.venv", "/tmp/x", "/sandbox/x",
                                        "/var/lib/x", "/usrlocal",     "/opt" };
    static const char *const wrong[] = {
        "",           "/",      "data",     "//data",     "/data/",       "/a/../b",
        "/a//b",      "/usr",   "/usr/lib", "/etc",       "/etc/x",       "/proc/1",
        "/dev",       "/tmp",   "/sandbox", "/workspace", "/workspace/x", "/var",
        "/var/tmp/x", "/bin/x", "/lib64",   "/a\nb",      "/.cay/x",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!payload_folder_ok(good[i]))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        if (payload_folder_ok(wrong[i]))
            fail_msg("%s is accepted", wrong[i]);
}

/* One file's header, found behind the strings. */
static void test_wrong_files(void **state)
{
    const char *const argv[] = { "x", NULL };
    const struct payload_file files[] = { { "name", "data", 4, 0644 } };
    auto_free char *data = NULL;
    size_t len =
        bytes_of(&(struct payload_source){ .argv = argv, .files = files, .n_files = 1 }, &data);
    const size_t at = HEADER + 2;
    static const struct {
        size_t at;
        uint64_t value;
        size_t bytes;
    } rows[] = {
        { 0, 5, 8 },
        { 0, 3, 8 },
        { 0, UINT64_MAX, 8 },
        { 0, UINT64_MAX - 20, 8 },
        { 8, 3, 4 },
        { 8, 5, 4 },
        { 8, UINT32_MAX, 4 },
        { 8, 0, 4 },
        { FILE_HEADER, 0, 1 },
        { FILE_HEADER, '/', 1 },
        { FILE_HEADER + 3, '/', 1 },
        { FILE_HEADER, '\n', 1 },
        { FILE_HEADER + 4, 'x', 1 },
    };

    (void)state;
    assert_int_equal(len, at + FILE_HEADER + 5 + 4);
    assert_int_equal(check_exact(data, len), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *bad = mem_dup(data, len);
        memcpy(bad + at + rows[i].at, &rows[i].value, rows[i].bytes);
        if (check_exact(bad, len) != -EINVAL)
            fail_msg("%llu at %zu was accepted", (unsigned long long)rows[i].value, rows[i].at);
    }
    /* Bits beyond the permissions are taken away: no setuid comes through. */
    auto_free char *odd = mem_dup(data, len);
    struct payload payload;
    struct payload_file file;
    size_t pos = 0;
    put32(odd, at + 12, UINT32_MAX);
    assert_int_equal(payload_check(odd, len, PAYLOAD_EXEC, &payload), 0);
    assert_int_equal(payload_next_file(&payload, &pos, &file), 1);
    assert_int_equal(file.mode, 0777);
}

static void test_names(void **state)
{
    static const char *const good[] = { "a",     "a.b", "...", "..a", "a..",   ".hidden",
                                        "a/b/c", "ä/ö", "a b", "-rf", "a/...", "a\\b" };
    static const char *const bad[] = { "",     ".",    "..",   "/",     "/a",     "a/",
                                       "a//b", "../a", "a/..", "a/./b", "a/../b", "./a",
                                       "a/.",  "a\nb", "\x1b", "a\x7f", "a/\t/b", "\x01" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!payload_name_ok(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (payload_name_ok(bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

static void test_too_many(void **state)
{
    const char *const argv[] = { "x", NULL };
    auto_free const char **many = mem_alloc((PAYLOAD_STRINGS_MAX + 2) * sizeof *many);
    struct cay_error err = { 0 };
    int fd = -1;

    (void)state;
    for (size_t i = 0; i <= PAYLOAD_STRINGS_MAX; i++)
        many[i] = "";
    assert_int_equal(payload_write(&(struct payload_source){ .argv = many }, &fd, &err), -1);
    assert_int_equal(err.kind, CAY_E_USAGE);
    assert_int_equal(
        payload_write(&(struct payload_source){ .argv = argv, .env = many }, &fd, &err), -1);
    assert_int_equal(
        payload_write(&(struct payload_source){ .argv = argv, .n_files = PAYLOAD_FILES_MAX + 1 },
                      &fd, &err),
        -1);
    assert_int_equal(fd, -1);
    many[PAYLOAD_STRINGS_MAX] = NULL;
    auto_close int most = written(&(struct payload_source){ .argv = many });
    struct payload payload;
    assert_int_equal(payload_map(most, PAYLOAD_EXEC, &payload), 0);
    assert_int_equal(payload.argc, PAYLOAD_STRINGS_MAX);
    payload_unmap(&payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_argv_and_nothing_else),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_map_wants_every_seal),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_wrong_numbers),
        cmocka_unit_test(test_globs_and_folders),
        cmocka_unit_test(test_folder_paths),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_too_many),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
