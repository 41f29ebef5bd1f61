/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/config.h"
#include "core/floor.h"

/* A folder of our own for the three files. */
struct folder {
    struct tmp_folder top;
    char system[96], user[96], project[96];
};

static int make_folder(void **state)
{
    struct folder *folder = mem_alloc(sizeof *folder);

    tmp_folder_make(&folder->top);
    snprintf(folder->system, sizeof folder->system, "%s/system.toml", folder->top.path);
    snprintf(folder->user, sizeof folder->user, "%s/user.toml", folder->top.path);
    snprintf(folder->project, sizeof folder->project, "%s/project.toml", folder->top.path);
    *state = folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;

    tmp_folder_remove(&folder->top);
    free(folder);
    return 0;
}

/* NULL: the file is not there. */
static void write_text(const char *path, const char *text, size_t len)
{
    unlink(path);
    if (!text)
        return;
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
}

struct texts {
    const char *system, *user, *project;
    const char *const *environment;
};

static int load(const struct folder *folder, struct texts texts, struct config *ret,
                struct cay_error *err)
{
    const struct config_sources sources = {
        folder->system,
        folder->user,
        folder->project,
        texts.environment,
    };

    write_text(folder->system, texts.system, texts.system ? strlen(texts.system) : 0);
    write_text(folder->user, texts.user, texts.user ? strlen(texts.user) : 0);
    write_text(folder->project, texts.project, texts.project ? strlen(texts.project) : 0);
    return config_load(&sources, ret, err);
}

static void load_good(const struct folder *folder, struct texts texts, struct config *ret)
{
    struct cay_error err = { 0 };

    if (load(folder, texts, ret, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(err.kind, CAY_E_OK);
}

static void check_setting(struct config *config, enum field_id id, const char *value,
                          enum origin origin, const char *where)
{
    const struct setting *setting = &config->settings[id];
    const char *text = field_text(&config->arena, id, &setting->value);

    if (!value)
        assert_null(text);
    else if (!text || strcmp(text, value) != 0)
        fail_msg("%s is %s, not %s", fields[id].name, text ? text : "unset", value);
    if (setting->origin != origin)
        fail_msg("%s is from the %s, not the %s", fields[id].name, origin_name(setting->origin),
                 origin_name(origin));
    if (!where)
        assert_null(setting->where);
    else
        assert_string_equal(setting->where, where);
}

static void test_builtin(void **state)
{
    struct config config;

    load_good(*state, (struct texts){ 0 }, &config);
    for (int i = 0; i < FIELD_N; i++)
        check_setting(&config, (enum field_id)i, fields[i].initial, ORIGIN_BUILTIN, NULL);
    assert_int_equal(config.caps[FIELD_TIMEOUT].value.num, INT64_C(300000000000));
    for (int i = 0; i < FIELD_N; i++)
        assert_int_equal(config.caps[i].value.is_set, i == FIELD_TIMEOUT);
    assert_false(config.warnings.is_set);
    config_done(&config);

    /* No sources at all are as good as empty ones. */
    struct cay_error err = { 0 };
    assert_int_equal(config_load(&(struct config_sources){ 0 }, &config, &err), 0);
    check_setting(&config, FIELD_MEMORY, "512m", ORIGIN_BUILTIN, NULL);
    config_done(&config);
}

static void test_builtin_profiles(void **state)
{
    static const struct {
        const char *name, *memory, *timeout, *cpus, *pids;
    } rows[] = { { "hardened", "256m", "10", "0.5", "25" }, { "light", "128m", "5", "0.5", "25" } };
    struct config config;

    load_good(*state, (struct texts){ 0 }, &config);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct profile *profile = config_profile(&config, rows[i].name);
        const struct {
            enum field_id id;
            const char *text;
        } want[] = {
            { FIELD_MEMORY, rows[i].memory },
            { FIELD_TIMEOUT, rows[i].timeout },
            { FIELD_CPUS, rows[i].cpus },
            { FIELD_PIDS, rows[i].pids },
        };
        assert_non_null(profile);
        size_t n_set = 0;
        for (int f = 0; f < FIELD_N; f++)
            n_set += profile->values[f].is_set;
        assert_int_equal(n_set, ARRAY_LEN(want));
        for (size_t w = 0; w < ARRAY_LEN(want); w++)
            assert_string_equal(field_text(&config.arena, want[w].id, &profile->values[want[w].id]),
                                want[w].text);
    }
    const struct profile *usual = config_profile(&config, "default");
    assert_non_null(usual);
    for (int f = 0; f < FIELD_N; f++)
        assert_false(usual->values[f].is_set);
    assert_null(config_profile(&config, "Hardened"));
    config_done(&config);
}

/* Environment > project > user > system > built-in, one setting for each pair of neighbours. */
static void test_precedence(void **state)
{
    const struct folder *folder = *state;
    const char *const environment[] = { "CAY_PIDS=5", "HOME=/nowhere", NULL };
    struct config config;

    load_good(folder,
              (struct texts){
                  .system = "[limits]\nmemory = \"400m\"\npids = 80\ninodes = 9000\n"
                            "open_files = 500\n",
                  .user = "[limits]\nmemory = \"1g\"\npids = 70\ninodes = 8000\n",
                  .project = "[limits]\npids = 60\ninodes = 7000\n",
                  .environment = environment,
              },
              &config);
    check_setting(&config, FIELD_OPEN_FILES, "500", ORIGIN_SYSTEM, folder->system);
    check_setting(&config, FIELD_MEMORY, "1g", ORIGIN_USER, folder->user);
    check_setting(&config, FIELD_INODES, "7000", ORIGIN_PROJECT, folder->project);
    check_setting(&config, FIELD_PIDS, "5", ORIGIN_ENVIRONMENT, "CAY_PIDS");
    check_setting(&config, FIELD_DISK, "128m", ORIGIN_BUILTIN, NULL);
    config_done(&config);
}

static void test_everything_in_a_file(void **state)
{
    const struct folder *folder = *state;
    struct config config;

    load_good(folder,
              (struct texts){
                  .user = "timeout = 7.5\npolicy = 'block'\nnetwork = ['a', 'b:1']\n"
                          "min_isolation = 'vm'\nbackend = 'docker'\nprofile = 'mine'\n"
                          "strict = true\nfallback = 'isolated'\nrequire = []\n"
                          "compile_timeout = 90\ncompile_memory = '2g'\nstore_code = 'never'\n"
                          "docker_host = 'unix:///x'\n"
                          "[limits]\nmemory = 67108864\nswap = '1m'\ncpus = 1.5\ncpu_time = 3\n"
                          "disk = '1m'\nmax_output = '1k'\noutput_cap = '2m'\n"
                          "[max]\ntimeout = 600\nmemory = '2g'\n"
                          "[profiles.mine]\nmemory = '32m'\ntimeout = 1\nnetwork = 'none'\n"
                          "[profiles.light]\npids = 3\n"
                          "[security]\nenable_sandbox = false\ndocker_image = 'x:1'\n",
              },
              &config);
    static const struct {
        enum field_id id;
        const char *text;
    } want[] = {
        { FIELD_TIMEOUT, "7.5" },      { FIELD_POLICY, "block" },
        { FIELD_NETWORK, "a,b:1" },    { FIELD_MIN_ISOLATION, "vm" },
        { FIELD_BACKEND, "docker" },   { FIELD_PROFILE, "mine" },
        { FIELD_STRICT, "true" },      { FIELD_FALLBACK, "isolated" },
        { FIELD_REQUIRE, "" },         { FIELD_COMPILE_TIMEOUT, "90" },
        { FIELD_STORE_CODE, "never" }, { FIELD_COMPILE_MEMORY, "2g" },
        { FIELD_MEMORY, "64m" },       { FIELD_DOCKER_HOST, "unix:///x" },
        { FIELD_SWAP, "1m" },          { FIELD_CPUS, "1.5" },
        { FIELD_CPU_TIME, "3" },       { FIELD_DISK, "1m" },
        { FIELD_MAX_OUTPUT, "1k" },    { FIELD_OUTPUT_CAP, "2m" },
        { FIELD_DOCKER_IMAGE, "x:1" }, { FIELD_ENABLE_SANDBOX, "false" },
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        check_setting(&config, want[i].id, want[i].text, ORIGIN_USER, folder->user);
    assert_int_equal(config.caps[FIELD_TIMEOUT].value.num, INT64_C(600000000000));
    assert_int_equal(config.caps[FIELD_MEMORY].value.num, UINT64_C(2) << 30);
    assert_int_equal(config.caps[FIELD_MEMORY].origin, ORIGIN_USER);

    const struct profile *mine = config_profile(&config, "mine");
    assert_non_null(mine);
    assert_int_equal(mine->values[FIELD_MEMORY].num, 32 << 20);
    assert_false(mine->values[FIELD_PIDS].is_set);
    /* A profile that is there is changed in what the file says, and keeps the rest. */
    const struct profile *light = config_profile(&config, "light");
    assert_int_equal(light->values[FIELD_PIDS].num, 3);
    assert_int_equal(light->values[FIELD_MEMORY].num, 128 << 20);
    config_done(&config);
}

/* `cay config` says where each value came from: also of the cap under its older name. */
static void test_origin_of_the_old_cap(void **state)
{
    const struct folder *folder = *state;
    struct config config;

    load_good(folder, (struct texts){ .system = "[security]\nmax_execution_time = 400\n" },
              &config);
    assert_int_equal(config.caps[FIELD_TIMEOUT].value.num, INT64_C(400000000000));
    assert_int_equal(config.caps[FIELD_TIMEOUT].origin, ORIGIN_SYSTEM);
    assert_non_null(config.caps[FIELD_TIMEOUT].where);
    assert_string_equal(config.caps[FIELD_TIMEOUT].where, folder->system);
    config_done(&config);
}

/* A default that is past the administrator's cap gives way; what somebody asked for does not. */
static void test_cap_lowers_builtin(void **state)
{
    const struct folder *folder = *state;
    struct config config;

    load_good(folder, (struct texts){ .system = "[max]\ntimeout = 10\nmemory = '2g'\n" }, &config);
    assert_int_equal(config.settings[FIELD_TIMEOUT].value.num, INT64_C(10000000000));
    assert_int_equal(config.settings[FIELD_TIMEOUT].origin, ORIGIN_BUILTIN);
    assert_string_equal(config.settings[FIELD_TIMEOUT].where, "lowered to max.timeout");
    assert_int_equal(config.settings[FIELD_MEMORY].value.num, UINT64_C(512) << 20);
    assert_null(config.settings[FIELD_MEMORY].where);
    config_done(&config);
    load_good(folder, (struct texts){ .system = "timeout = 20\n[max]\ntimeout = 10\n" }, &config);
    assert_int_equal(config.settings[FIELD_TIMEOUT].value.num, INT64_C(20000000000));
    config_done(&config);
}

static void test_project_tightens(void **state)
{
    const struct folder *folder = *state;
    struct config config;

    load_good(folder,
              (struct texts){
                  .user = "network = 'full'\n",
                  .project = "timeout = 3\npolicy = 'block'\nnetwork = 'a.example'\n"
                             "min_isolation = 'vm'\n"
                             "[limits]\nmemory = '64m'\nswap = 0\ncpus = 0.5\ncpu_time = 2\n"
                             "pids = 5\ndisk = '1m'\ninodes = 50\nopen_files = 32\n"
                             "max_output = '1k'\noutput_cap = '1m'\n",
              },
              &config);
    static const struct {
        enum field_id id;
        const char *text;
    } want[] = {
        { FIELD_TIMEOUT, "3" },        { FIELD_POLICY, "block" },  { FIELD_NETWORK, "a.example" },
        { FIELD_MIN_ISOLATION, "vm" }, { FIELD_MEMORY, "64m" },    { FIELD_SWAP, "0" },
        { FIELD_CPUS, "0.5" },         { FIELD_CPU_TIME, "2" },    { FIELD_PIDS, "5" },
        { FIELD_DISK, "1m" },          { FIELD_INODES, "50" },     { FIELD_OPEN_FILES, "32" },
        { FIELD_MAX_OUTPUT, "1k" },    { FIELD_OUTPUT_CAP, "1m" },
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        check_setting(&config, want[i].id, want[i].text, ORIGIN_PROJECT, folder->project);
    assert_false(config.warnings.is_set);
    config_done(&config);

    /* Its [limits] may hold the timeout too. */
    load_good(folder, (struct texts){ .project = "[limits]\ntimeout = 2\n" }, &config);
    check_setting(&config, FIELD_TIMEOUT, "2", ORIGIN_PROJECT, folder->project);
    config_done(&config);
}

/* Whatever the configuration sets, a request of somebody else's can only tighten. */
static void test_floor(void **state)
{
    static const struct {
        const char *variable, *json, *refused; /* NULL: it passes */
    } rows[] = {
        { "CAY_MIN_ISOLATION=vm", "{\"min_isolation\": \"kernel\"}", "min_isolation: kernel" },
        { "CAY_MIN_ISOLATION=kernel", "{\"min_isolation\": \"vm\"}", NULL },
        { "CAY_POLICY=block", "{\"policy\": \"warn\"}", "policy: warn" },
        { "CAY_NONE=", "{\"policy\": \"off\"}", NULL }, /* built-in values are no floor */
        { "CAY_FALLBACK=never", "{\"fallback\": \"isolated\"}", "fallback: isolated" },
        { "CAY_FALLBACK=isolated", "{\"fallback\": \"never\"}", NULL },
        { "CAY_NETWORK=none", "{\"network\": \"full\"}", "network: full" },
        { "CAY_BACKEND=docker", "{\"backend\": \"native\"}", "backend: native" },
        { "CAY_RUNTIME=runsc", "{\"runtime\": \"runc\"}", "runtime: runc" },
        { "CAY_STRICT=true", "{\"strict\": false}", "strict: false" },
        { "CAY_SHELL_ALLOW=ls,cat", "{\"shell_allow\": \"ls,rm\"}", "shell_allow: ls,rm" },
        { "CAY_SHELL_ALLOW=ls,cat", "{\"shell_allow\": [\"ls\"]}", NULL },
        { "CAY_MEMORY=64m", "{\"limits\": {\"memory\": \"65m\"}}", "memory: 65m" },
        { "CAY_MEMORY=64m", "{\"limits\": {\"memory\": \"32m\"}}", NULL },
        { "CAY_MEMORY=64m", "{\"profile\": \"hardened\"}", "profile: hardened: memory: 256m" },
        { "CAY_PROFILE=restricted", "{\"profile\": \"default\"}", "profile: default: " },
        { "CAY_TIMEOUT=5", "{\"timeout\": 6}", "timeout: 6" },
        { "CAY_REQUIRE=seccomp", "{\"require\": [\"landlock\"]}", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const environment[] = { rows[i].variable, NULL };
        const struct config_sources sources = { .environment = environment };
        struct cay_request *req = cay_request_new();
        struct config config;
        struct cay_error err = { 0 };
        assert_int_equal(config_load(&sources, &config, &err), 0);
        assert_int_equal(cay_request_parse(req, rows[i].json, strlen(rows[i].json), &err), 0);
        int rc = floor_apply(&config, req, NULL, &err);
        if ((rc < 0) != (rows[i].refused != NULL) ||
            (rc < 0 && (err.kind != CAY_E_POLICY || !strstr(err.msg, rows[i].refused))))
            fail_msg("%s %s: %d %s", rows[i].variable, rows[i].json, rc, err.msg);
        if (strstr(rows[i].variable, "REQUIRE"))
            assert_true(field_has(&req->values[FIELD_REQUIRE], "seccomp") &&
                        field_has(&req->values[FIELD_REQUIRE], "landlock"));
        cay_request_free(req);
        config_done(&config);
    }
}

static void test_project_never_loosens(void **state)
{
    static const struct {
        const char *project;
        enum field_id id;
        const char *kept;
        enum origin origin;
    } rows[] = {
        { "timeout = 31\n", FIELD_TIMEOUT, "30", ORIGIN_BUILTIN },
        { "policy = 'off'\n", FIELD_POLICY, "warn", ORIGIN_BUILTIN },
        { "min_isolation = 'none'\n", FIELD_MIN_ISOLATION, "kernel", ORIGIN_BUILTIN },
        { "network = 'full'\n", FIELD_NETWORK, "none", ORIGIN_BUILTIN },
        { "network = ['a.example']\n", FIELD_NETWORK, "none", ORIGIN_BUILTIN },
        { "network = ['none', 'a.example']\n", FIELD_NETWORK, "none", ORIGIN_BUILTIN },
        { "[limits]\nmemory = '65m'\n", FIELD_MEMORY, "64m", ORIGIN_USER },
        { "[limits]\ncpus = 1.001\n", FIELD_CPUS, "1", ORIGIN_BUILTIN },
        { "[limits]\npids = 101\n", FIELD_PIDS, "100", ORIGIN_BUILTIN },
        { "[limits]\nswap = 1\n", FIELD_SWAP, "0", ORIGIN_BUILTIN },
        { "[limits]\ncpu_time = 6\n", FIELD_CPU_TIME, "5", ORIGIN_SYSTEM },
        { "[limits]\noutput_cap = '65m'\n", FIELD_OUTPUT_CAP, "64m", ORIGIN_BUILTIN },
    };
    const struct folder *folder = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config config;
        load_good(folder,
                  (struct texts){ .system = "[limits]\ncpu_time = 5\n",
                                  .user = "[limits]\nmemory = '64m'\n",
                                  .project = rows[i].project },
                  &config);
        const char *where = rows[i].origin == ORIGIN_USER     ? folder->user
                            : rows[i].origin == ORIGIN_SYSTEM ? folder->system
                                                              : NULL;
        check_setting(&config, rows[i].id, rows[i].kept, rows[i].origin, where);
        /* It is not done silently. */
        assert_true(config.warnings.is_set);
        assert_non_null(strstr(config.warnings.list[0], fields[rows[i].id].name));
        assert_non_null(strstr(config.warnings.list[0], folder->project));
        assert_null(config.warnings.list[1]);
        config_done(&config);
    }
}

/* Each row: which of the files holds the text, and what the message must say besides FILE:LINE. */
static void test_errors(void **state)
{
    enum { SYSTEM, USER, PROJECT };
    static const struct {
        int which;
        unsigned line;
        const char *text, *message, *hint;
    } rows[] = {
        { USER, 1, "x = \n", "", NULL },
        { SYSTEM, 2, "\nmemory = '64m'\n", "memory: belongs in [limits]", NULL },
        { USER, 1, "tiemout = 3\n", "tiemout", "timeout" },
        { USER, 1, "language = 'python'\n", "language", NULL },
        { USER, 1, "code = 'x'\n", "code", NULL },
        { USER, 2, "[limits]\nmemroy = '64m'\n", "memroy", "memory" },
        { USER, 2, "[limits]\npolicy = 'off'\n", "policy", NULL },
        { USER, 2, "[limits]\nmemory = '64x'\n", "memory: '64x'", NULL },
        { USER, 2, "[limits]\nmemory = -1\n", "memory: '-1'", NULL },
        { USER, 2, "[limits]\nmemory = 1979-05-27\n", "memory", NULL },
        { USER, 2, "[limits]\nmemory = inf\n", "memory", NULL },
        { USER, 2, "[limits]\nmemory = ['64m']\n", "memory", NULL },
        { USER, 2, "[limits]\nmemory = { a = 1 }\n", "memory", NULL },
        { USER, 1, "limits = 3\n", "limits: is not a table", NULL },
        { USER, 1, "network = [1]\n", "network", NULL },
        { USER, 1, "profile = \"a\\u0000b\"\n", "profile", NULL },
        { USER, 1, "timeout = 0\n", "timeout: '0'", NULL },
        { USER, 1, "timeout = nan\n", "timeout", NULL },
        { USER, 1, "backend = 'chroot'\n", "backend: 'chroot'", NULL },
        { USER, 2, "[max]\nnetwork = 'none'\n", "network", NULL },
        { USER, 2, "[max]\nmemory = 'lots'\n", "memory: 'lots'", NULL },
        { USER, 2, "[profiles]\nlight = 3\n", "light", NULL },
        { USER, 2, "[profiles.x]\nprofile = 'light'\n", "profile", NULL },
        { USER, 2, "[profiles.x]\nstore_code = 'never'\n", "store_code", NULL },
        { USER, 2, "[profiles.x]\nmemory = 1\n", "memory: '1'", NULL },
        { USER, 2, "[security]\nenable_sandbx = true\n", "enable_sandbx", NULL },
        { USER, 2, "[security]\nmax_execution_time = 0\n", "timeout", NULL },
        { PROJECT, 1, "backend = 'process'\n", "backend: not allowed in a project file",
          "it may hold limits" },
        { PROJECT, 1, "fallback = 'unsafe'\n", "fallback: not allowed", NULL },
        { PROJECT, 1, "require = []\n", "require: not allowed", NULL },
        { PROJECT, 1, "profile = 'light'\n", "profile: not allowed", NULL },
        { PROJECT, 1, "image = 'host'\n", "image: not allowed", NULL },
        { PROJECT, 1, "policy_bypass = true\n", "policy_bypass: not allowed", NULL },
        { PROJECT, 1, "store_code = 'never'\n", "store_code: not allowed", NULL },
        { PROJECT, 1, "compile_timeout = 1\n", "compile_timeout: not allowed", NULL },
        { PROJECT, 1, "docker_host = 'tcp://evil'\n", "docker_host: not allowed", NULL },
        { PROJECT, 1, "enable_sandbox = true\n", "enable_sandbox: not allowed", NULL },
        { PROJECT, 1, "[max]\ntimeout = 600\n", "max: not allowed", NULL },
        { PROJECT, 1, "[profiles.default]\nmemory = '1g'\n", "profiles: not allowed", NULL },
        { PROJECT, 1, "[security]\nenable_sandbox = false\n", "security: not allowed", NULL },
        { PROJECT, 1, "nonsense = 1\n", "nonsense", NULL },
        { PROJECT, 2, "[limits]\nbackend = 'native'\n", "backend", NULL },
    };
    const struct folder *folder = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct texts texts = {
            .system = rows[i].which == SYSTEM ? rows[i].text : NULL,
            .user = rows[i].which == USER ? rows[i].text : NULL,
            .project = rows[i].which == PROJECT ? rows[i].text : NULL,
        };
        const char *file = rows[i].which == SYSTEM ? folder->system
                           : rows[i].which == USER ? folder->user
                                                   : folder->project;
        struct config config = { 0 };
        struct cay_error err = { 0 };
        char prefix[128];

        if (load(folder, texts, &config, &err) >= 0)
            fail_msg("accepted: %s", rows[i].text);
        assert_int_equal(err.kind, CAY_E_USAGE);
        snprintf(prefix, sizeof prefix, "%s:%u: ", file, rows[i].line);
        if (strncmp(err.msg, prefix, strlen(prefix)) != 0 || !strstr(err.msg, rows[i].message))
            fail_msg("\"%s\" is not \"%s… %s\"", err.msg, prefix, rows[i].message);
        if (rows[i].hint && !strstr(err.hint, rows[i].hint))
            fail_msg("%s: the hint \"%s\" lacks \"%s\"", rows[i].text, err.hint, rows[i].hint);
        assert_null(config.arena.head);
    }
}

static void test_odd_files(void **state)
{
    const struct folder *folder = *state;
    struct config config;
    struct cay_error err = { 0 };
    struct config_sources sources = { .user_file = folder->user };

    /* Too large; the bound itself is not. */
    enum { MOST = 1 << 20 };
    auto_free char *text = mem_alloc(MOST + 1);
    memset(text, '\n', MOST + 1);
    write_text(folder->user, text, MOST + 1);
    assert_int_equal(config_load(&sources, &config, &err), -1);
    assert_int_equal(err.kind, CAY_E_LIMIT);
    write_text(folder->user, text, MOST);
    assert_int_equal(config_load(&sources, &config, &err), 0);
    config_done(&config);
    unlink(folder->user);

    /* A folder is no file; a FIFO without a writer must not hang. */
    sources.user_file = folder->top.path;
    assert_int_equal(config_load(&sources, &config, &err), -1);
    assert_int_equal(err.kind, CAY_E_SYSTEM);
    unlink(folder->project);
    assert_int_equal(mkfifo(folder->project, 0600), 0);
    sources = (struct config_sources){ .project_file = folder->project };
    assert_int_equal(config_load(&sources, &config, &err), 0);
    config_done(&config);

    /* A path through a file leads nowhere, which is: not there. */
    char through[128];
    write_text(folder->system, "", 0);
    snprintf(through, sizeof through, "%s/x", folder->system);
    sources = (struct config_sources){ .user_file = through };
    assert_int_equal(config_load(&sources, &config, &err), 0);
    config_done(&config);
}

/* Every name that the contract says must work. */
static void test_environment_names(void **state)
{
    static const struct {
        const char *variable;
        enum field_id id;
        const char *text;
    } rows[] = {
        { "SANDBOX_TYPE=local", FIELD_BACKEND, "native" },
        { "SANDBOX_TYPE=docker", FIELD_BACKEND, "docker" },
        { "SANDBOX_TYPE=vm", FIELD_BACKEND, "vm" },
        { "SANDBOX_TYPE=podman", FIELD_BACKEND, "docker" },
        { "SANDBOX_TYPE=podman", FIELD_DOCKER_HOST, "podman" },
        { "SANDBOX_TYPE=gvisor", FIELD_BACKEND, "docker" },
        { "SANDBOX_TYPE=gvisor", FIELD_RUNTIME, "runsc" },
        { "SANDBOX_TIMEOUT_SEC=33", FIELD_TIMEOUT, "33" },
        { "SANDBOX_TIMEOUT_SEC=0.5", FIELD_TIMEOUT, "0.5" },
        { "SANDBOX_MAX_OUTPUT_KB=12", FIELD_MAX_OUTPUT, "12k" },
        { "SANDBOX_BLOCK_DANGEROUS_IMPORTS=true", FIELD_POLICY, "block" },
        { "SANDBOX_BLOCK_DANGEROUS_IMPORTS=True", FIELD_POLICY, "block" },
        { "SANDBOX_BLOCK_DANGEROUS_IMPORTS=1", FIELD_POLICY, "block" },
        { "SANDBOX_STORE_CODE=never", FIELD_STORE_CODE, "never" },
        { "SANDBOX_STORE_CODE=on_error", FIELD_STORE_CODE, "on_error" },
        { "SANDBOX_STORE_CODE=always", FIELD_STORE_CODE, "always" },
        { "DOCKER_CPU_LIMIT=0.5", FIELD_CPUS, "0.5" },
        { "DOCKER_HOST=unix:///var/run/docker.sock", FIELD_DOCKER_HOST,
          "unix:///var/run/docker.sock" },
        { "SECURITY_ENABLE_SANDBOX=false", FIELD_ENABLE_SANDBOX, "false" },
        { "SECURITY_ENABLE_SANDBOX=true", FIELD_ENABLE_SANDBOX, "true" },
        { "SECURITY_DOCKER_IMAGE=x:latest", FIELD_DOCKER_IMAGE, "x:latest" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const environment[] = { rows[i].variable, NULL };
        char name[64];
        struct config config;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rows[i].variable, "="), rows[i].variable);
        load_good(*state, (struct texts){ .environment = environment }, &config);
        check_setting(&config, rows[i].id, rows[i].text, ORIGIN_ENVIRONMENT, name);
        config_done(&config);
    }
}

/* A word for a sandbox says more than one thing; what says only the one wins, wherever it stands.
 */
static void test_type_gives_way(void **state)
{
    const char *const lists[][3] = {
        { "SANDBOX_TYPE=podman", "DOCKER_HOST=unix:///x", NULL },
        { "DOCKER_HOST=unix:///x", "SANDBOX_TYPE=podman", NULL },
        { "CAY_DOCKER_HOST=unix:///x", "SANDBOX_TYPE=podman", NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct config config;
        load_good(*state, (struct texts){ .environment = lists[i] }, &config);
        check_setting(&config, FIELD_DOCKER_HOST, "unix:///x", ORIGIN_ENVIRONMENT,
                      i == 2 ? "CAY_DOCKER_HOST" : "DOCKER_HOST");
        check_setting(&config, FIELD_BACKEND, "docker", ORIGIN_ENVIRONMENT, "SANDBOX_TYPE");
        config_done(&config);
    }
}

static void test_environment_cap(void **state)
{
    const char *const environment[] = { "SECURITY_MAX_EXECUTION_TIME=600", NULL };
    struct config config;

    load_good(*state, (struct texts){ .environment = environment }, &config);
    assert_int_equal(config.caps[FIELD_TIMEOUT].value.num, INT64_C(600000000000));
    assert_int_equal(config.caps[FIELD_TIMEOUT].origin, ORIGIN_ENVIRONMENT);
    assert_string_equal(config.caps[FIELD_TIMEOUT].where, "SECURITY_MAX_EXECUTION_TIME");
    check_setting(&config, FIELD_TIMEOUT, "30", ORIGIN_BUILTIN, NULL);
    config_done(&config);
}

/* Each further setting as CAY_…: there is one for every field but the code's own language. */
static void test_environment_of_every_field(void **state)
{
    for (int i = 0; i < FIELD_N; i++) {
        struct config config;
        struct arena arena = { 0 };
        char name[64] = "CAY_";
        const char *text = fields[i].initial                 ? fields[i].initial
                           : fields[i].kind == FIELD_SECONDS ? "9"
                           : fields[i].kind == FIELD_BOOL    ? "true"
                                                             : "word";
        if (i == FIELD_LANGUAGE || fields[i].flags & FIELD_NO_CONFIG)
            continue;
        for (size_t c = 0; fields[i].name[c]; c++) {
            char letter = fields[i].name[c];
            name[4 + c] = (char)(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
        }
        const char *const environment[] = { arena_printf(&arena, "%s=%s", name, text), NULL };
        load_good(*state, (struct texts){ .environment = environment }, &config);
        check_setting(&config, (enum field_id)i, text, ORIGIN_ENVIRONMENT, name);
        config_done(&config);
        arena_done(&arena);
    }
}

/* What only a request can set: no file, profile or variable makes a folder writable. */
static void test_requests_own(void **state)
{
    static const char *const texts[] = { "workspace_rw = '/w'\n", "[limits]\ncpu_quota = 1000\n",
                                         "[max]\nmemory_swap = '1g'\n",
                                         "[profiles.x]\nworkspace_rw = '/w'\n" };
    const char *const environment[] = { "CAY_WORKSPACE_RW=/w", NULL };
    struct config config;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct cay_error err = { 0 };
        assert_int_equal(load(*state, (struct texts){ .user = texts[i] }, &config, &err), -1);
        if (!strstr(err.msg, "only a request can set it"))
            fail_msg("%s: %s", texts[i], err.msg);
    }
    load_good(*state, (struct texts){ .environment = environment }, &config);
    assert_false(config.settings[FIELD_WORKSPACE_RW].value.is_set);
    assert_string_equal(config.warnings.list[0],
                        "CAY_WORKSPACE_RW: ignored; only a request can set it");
    config_done(&config);
}

static void test_environment_of_others(void **state)
{
    /* Not ours, or empty, which is as good as not set. */
    const char *const environment[] = { "CAY=1",
                                        "CAY_=1",
                                        "CAY_TEST_X=1",
                                        "CAY_LANGUAGE=python",
                                        "cay_memory=1",
                                        "SANDBOX_TIMEOUT_SECS=x",
                                        "SANDBOX_TYP=x",
                                        "SANDBOX_TYPE=",
                                        "CAY_MEMORY=",
                                        "XCAY_MEMORY=1",
                                        "NOEQUALS",
                                        "=",
                                        "",
                                        NULL };
    struct config config;

    load_good(*state, (struct texts){ .environment = environment }, &config);
    for (int i = 0; i < FIELD_N; i++)
        check_setting(&config, (enum field_id)i, fields[i].initial, ORIGIN_BUILTIN, NULL);
    config_done(&config);
}

static void test_preload(void **state)
{
    const char *const environment[] = {
        "CAY_PRELOAD=numpy,xml.etree,python:json,ruby:json/add/core", NULL
    };
    static const char *const want[] = { "numpy", "xml.etree", "python:json", "ruby:json/add/core" };
    struct config config;

    load_good(*state, (struct texts){ .environment = environment }, &config);
    const char *const *list = config.settings[FIELD_PRELOAD].value.list;
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        assert_string_equal(list[i], want[i]);
    assert_null(list[ARRAY_LEN(want)]);
    config_done(&config);
}

static void test_environment_errors(void **state)
{
    static const struct {
        const char *variable, *given;
    } rows[] = {
        { "SANDBOX_TYPE=chroot", "'chroot'" },
        { "SANDBOX_TIMEOUT_SEC=0", "'0'" },
        { "SANDBOX_TIMEOUT_SEC=soon", "'soon'" },
        { "SANDBOX_MAX_OUTPUT_KB=many", "'many'" },
        { "SANDBOX_MAX_OUTPUT_KB=-1", "'-1'" },
        { "SANDBOX_MAX_OUTPUT_KB=20k", "'20k' is not a number of KiB; allowed is 0 to 1048576" },
        { "SANDBOX_MAX_OUTPUT_KB=1048577", "'1048577'" },
        { "SANDBOX_BLOCK_DANGEROUS_IMPORTS=perhaps", "'perhaps' is not true or false" },
        { "SANDBOX_STORE_CODE=sometimes", "'sometimes'" },
        { "DOCKER_CPU_LIMIT=0", "'0'" },
        { "DOCKER_CPU_LIMIT=many", "'many'" },
        { "DOCKER_CPU_LIMIT=nan", "'nan'" },
        { "DOCKER_CPU_LIMIT=-1", "'-1'" },
        { "SECURITY_ENABLE_SANDBOX=2", "'2'" },
        { "SECURITY_MAX_EXECUTION_TIME=0", "'0'" },
        { "SECURITY_MAX_EXECUTION_TIME=x", "'x'" },
        { "CAY_MEMORY=1", "'1'" },
        { "CAY_PIDS=1e3", "'1e3'" },
        { "CAY_STRICT=2", "'2'" },
        { "CAY_PRELOAD=numpy,pandas scipy", "'pandas scipy' is not the name of a module" },
        { "CAY_PRELOAD=ruby:", "'ruby:' is not the name of a module" },
        { "CAY_PRELOAD=numpy;os", "'numpy;os'" },
        { "CAY_PRELOAD=rubby:set", "'rubby:set': preloading is not supported for 'rubby'" },
        { "CAY_PRELOAD=php:x", "preloading is not supported for 'php'" },
        { "CAY_PRELOAD=:x", "':x'" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const environment[] = { rows[i].variable, NULL };
        struct config config = { 0 };
        struct cay_error err = { 0 };
        if (load(*state, (struct texts){ .environment = environment }, &config, &err) >= 0)
            fail_msg("accepted: %s", rows[i].variable);
        assert_int_equal(err.kind, CAY_E_USAGE);
        /* The message begins with the variable, for nobody knows our fields by heart. */
        size_t len = strcspn(rows[i].variable, "=");
        if (strncmp(err.msg, rows[i].variable, len) != 0 || !strstr(err.msg, rows[i].given))
            fail_msg("%s: \"%s\"", rows[i].variable, err.msg);
    }
}

static void test_misspelt_variables(void **state)
{
    const char *const environment[] = {
        "CAY_MEMROY=64m", "CAY_=1", "CAY_TEST_REQUIRE=native", "CAY_LIBRARY=x", "CAYMEMROY=1",
        "CAY_XYZZY=1",    NULL
    };
    struct config config;

    load_good(*state, (struct texts){ .environment = environment }, &config);
    assert_string_equal(config.warnings.list[0],
                        "unknown variable CAY_MEMROY; did you mean CAY_MEMORY?");
    assert_string_equal(config.warnings.list[1], "unknown variable CAY_XYZZY: no setting has that "
                                                 "name (`cay config` lists them)");
    assert_null(config.warnings.list[2]); /* the others are known, or anybody's */
    check_setting(&config, FIELD_MEMORY, "512m", ORIGIN_BUILTIN, NULL);
    config_done(&config);
}

/* More CPUs than there are is all of them; what is no number stays an error. */
static void test_cpu_limit_is_clamped(void **state)
{
    const char *const environment[] = { "DOCKER_CPU_LIMIT=1023.5", NULL };
    struct config config;
    char have[32];

    load_good(*state, (struct texts){ .environment = environment }, &config);
    snprintf(have, sizeof have, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    check_setting(&config, FIELD_CPUS, have, ORIGIN_ENVIRONMENT, "DOCKER_CPU_LIMIT");
    assert_non_null(strstr(config.warnings.list[0], "DOCKER_CPU_LIMIT 1023.5"));
    assert_null(config.warnings.list[1]);
    config_done(&config);

    static const char *const bad[] = { "DOCKER_CPU_LIMIT=inf", "DOCKER_CPU_LIMIT=1e3",
                                       "DOCKER_CPU_LIMIT=0x400", "DOCKER_CPU_LIMIT= 999" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *const variables[] = { bad[i], NULL };
        struct cay_error err = { 0 };
        if (load(*state, (struct texts){ .environment = variables }, &config, &err) >= 0)
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.kind, CAY_E_USAGE);
    }
}

static void test_usual_sources(void **state)
{
    struct arena arena = { 0 };
    struct config_sources sources;

    (void)state;
    setenv("XDG_CONFIG_HOME", "/x/config", 1);
    setenv("HOME", "/x/home", 1);
    config_usual_sources(&arena, &sources);
    assert_string_equal(sources.user_file, "/x/config/cay/cay.toml");
    assert_string_equal(sources.system_file, "/etc/cay/cay.toml");
    assert_string_equal(sources.project_file, ".cay.toml");
    assert_non_null(sources.environment);
    setenv("XDG_CONFIG_HOME", "relative", 1);
    config_usual_sources(&arena, &sources);
    assert_string_equal(sources.user_file, "/x/home/.config/cay/cay.toml");
    unsetenv("XDG_CONFIG_HOME");
    config_usual_sources(&arena, &sources);
    assert_string_equal(sources.user_file, "/x/home/.config/cay/cay.toml");
    unsetenv("HOME");
    config_usual_sources(&arena, &sources);
    assert_null(sources.user_file);
    arena_done(&arena);
}

static void test_json(void **state)
{
    const struct folder *folder = *state;
    const char *const environment[] = { "CAY_PIDS=5", "SECURITY_MAX_EXECUTION_TIME=60", NULL };
    struct config config;

    load_good(folder,
              (struct texts){ .user = "[limits]\nmemory = '1g'\n[max]\nmemory = '2g'\n",
                              .environment = environment },
              &config);
    auto_free char *text = config_json(&config);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    for (int i = 0; i < FIELD_N; i++)
        if (i != FIELD_LANGUAGE && !(fields[i].flags & FIELD_NO_CONFIG))
            assert_true(json_is_object(json_object_get(root, fields[i].name)));

    const char *value, *origin, *where;
    assert_int_equal(json_unpack(json_object_get(root, "memory"), "{s:s, s:s, s:s}", "value",
                                 &value, "origin", &origin, "where", &where),
                     0);
    assert_string_equal(value, "1g");
    assert_string_equal(origin, "user file");
    assert_string_equal(where, folder->user);
    assert_int_equal(json_unpack(json_object_get(root, "pids"), "{s:s, s:s, s:s}", "value", &value,
                                 "origin", &origin, "where", &where),
                     0);
    assert_string_equal(value, "5");
    assert_string_equal(origin, "environment");
    assert_string_equal(where, "CAY_PIDS");
    json_t *cap = json_object_get(json_object_get(root, "max"), "timeout");
    assert_string_equal(json_string_value(json_object_get(cap, "value")), "60");
    assert_string_equal(json_string_value(json_object_get(cap, "origin")), "environment");
    assert_true(json_is_null(json_object_get(json_object_get(root, "cpu_time"), "value")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "disk"), "origin")),
                        "built-in");
    json_decref(root);
    config_done(&config);
}

static void test_tenants(void **state)
{
    const struct folder *folder = *state;
    struct config config;

    load_good(folder,
              (struct texts){ .system = "[tenant.a]\nconcurrency = 4\nmemory = '1g'\n",
                              .user = "[tenant.a]\nconcurrency = 9\nmemory = '512m'\n"
                                      "[tenant.'b.c']\nruns_per_minute = 30\n"
                                      "cpu_seconds_per_day = 1.5\n"
                                      "webhook_secret = 'sixteen letters!'\n" },
              &config);
    const struct cay_tenant *a = &config.tenants->tenant, *b = &config.tenants->next->tenant;
    assert_null(config.tenants->next->next);
    assert_string_equal(a->name, "a");
    assert_int_equal(a->concurrency, 4); /* the system's word can't be raised */
    assert_int_equal(a->memory_bytes, 512 << 20);
    assert_int_equal(a->runs_per_minute, 0);
    assert_null(a->webhook_secret);
    assert_string_equal(b->name, "b.c");
    assert_int_equal(b->runs_per_minute, 30);
    assert_int_equal(b->cpu_ns_per_day, 1500000000);
    assert_string_equal(b->webhook_secret, "sixteen letters!");

    auto_free char *text = config_json(&config);
    assert_null(strstr(text, "sixteen"));
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_t *secret =
        json_object_get(json_object_get(json_object_get(root, "tenant"), "b.c"), "webhook_secret");
    assert_string_equal(json_string_value(json_object_get(secret, "value")), "(set)");
    json_decref(root);
    config_done(&config);
}

static int reload(const struct folder *folder, const char *system, const char *user,
                  struct config *config, struct cay_error *err)
{
    write_text(folder->system, system, system ? strlen(system) : 0);
    write_text(folder->user, user, user ? strlen(user) : 0);
    auto_close int system_fd = open(folder->system, O_RDONLY | O_CLOEXEC);
    auto_close int user_fd = open(folder->user, O_RDONLY | O_CLOEXEC);
    return config_reload_tenants(config, system_fd, user_fd, err);
}

/* Quotas are read again, and nothing else is; what can't be read leaves the old ones. */
static void test_tenants_again(void **state)
{
    const struct folder *folder = *state;
    struct config config;
    struct cay_error err;

    load_good(folder, (struct texts){ .system = "[tenant.a]\nconcurrency = 4\n[tenant.b]\n" },
              &config);
    assert_int_equal(reload(folder,
                            "timeout = 5\n[tenant.a]\nconcurrency = 6\n[tenant.c]\n"
                            "runs_per_minute = 9\n",
                            "[tenant.a]\nconcurrency = 5\nwebhook_secret = 'sixteen letters!'\n",
                            &config, &err),
                     0);
    const struct tenant_table *a = config.tenants;
    assert_string_equal(a->tenant.name, "a");
    assert_int_equal(a->tenant.concurrency, 5);
    assert_string_equal(a->tenant.webhook_secret, "sixteen letters!");
    assert_string_equal(a->next->tenant.name, "c");
    assert_null(a->next->next);
    assert_int_equal(config.settings[FIELD_TIMEOUT].value.num, UINT64_C(30000000000));
    assert_int_equal(reload(folder, "[tenant.a]\nconcurency = 6\n", NULL, &config, &err), -1);
    assert_non_null(strstr(err.msg, "concurency"));
    assert_int_equal(reload(folder, "[tenant.a\n", NULL, &config, &err), -1);
    assert_int_equal(config.tenants->tenant.concurrency, 5);
    assert_int_equal(reload(folder, NULL, NULL, &config, &err), 0);
    assert_null(config.tenants);
    config_done(&config);
}

static void test_tenant_errors(void **state)
{
    static const struct {
        const char *user, *project, *part, *hint;
    } rows[] = {
        { "[tenant.a]\nconcurency = 1\n", NULL, "user.toml:2: concurency", "concurrency" },
        { "[tenant.a]\nconcurrency = 0\n", NULL, "'0' is not allowed; allowed is 1 to", "" },
        { "[tenant.a]\nmemory = 'much'\n", NULL, "memory: 'much'", "" },
        { "[tenant.a]\nmemory = ['1g']\n", NULL, "memory", "" },
        { "[tenant.'a b']\n", NULL, "letters, digits", "" },
        { "[tenant]\na = 1\n", NULL, "tenant.a: is not a table", "[tenant.NAME]" },
        { "[tenant.a]\nwebhook_secret = 'too short'\n", NULL, "16 to 512", "" },
        { NULL, "[tenant.a]\nconcurrency = 1\n", "not allowed in a project file", "" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config config;
        struct cay_error err = { 0 };
        if (load(*state, (struct texts){ .user = rows[i].user, .project = rows[i].project },
                 &config, &err) >= 0)
            fail_msg("accepted: %s", rows[i].part);
        if (!strstr(err.msg, rows[i].part) || !strstr(err.hint, rows[i].hint))
            fail_msg("%s: \"%s\" \"%s\"", rows[i].part, err.msg, err.hint);
        assert_null(strstr(err.msg, "too short"));
    }
}

static void test_prices(void **state)
{
    struct config config;

    load_good(*state,
              (struct texts){ .system = "[prices]\ncpu_second = 0.00001\ncurrency = '€'\n",
                              .user = "[prices]\ncpu_second = 9\nrun = 2\ncurrency = 'USD'\n" },
              &config);
    assert_true(config.prices.is_set);
    assert_true(config.prices.cpu_second == 0.00001); /* the system's word stays */
    assert_string_equal(config.prices.currency, "€");
    assert_true(config.prices.run == 2 && config.prices.memory_gb_second == 0);
    config_done(&config);
    load_good(*state, (struct texts){ .user = "[prices]\ncurrency = 'EUR'\n" }, &config);
    assert_false(config.prices.is_set); /* a currency alone is no price */
    config_done(&config);
}

static void test_price_errors(void **state)
{
    static const struct {
        const char *user, *project, *part, *hint;
    } rows[] = {
        { "[prices]\ncpu_secnd = 1\n", NULL, "user.toml:2: cpu_secnd", "cpu_second" },
        { "[prices]\nrun = -1\n", NULL, "run: is not a number from 0 to 1000000", "" },
        { "[prices]\nrun = 1000001\n", NULL, "run: is not a number", "" },
        { "[prices]\nrun = inf\n", NULL, "run: is not a number", "" },
        { "[prices]\nrun = nan\n", NULL, "run: is not a number", "" },
        { "[prices]\nrun = '1'\n", NULL, "run: is not a number", "" },
        { "[prices]\ncurrency = 1\n", NULL, "currency: is not a word", "" },
        { "[prices]\ncurrency = ''\n", NULL, "currency: is not a word", "" },
        { "[prices]\ncurrency = 'E\tR'\n", NULL, "currency: is not a word", "" },
        { "[prices]\ncurrency = 'a long currency'\n", NULL, "currency: is not a word", "" },
        { "prices = 1\n", NULL, "prices: is not a table", "" },
        { NULL, "[prices]\nrun = 1\n", "not allowed in a project file", "" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config config;
        struct cay_error err = { 0 };
        if (load(*state, (struct texts){ .user = rows[i].user, .project = rows[i].project },
                 &config, &err) >= 0)
            fail_msg("accepted: %s", rows[i].part);
        if (!strstr(err.msg, rows[i].part) || !strstr(err.hint, rows[i].hint))
            fail_msg("%s: \"%s\" \"%s\"", rows[i].part, err.msg, err.hint);
    }
}

/* A secret is refused where others could read it along. */
static void test_tenant_secret_in_open_file(void **state)
{
    static const char text[] = "[tenant.a]\nwebhook_secret = 'sixteen letters!'\n";
    const struct folder *folder = *state;
    const struct config_sources sources = { .system_file = folder->system };
    struct config config;
    struct cay_error err = { 0 };

    write_text(folder->system, text, strlen(text));
    assert_int_equal(chmod(folder->system, 0644), 0);
    assert_true(config_load(&sources, &config, &err) < 0);
    assert_int_equal(err.kind, CAY_E_POLICY);
    assert_non_null(strstr(err.msg, "others can read"));
    assert_non_null(strstr(err.hint, "600"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_builtin_profiles),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_everything_in_a_file),
        cmocka_unit_test(test_origin_of_the_old_cap),
        cmocka_unit_test(test_cap_lowers_builtin),
        cmocka_unit_test(test_project_tightens),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_project_never_loosens),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_environment_names),
        cmocka_unit_test(test_type_gives_way),
        cmocka_unit_test(test_environment_cap),
        cmocka_unit_test(test_environment_of_every_field),
        cmocka_unit_test(test_requests_own),
        cmocka_unit_test(test_environment_of_others),
        cmocka_unit_test(test_preload),
        cmocka_unit_test(test_environment_errors),
        cmocka_unit_test(test_cpu_limit_is_clamped),
        cmocka_unit_test(test_misspelt_variables),
        cmocka_unit_test(test_usual_sources),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_tenants),
        cmocka_unit_test(test_tenants_again),
        cmocka_unit_test(test_tenant_errors),
        cmocka_unit_test(test_prices),
        cmocka_unit_test(test_price_errors),
        cmocka_unit_test(test_tenant_secret_in_open_file),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
