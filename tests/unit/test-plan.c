/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan is a pure function of request, configuration, languages, backends and host: all of them
 * are made up here. The two tables below take the place of the built-in ones, whose objects the
 * linker then leaves in the archive.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/config.h"
#include "core/embedded.h"
#include "core/language.h"
#include "core/layer.h"
#include "core/plan.h"

#define LANGUAGE(text) .data = (text), .len = sizeof(text) - 1

const struct embedded_file language_files[] = {
    { "bash/language.toml",
      LANGUAGE("name='bash'\ntitle='Bash'\nextensions=['.sh']\nsource='main.sh'\n"
               "run=['bash','{source}']\nversion=['bash','--version']\npackages=['bash']\n") },
    { "c/language.toml", LANGUAGE("name='c'\ntitle='C'\nextensions=['.c']\nsource='main.c'\n"
                                  "compile=['gcc','-o','{binary}','{source}']\nrun=['{binary}']\n"
                                  "version=['gcc','-v']\npackages=['gcc','libc6-dev']\n") },
    { "go/language.toml",
      LANGUAGE(
          "name='go'\ntitle='Go'\nextensions=['.go']\nsource='main.go'\n"
          "programs=['go']\ncompile=['env','go','build','{siblings}']\nrun=['{binary}']\n"
          "project='go.mod'\nbuild=['env','go','build','.']\nmemory='100m'\n"
          "version=['go','version']\npackages=['golang']\nenv=['GOMEMLIMIT={soft_mb}MiB']\n") },
    { "java/driver.java", LANGUAGE("class Driver { }\n") },
    { "java/language.toml",
      LANGUAGE("name='java'\ntitle='Java'\nextensions=['.java']\nsource='main.java'\n"
               "programs=['java','javac']\ncompile=['java','-Xmx{heap_mb}m','{driver}',"
               "'{binary}','{sources}']\nrun=['java','-Xmx{heap_mb}m','@{binary}']\n"
               "version=['java','-version']\npackages=['openjdk']\n") },
    { "perl/language.toml",
      LANGUAGE("name='perl'\ntitle='Perl'\nextensions=['.pl']\nsource='main.pl'\n"
               "run=['perl','{source}']\nversion=['perl','-v']\npackages=['perl']\n") },
    { "python/driver.py", LANGUAGE("print('no description')\n") },
    { "python/language.toml",
      LANGUAGE("name='python'\ntitle='Python'\naliases=['py']\nextensions=['.py']\n"
               "interpreters=['python3']\nsource='main.py'\nrun=['python3','-u','{source}']\n"
               "version=['python3','-V']\npackages=['python3']\netc=['python3','ssl/certs']\n"
               "env=['PYTHONUNBUFFERED=1','HOME=/somewhere']\n") },
    { "two/language.toml",
      LANGUAGE("name='two'\ntitle='Two'\nextensions=['.two']\nsource='main.two'\n"
               "programs=['one','other']\nrun=['sh','--heap={heap_mb}','--all={memory_mb}',"
               "'--young={young_mb}','-{rows}','{source}']\n"
               "version=['one','-v']\npackages=['one-bin','other-bin']\n") },
    { NULL },
};

static const struct backend_kind fake_native = {
    .name = "native",
    .tier = TIER_KERNEL,
    .abilities = BACKEND_FOLDERS | BACKEND_TERMINAL | BACKEND_SHELL | BACKEND_STORED_IMAGES,
    .layers = LAYER_REQUIRE_DEFAULT,
};
static const struct backend_kind fake_vm = {
    .name = "vm",
    .tier = TIER_VM,
    .abilities = BACKEND_FOLDERS | BACKEND_IMAGES | BACKEND_RUNTIMES,
    .layers = LAYER_REQUIRE_DEFAULT & ~LAYER_BIT(USER_NS),
};
static const struct backend_kind fake_process = { .name = "process", .tier = TIER_NONE };

const struct backend_kind *const backend_kinds[] = { &fake_process, &fake_native, &fake_vm, NULL };

/* A host with these programs. */
static const char *find_usual(struct arena *arena, const char *name)
{
    static const char *const have[] = { "python3", "python3.11", "gcc",  "gcc-12",
                                        "go",      "pythonbug",  "bash", "bash-5",
                                        "java",    "javac",      NULL };

    for (const char *const *word = have; *word; word++)
        if (strcmp(*word, name) == 0)
            return arena_printf(arena, "/usr/bin/%s", name);
    return NULL;
}

static const char *find_nothing(struct arena *arena, const char *name)
{
    (void)arena;
    (void)name;
    return NULL;
}

static const char *find_only_old_python(struct arena *arena, const char *name)
{
    return strcmp(name, "python3.9") == 0 ? arena_str(arena, "/usr/bin/python3.9") : NULL;
}

/* A project with a virtualenv in /home/u/project, which /home/u/link leads to, and data. */
static const char *path_usual(struct arena *arena, const char *path)
{
    static const char *const there[] = { "/home/u/project",
                                         "/home/u/project/src/a.py",
                                         "/home/u/project/.venv/pyvenv.cfg",
                                         "/home/u/project/node_modules",
                                         "/srv/data",
                                         "/usr",
                                         "/" };

    if (strcmp(path, "/home/u/link") == 0)
        return arena_str(arena, "/home/u/project");
    for (size_t i = 0; i < ARRAY_LEN(there); i++)
        if (strcmp(path, there[i]) == 0)
            return arena_str(arena, path);
    return NULL;
}

static const char *find_anything(struct arena *arena, const char *name)
{
    /* But no program that has a version in its name. */
    return name[strcspn(name, "0123456789")] ? NULL : arena_printf(arena, "/usr/bin/%s", name);
}

static const char *find_all_but_one(struct arena *arena, const char *name)
{
    return strcmp(name, "other") == 0 ? NULL : find_anything(arena, name);
}

static const char *version_5_36_0(struct arena *arena, const struct language *language,
                                  const char *program)
{
    (void)arena;
    (void)language;
    return strcmp(program, "/usr/bin/perl") == 0 ? "5.36.0" : NULL;
}

static const struct plan_host usual_host = { find_usual, NULL, path_usual };
static const struct plan_host full_host = { find_anything, version_5_36_0 };

/* ---- what a test is made of ---- */

struct making {
    bool requires_all;
    const char *json;
    const char *const *environment;
    const char *user_toml, *project_toml;
    const char *file_name;
    const struct plan_host *host;
};

static const char *put_file(char *path, const char *text)
{
    if (!text)
        return NULL;
    auto_close int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    return path;
}

/* What most rows are about is what comes behind it. */
static const char *const no_sandbox[] = { "SECURITY_ENABLE_SANDBOX=false", NULL };
static const char *const nothing_set[] = { NULL };

static void load_config(const struct making *making, struct config *ret)
{
    char user[] = "/tmp/cay-test-plan-XXXXXX", project[] = "/tmp/cay-test-plan-XXXXXX";
    struct config_sources sources = {
        .environment = making->environment ? making->environment : no_sandbox,
    };
    struct cay_error err = { 0 };

    sources.user_file = put_file(user, making->user_toml);
    sources.project_file = put_file(project, making->project_toml);
    int rc = config_load(&sources, ret, &err);
    if (making->user_toml)
        unlink(user);
    if (making->project_toml)
        unlink(project);
    if (rc < 0)
        fail_msg("%s", err.msg);
}

/* Everything that a plan stands on, freed together. */
struct made {
    struct cay_request *req;
    struct config config;
    struct plan plan;
};

static struct made made(struct making making)
{
    struct made made = { .req = cay_request_new() };
    struct cay_error err = { 0 };

    if (cay_request_parse(made.req, making.json, strlen(making.json), &err) < 0)
        fail_msg("%s: %s", making.json, err.msg);
    if (making.file_name)
        assert_int_equal(cay_request_set(made.req, "file_name", making.file_name, &err), 0);
    load_config(&making, &made.config);
    made.config.requires_all = making.requires_all;
    if (plan_make(made.req, &made.config, making.host ? making.host : &usual_host, &made.plan,
                  &err) < 0)
        fail_msg("%s: %s", making.json, err.msg);
    assert_int_equal(err.kind, CAY_E_OK);
    return made;
}

static void unmake(struct made *made)
{
    plan_done(&made->plan);
    config_done(&made->config);
    cay_request_free(made->req);
}

static void check_refused(struct making making, enum cay_errkind kind, const char *message,
                          const char *hint)
{
    struct cay_request *req = cay_request_new();
    struct config config;
    struct plan plan;
    struct cay_error err = { 0 };

    if (cay_request_parse(req, making.json, strlen(making.json), &err) < 0)
        fail_msg("%s: %s", making.json, err.msg);
    if (making.file_name)
        assert_int_equal(cay_request_set(req, "file_name", making.file_name, &err), 0);
    load_config(&making, &config);
    if (plan_make(req, &config, making.host ? making.host : &usual_host, &plan, &err) >= 0)
        fail_msg("accepted: %s", making.json);
    config_done(&config);
    cay_request_free(req);
    if (err.kind != kind)
        fail_msg("%s: kind %d (%s)", making.json, err.kind, err.msg);
    if (!strstr(err.msg, message))
        fail_msg("%s: \"%s\" lacks \"%s\"", making.json, err.msg, message);
    if (hint && !strstr(err.hint, hint))
        fail_msg("%s: the hint \"%s\" lacks \"%s\"", making.json, err.hint, hint);
}

static void check_words(const char *const *list, const char *const *want)
{
    size_t n = 0;

    for (; want[n]; n++) {
        assert_non_null(list[n]);
        assert_string_equal(list[n], want[n]);
    }
    assert_null(list[n]);
}

#define PYTHON "\"language\": \"python\", \"code\": \"print(1)\""

/* ---- tests ---- */

static void test_defaults(void **state)
{
    struct made m = made((struct making){ .json = "{" PYTHON "}" });
    const struct cay_limits *limits = &plan_first(&m.plan)->spec.limits;

    (void)state;
    assert_string_equal(m.plan.backend->name, "native");
    assert_string_equal(m.plan.language->name, "python");
    assert_string_equal(m.plan.program, "/usr/bin/python3");
    assert_string_equal(m.plan.profile, "default");
    assert_null(m.plan.version);
    assert_int_equal(m.plan.has_compile, false);
    assert_int_equal(m.plan.sandbox.language, 5);
    assert_int_equal(m.plan.sandbox.require, LAYER_REQUIRE_DEFAULT);
    assert_int_equal(limits->timeout_ns, INT64_C(30000000000));
    assert_int_equal(limits->cpu_time_ns, 0);
    assert_int_equal(limits->memory_bytes, 512 << 20);
    assert_int_equal(limits->swap_bytes, 0);
    assert_int_equal(limits->cpus_milli, 1000);
    assert_int_equal(limits->pids, 100);
    assert_int_equal(limits->disk_bytes, 128 << 20);
    assert_int_equal(limits->inodes, 20000);
    assert_int_equal(limits->open_files, 1024);
    assert_int_equal(limits->max_output_bytes, 20480);
    assert_int_equal(limits->output_cap_bytes, 64 << 20);
    check_words(plan_first(&m.plan)->argv,
                (const char *const[]){ "python3", "-u", "main.py", NULL });
    assert_null(m.plan.compile.argv);
    assert_int_equal(m.plan.n_files, 1);
    assert_string_equal(m.plan.files[0].name, "main.py");
    assert_int_equal(m.plan.files[0].len, 8);
    assert_memory_equal(m.plan.files[0].data, "print(1)", 8);
    assert_false(m.plan.warnings.is_set);
    for (int i = 0; i < 3; i++)
        assert_int_equal(m.plan.run.spec.std_fds[i], -1);
    assert_int_equal(m.plan.run.spec.payload_fd, -1);
    unmake(&m);
}

static void test_limits_of_the_request(void **state)
{
    struct made m = made((struct making){
        .json = "{" PYTHON ", \"timeout\": 1.5, \"limits\": {\"memory\": \"64m\", \"swap\": \"1m\","
                " \"cpus\": 0.25, \"cpu_time\": 2, \"pids\": 7, \"disk\": \"1m\", \"inodes\": 80,"
                " \"open_files\": 9, \"max_output\": 0, \"output_cap\": \"2k\"}}" });
    const struct cay_limits *limits = &plan_first(&m.plan)->spec.limits;

    (void)state;
    assert_int_equal(limits->timeout_ns, 1500000000);
    assert_int_equal(limits->cpu_time_ns, 2000000000);
    assert_int_equal(limits->memory_bytes, 64 << 20);
    assert_int_equal(limits->swap_bytes, 1 << 20);
    assert_int_equal(limits->cpus_milli, 250);
    assert_int_equal(limits->pids, 7);
    assert_int_equal(limits->disk_bytes, 1 << 20);
    assert_int_equal(limits->inodes, 80);
    assert_int_equal(limits->open_files, 9);
    assert_int_equal(limits->max_output_bytes, 0);
    assert_int_equal(limits->output_cap_bytes, 2048);
    unmake(&m);
}

/* What is said to be in force is no more than this host can give; an engine has its own. */
static void test_limits_of_the_host(void **state)
{
    struct plan_host host = usual_host;
    struct making asked = { .json =
                                "{" PYTHON ", \"limits\": {\"cpus\": 2.5, \"open_files\": 5000}}",
                            .host = &host };

    (void)state;
    host.max_cpus_milli = 2500;
    host.max_open_files = 5000;
    struct made m = made(asked);
    assert_false(m.plan.warnings.is_set);
    unmake(&m);

    host.max_cpus_milli = 2000;
    host.max_open_files = 4096;
    m = made(asked);
    assert_int_equal(plan_first(&m.plan)->spec.limits.cpus_milli, 2000);
    assert_int_equal(plan_first(&m.plan)->spec.limits.open_files, 4096);
    check_words(m.plan.warnings.list,
                (const char *const[]){ "cpus 2.5 exceeds this host's 2; using 2",
                                       "open_files 5000 exceeds this host's 4096; using 4096",
                                       NULL });
    unmake(&m);
}

/* What a run would have had that something else than a limit stands in the way of. */
static void test_limits_of_the_refused(void **state)
{
    static const struct {
        const char *json;
        uint64_t memory_bytes;
        int64_t timeout_ns;
    } rows[] = {
        { "{" PYTHON ", \"limits\": {\"memory\": \"64m\"}}", 64 << 20, INT64_C(30000000000) },
        { "{" PYTHON ", \"backend\": \"vm\", \"profile\": \"light\"}", 128 << 20,
          INT64_C(5000000000) },
        { "{\"language\": \"go\", \"code\": \"\", \"min_isolation\": \"vm\"}", 100 << 20,
          INT64_C(30000000000) },
        { "{\"language\": \"klingon\", \"code\": \"\", \"timeout\": 2}", 512 << 20,
          INT64_C(2000000000) },
        { "{\"command\": [\"true\"], \"session\": \"s\"}", 512 << 20, INT64_C(30000000000) },
    };
    struct cay_error err = { 0 };
    struct config config;

    (void)state;
    load_config(&(struct making){ 0 }, &config);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cay_request *req = cay_request_new();
        struct cay_limits limits;
        assert_int_equal(cay_request_parse(req, rows[i].json, strlen(rows[i].json), &err), 0);
        assert_int_equal(plan_limits(req, &config, &usual_host, &limits, &err), 0);
        assert_int_equal(limits.memory_bytes, rows[i].memory_bytes);
        assert_int_equal(limits.timeout_ns, rows[i].timeout_ns);
        cay_request_free(req);
    }
    assert_int_equal(err.kind, CAY_E_OK);
    struct cay_request *none = cay_request_new();
    struct cay_limits limits = { .pids = 7 };
    assert_int_equal(cay_request_set(none, "timeout", "301", &err), 0);
    assert_int_equal(plan_limits(none, &config, &usual_host, &limits, &err), -1);
    assert_int_equal(limits.pids, 7);
    cay_request_free(none);
    config_done(&config);
}

/* Explicit field, named profile, environment, file, built-in. */
static void test_precedence(void **state)
{
    const char *const environment[] = { "CAY_MEMORY=70m", "CAY_PIDS=71", "CAY_INODES=72", NULL };
    static const char toml[] = "[limits]\nmemory='80m'\npids=81\ninodes=82\nopen_files=83\n"
                               "[profiles.mine]\nmemory='90m'\npids=91\ntimeout=9\n";
    struct made m = made((struct making){
        .json = "{" PYTHON ", \"profile\": \"mine\", \"limits\": {\"memory\": \"60m\"}}",
        .environment = environment,
        .user_toml = toml });
    const struct cay_limits *limits = &plan_first(&m.plan)->spec.limits;

    (void)state;
    assert_int_equal(limits->memory_bytes, 60 << 20);
    assert_int_equal(limits->pids, 91);
    assert_int_equal(limits->timeout_ns, INT64_C(9000000000));
    assert_int_equal(limits->inodes, 72);
    assert_int_equal(limits->open_files, 83);
    assert_int_equal(limits->cpus_milli, 1000);
    assert_string_equal(m.plan.profile, "mine");
    unmake(&m);

    /* The profile itself may come from the environment. */
    const char *const light[] = { "CAY_PROFILE=light", "CAY_MEMORY=1g", NULL };
    m = made((struct making){ .json = "{" PYTHON "}", .environment = light });
    assert_int_equal(plan_first(&m.plan)->spec.limits.memory_bytes, 128 << 20);
    assert_int_equal(plan_first(&m.plan)->spec.limits.timeout_ns, INT64_C(5000000000));
    assert_int_equal(plan_first(&m.plan)->spec.limits.cpus_milli, 500);
    assert_int_equal(plan_first(&m.plan)->spec.limits.pids, 25);
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"profile\": \"hardened\"}" });
    assert_int_equal(plan_first(&m.plan)->spec.limits.memory_bytes, 256 << 20);
    assert_int_equal(plan_first(&m.plan)->spec.limits.timeout_ns, INT64_C(10000000000));
    unmake(&m);
}

static void test_disk_is_at_most_half_of_memory(void **state)
{
    struct made m = made((struct making){
        .json = "{" PYTHON ", \"limits\": {\"memory\": \"64m\", \"disk\": \"1g\"}}" });

    (void)state;
    assert_int_equal(plan_first(&m.plan)->spec.limits.disk_bytes, 32 << 20);
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON
                                      ", \"limits\": {\"memory\": \"64m\", \"disk\": \"32m\"}}" });
    assert_int_equal(plan_first(&m.plan)->spec.limits.disk_bytes, 32 << 20);
    unmake(&m);
}

static void test_caps(void **state)
{
    const char *const sixty[] = { "SECURITY_MAX_EXECUTION_TIME=60", NULL };
    const char *const more[] = { "SECURITY_MAX_EXECUTION_TIME=600", NULL };
    const char *const past[] = { "SANDBOX_TIMEOUT_SEC=301", NULL };
    static const char toml[] = "[max]\nmemory='1g'\npids=200\n[profiles.big]\nmemory='2g'\n";

    (void)state;
    check_refused((struct making){ .json = "{" PYTHON ", \"timeout\": 300.001}" }, CAY_E_USAGE,
                  "timeout: 300.001 exceeds the configured maximum of 300",
                  "SECURITY_MAX_EXECUTION_TIME");
    check_refused((struct making){ .json = "{" PYTHON ", \"timeout\": 61}", .environment = sixty },
                  CAY_E_USAGE, "the configured maximum of 60", NULL);
    check_refused((struct making){ .json = "{" PYTHON "}", .environment = past }, CAY_E_USAGE,
                  "timeout: 301", NULL);
    check_refused((struct making){ .json = "{" PYTHON ", \"limits\": {\"memory\": \"1025m\"}}",
                                   .user_toml = toml },
                  CAY_E_USAGE, "memory: 1025m exceeds", "[max]");
    check_refused(
        (struct making){ .json = "{" PYTHON ", \"limits\": {\"pids\": 201}}", .user_toml = toml },
        CAY_E_USAGE, "pids: 201 exceeds", NULL);
    check_refused(
        (struct making){ .json = "{" PYTHON ", \"profile\": \"big\"}", .user_toml = toml },
        CAY_E_USAGE, "memory: 2g exceeds", NULL);

    struct made m =
        made((struct making){ .json = "{" PYTHON ", \"timeout\": 600}", .environment = more });
    assert_int_equal(plan_first(&m.plan)->spec.limits.timeout_ns, INT64_C(600000000000));
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"timeout\": 300,"
                                      " \"limits\": {\"memory\": \"1g\", \"pids\": 200}}",
                              .user_toml = toml });
    assert_int_equal(plan_first(&m.plan)->spec.limits.memory_bytes, 1 << 30);
    unmake(&m);
}

/* A cap holds too where nothing was asked for and the built-in value is: no limit. */
static void test_cap_of_what_has_no_limit(void **state)
{
    struct made m =
        made((struct making){ .json = "{" PYTHON "}", .user_toml = "[max]\ncpu_time=10\n" });

    (void)state;
    assert_true(plan_first(&m.plan)->spec.limits.cpu_time_ns > 0);
    assert_true(plan_first(&m.plan)->spec.limits.cpu_time_ns <= INT64_C(10000000000));
    unmake(&m);
}

static void test_compiled(void **state)
{
    struct made m = made((struct making){
        .json = "{\"language\": \"c\", \"code\": \"int main;\", \"args\": [\"-x\", \"{source}\"],"
                " \"timeout\": 2, \"limits\": {\"memory\": \"64m\", \"pids\": 3, \"cpus\": 0.1,"
                " \"cpu_time\": 1}}" });
    const struct cay_limits *compile = &plan_first(&m.plan)->spec.limits,
                            *run = &m.plan.run.spec.limits;

    (void)state;
    assert_int_equal(m.plan.has_compile, true);
    /* What was compiled is what runs. */
    const char *binary = plan_first(&m.plan)->argv[2];
    check_words(plan_first(&m.plan)->argv,
                (const char *const[]){ "gcc", "-o", binary, "main.c", NULL });
    assert_null(strchr(binary, '{'));
    /* Arguments are the program's alone, and never expanded. */
    check_words(m.plan.run.argv, (const char *const[]){ binary, "-x", "{source}", NULL });
    assert_int_equal(run->timeout_ns, INT64_C(2000000000));
    assert_int_equal(run->memory_bytes, 64 << 20);
    assert_int_equal(run->pids, 3);
    assert_int_equal(run->cpu_time_ns, 1000000000);
    /* Compiling has its own: 60 s, 1g. */
    assert_int_equal(compile->timeout_ns, INT64_C(60000000000));
    assert_int_equal(compile->memory_bytes, 1 << 30);
    assert_int_equal(compile->cpu_time_ns, 0);
    assert_true(compile->pids >= 64);
    assert_int_equal(compile->cpus_milli, 1000);
    unmake(&m);

    m = made((struct making){ .json = "{\"language\": \"c\", \"code\": \"\"}",
                              .user_toml = "compile_timeout=7\ncompile_memory='256m'\n" });
    assert_int_equal(plan_first(&m.plan)->spec.limits.timeout_ns, INT64_C(7000000000));
    /* Never less than the run itself gets. */
    assert_int_equal(plan_first(&m.plan)->spec.limits.memory_bytes, 512 << 20);
    unmake(&m);
}

/* The code and the files that are in its language too; no name can pass for an option. */
static void test_sources(void **state)
{
    static const char files[] =
        "\"files\": {\"-o.java\": \"\", \"@x.java\": \"\", \"a/B.java\": \"\","
        " \"data.txt\": \"\", \"C.java\": \"\"}";
    auto_free char *json = NULL;

    (void)state;
    assert_true(asprintf(&json, "{\"language\": \"java\", \"code\": \"\", %s}", files) > 0);
    struct made m = made((struct making){ .json = json });
    /* The compiler's share is of its own memory (1g), the program's of the run's (512m). */
    check_words(plan_first(&m.plan)->argv,
                (const char *const[]){ "java", "-Xmx732m", "./.cay/driver.java", "./main",
                                       "main.java", "./-o.java", "./@x.java", "a/B.java", "C.java",
                                       NULL });
    check_words(m.plan.run.argv, (const char *const[]){ "java", "-Xmx348m", "@./main", NULL });
    assert_int_equal(m.plan.n_files, 7);
    assert_string_equal(m.plan.files[5].name, "main.java");
    assert_string_equal(m.plan.files[6].name, ".cay/driver.java");
    assert_string_equal(m.plan.files[6].data, "class Driver { }\n");
    unmake(&m);

    /* Nobody else's driver is taken for it. */
    check_refused((struct making){ .json = "{\"language\": \"java\", \"code\": \"\","
                                           " \"files\": {\".cay/driver.java\": \"\"}}" },
                  CAY_E_USAGE, "conflicts with", NULL);
}

/* A project has a way of its own to be compiled, wherever its other files are. */
static void test_project(void **state)
{
    struct made m = made((struct making){
        .json = "{\"language\": \"go\", \"code\": \"\","
                " \"files\": {\"a.go\": \"\", \"lib/b.go\": \"\", \"lib/go.mod\": \"\"}}" });

    (void)state;
    check_words(plan_first(&m.plan)->argv,
                (const char *const[]){ "env", "go", "build", "main.go", "a.go", NULL });
    assert_string_equal(m.plan.program, "/usr/bin/go");
    unmake(&m);
    m = made((struct making){ .json = "{\"language\": \"go\", \"code\": \"\","
                                      " \"files\": {\"go.mod\": \"\", \"lib/b.go\": \"\"}}" });
    check_words(plan_first(&m.plan)->argv,
                (const char *const[]){ "env", "go", "build", ".", NULL });
    unmake(&m);
}

static const char *variable(const struct made *m, const char *name)
{
    size_t len = strlen(name);

    for (const char *const *word = m->plan.env; *word; word++)
        if (strncmp(*word, name, len) == 0 && (*word)[len] == '=')
            return *word + len + 1;
    return "";
}

/* A language's variables know the run's memory; the request's are taken as they are. */
static void test_tokens_in_variables(void **state)
{
    struct made m = made((struct making){ .json = "{\"language\": \"go\", \"code\": \"\"}" });

    (void)state;
    assert_string_equal(variable(&m, "GOMEMLIMIT"), "90MiB");
    unmake(&m);
    m = made((struct making){ .json = "{\"language\": \"go\", \"code\": \"\","
                                      " \"limits\": {\"memory\": \"1g\"}}" });
    assert_string_equal(variable(&m, "GOMEMLIMIT"), "921MiB");
    unmake(&m);
    m = made((struct making){ .json = "{\"language\": \"go\", \"code\": \"\","
                                      " \"env\": {\"GOMEMLIMIT\": \"{soft_mb}\"}}" });
    assert_string_equal(variable(&m, "GOMEMLIMIT"), "{soft_mb}");
    unmake(&m);
}

/* A language's own default stands in the place of the built-in one, and of nothing else. */
static void test_memory_of_a_language(void **state)
{
    static const char go[] = "{\"language\": \"go\", \"code\": \"\"}";
    const char *const environment[] = { "CAY_MEMORY=64m", NULL };
    struct made m = made((struct making){ .json = go });

    (void)state;
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 100 << 20);
    assert_int_equal(m.plan.run.spec.limits.disk_bytes, 50 << 20);
    assert_int_equal(plan_first(&m.plan)->spec.limits.memory_bytes, 1 << 30);
    unmake(&m);
    m = made((struct making){ .json = "{\"language\": \"go\", \"code\": \"\","
                                      " \"limits\": {\"memory\": \"200m\"}}" });
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 200 << 20);
    unmake(&m);
    m = made((struct making){
        .json = "{\"language\": \"go\", \"code\": \"\", \"profile\": \"light\"}" });
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 128 << 20);
    unmake(&m);
    m = made((struct making){ .json = go, .environment = environment });
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 64 << 20);
    unmake(&m);
    m = made((struct making){ .json = go, .user_toml = "[limits]\nmemory='64m'\n" });
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 64 << 20);
    unmake(&m);
    /* A project can only lower it. */
    m = made((struct making){ .json = go, .project_toml = "[limits]\nmemory='64m'\n" });
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 64 << 20);
    unmake(&m);
    m = made((struct making){ .json = go, .project_toml = "[limits]\nmemory='400m'\n" });
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 100 << 20);
    unmake(&m);
    m = made((struct making){ .json = "{\"language\": \"c\", \"code\": \"\"}",
                              .project_toml = "[limits]\nmemory='400m'\n" });
    assert_int_equal(m.plan.run.spec.limits.memory_bytes, 400 << 20);
    unmake(&m);
}

static void test_environment(void **state)
{
    struct made m = made((struct making){
        .json = "{" PYTHON ", \"env\": {\"A\": \"1\", \"LANG\": \"de_DE\", \"PATHS\": \"x\"}}" });

    (void)state;
    check_words(m.plan.env, (const char *const[]){
                                "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/somewhere",
                                "USER=sandbox", "LOGNAME=sandbox", "LANG=de_DE",
                                "NPM_CONFIG_FETCH_RETRIES=0", "PIP_RETRIES=0", "CARGO_NET_RETRY=0",
                                "BUNDLE_RETRY=0", "PYTHONUNBUFFERED=1", "A=1", "PATHS=x", NULL });
    unmake(&m);
    /* Nothing of the caller's own comes in by itself. */
    setenv("CAY_TEST_SECRET", "hunter2", 1);
    m = made((struct making){ .json = "{\"command\": [\"env\"]}" });
    for (const char *const *variable = m.plan.env; *variable; variable++)
        assert_null(strstr(*variable, "hunter2"));
    unmake(&m);
}

static void test_command(void **state)
{
    struct made m =
        made((struct making){ .json = "{\"command\": [\"ls\", \"-l\"], \"args\": [\"/\"],"
                                      " \"files\": {\"main.py\": \"x\"}, \"stdin\": \"in\"}",
                              .host = &(struct plan_host){ find_nothing } });

    (void)state;
    assert_null(m.plan.language);
    assert_null(m.plan.program);
    assert_int_equal(m.plan.sandbox.language, -1);
    assert_int_equal(m.plan.has_compile, false);
    check_words(plan_first(&m.plan)->argv, (const char *const[]){ "ls", "-l", "/", NULL });
    assert_int_equal(m.plan.n_files, 1);
    assert_int_equal(m.plan.input.len, 2);
    unmake(&m);

    check_refused((struct making){ .json = "{\"command\": [\"ls\"], \"code\": \"x\"}" },
                  CAY_E_USAGE, "command", NULL);
    check_refused((struct making){ .json = "{\"command\": [\"ls\"], \"language\": \"python\"}" },
                  CAY_E_USAGE, "command", NULL);
    check_refused((struct making){ .json = "{\"command\": [\"\"]}" }, CAY_E_USAGE, "command", NULL);
    check_refused((struct making){ .json = "{\"command\": []}" }, CAY_E_USAGE, "code", NULL);
    check_refused((struct making){ .json = "{}" }, CAY_E_USAGE, "code", NULL);
    check_refused((struct making){ .json = "{\"language\": \"python\"}" }, CAY_E_USAGE, "code",
                  NULL);
}

/* A request with n words of len bytes each in `field`. */
static char *with_words(const char *field, size_t n, size_t len)
{
    struct strbuf out = { 0 };
    bool is_env = strcmp(field, "env") == 0, is_command = strcmp(field, "command") == 0;

    strbuf_printf(&out, "{%s \"%s\": %c", is_command ? "" : PYTHON ",", field, is_env ? '{' : '[');
    for (size_t i = 0; i < n; i++) {
        strbuf_puts(&out, i ? ", \"" : "\"");
        if (is_env)
            strbuf_printf(&out, "V%02zu\": \"", i); /* three bytes and '=' */
        for (size_t k = is_env ? 4 : 0; k < len; k++)
            strbuf_putc(&out, 'x');
        strbuf_putc(&out, '"');
    }
    strbuf_printf(&out, "%c}", is_env ? '}' : ']');
    return strbuf_take(&out);
}

/* What execve(2) would not take is refused before anything is started. */
static void test_long_words(void **state)
{
    static const char *const names[] = { "command", "args", "env" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *fits = with_words(names[i], 1, 131071), *one = NULL, *all = NULL;
        struct made m = made((struct making){ .json = fits });
        unmake(&m);
        one = with_words(names[i], 1, 131072);
        check_refused((struct making){ .json = one }, CAY_E_USAGE, names[i], NULL);
        check_refused((struct making){ .json = one }, CAY_E_USAGE,
                      "131072 bytes; the maximum is 131071", NULL);
        check_refused((struct making){ .json = one }, CAY_E_USAGE,
                      i == 2 ? "env: 'V00' has" : "entry 1 has", NULL);
        all = with_words(names[i], 20, 102400);
        check_refused((struct making){ .json = all }, CAY_E_USAGE, names[i], NULL);
        check_refused((struct making){ .json = all }, CAY_E_USAGE, "the maximum is 2031616", NULL);
    }
    /* So is what no payload takes, which knows of no fields. */
    for (size_t i = 0; i < 2; i++) {
        auto_free char *fits = with_words(names[i], 65280, 1),
                       *more = with_words(names[i], 65281, 1);
        struct made m = made((struct making){ .json = fits });
        unmake(&m);
        check_refused((struct making){ .json = more }, CAY_E_USAGE, names[i], NULL);
        check_refused((struct making){ .json = more }, CAY_E_USAGE,
                      ": has 65281 of the 65281 entries that command, args and env have together; "
                      "the maximum is 65280",
                      NULL);
    }
}

static void test_choice_of_language(void **state)
{
    struct made m =
        made((struct making){ .json = "{\"code\": \"print(1)\"}", .file_name = "dir/x.py" });

    (void)state;
    assert_string_equal(m.plan.language->name, "python");
    unmake(&m);
    m = made((struct making){ .json = "{\"code\": \"#!/usr/bin/env python3\\n\"}" });
    assert_string_equal(m.plan.language->name, "python");
    unmake(&m);
    /* What was said comes before what can be guessed. */
    m = made((struct making){ .json = "{\"language\": \"c\", \"code\": \"#!/bin/python3\\n\"}",
                              .file_name = "x.py" });
    assert_string_equal(m.plan.language->name, "c");
    unmake(&m);
    check_refused((struct making){ .json = "{\"code\": \"print(1)\"}", .file_name = "x.zig" },
                  CAY_E_USAGE, "x.zig", "-l");
    check_refused((struct making){ .json = "{\"code\": \"print(1)\"}" }, CAY_E_USAGE, "language",
                  "-l");
    check_refused((struct making){ .json = "{\"language\": \"pyton\", \"code\": \"\"}" },
                  CAY_E_NOTFOUND, "pyton", "python");
}

/* Programs tell and look for their own name; what could be misread, or is taken, is "main". */
static void test_name_of_code(void **state)
{
    static const struct {
        const char *json, *file, *want;
    } rows[] = {
        { "{\"code\": \"\"}", "dir.d/prog-1.py", "prog-1.py" },
        { "{\"code\": \"\"}", "/x/a b.py", "main.py" },
        { "{\"code\": \"\"}", "-x.py", "main.py" },
        { "{\"code\": \"\"}", "a.b.py", "main.py" },
        { "{\"code\": \"\"}", "'.py", "main.py" },
        { "{\"code\": \"\", \"language\": \"python\"}", "prog.txt", "main.py" },
        { "{\"code\": \"\", \"language\": \"python\"}", "prog", "main.py" },
        { "{\"code\": \"\", \"language\": \"python\"}", NULL, "main.py" },
        { "{\"code\": \"\", \"files\": {\"p.py\": \"\"}}", "p.py", "main.py" },
        { "{\"code\": \"\", \"files\": {\"p.py/q\": \"\"}}", "p.py", "main.py" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct made m = made((struct making){ .json = rows[i].json, .file_name = rows[i].file });
        assert_string_equal(m.plan.source_name, rows[i].want);
        assert_string_equal(m.plan.source, rows[i].want);
        unmake(&m);
    }
}

/* (The one here that has images and runtimes is called vm.) A container engine's image is named,
 * its runtimes are not looked for on the host, and one word gives gVisor. */
/* A server's own: all that the backend can have, and what a request names on top. */
static void test_requires_all(void **state)
{
    struct made m = made((struct making){ true, "{" PYTHON ", \"require\": [\"seccomp\"]}" });

    (void)state;
    assert_int_equal(m.plan.sandbox.require, LAYER_REQUIRE_DEFAULT | LAYER_CGROUP_BITS);
    unmake(&m);
    m = made((struct making){ true, "{" PYTHON ", \"require\": [\"none\"]}" });
    assert_int_equal(m.plan.sandbox.require, LAYER_REQUIRE_DEFAULT | LAYER_CGROUP_BITS);
    unmake(&m);
    m = made((struct making){ true, "{" PYTHON ", \"backend\": \"vm\"}" });
    assert_int_equal(m.plan.sandbox.require,
                     (LAYER_REQUIRE_DEFAULT & ~LAYER_BIT(USER_NS)) | LAYER_CGROUP_BITS);
    unmake(&m);
    m = made(
        (struct making){ true, "{" PYTHON ", \"backend\": \"vm\", \"require\": \"user_ns\"}" });
    assert_int_equal(m.plan.sandbox.require, LAYER_REQUIRE_DEFAULT | LAYER_CGROUP_BITS);
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"require\": [\"none\"]}" });
    assert_int_equal(m.plan.sandbox.require, 0);
    unmake(&m);
}

static void test_containers(void **state)
{
    static const struct {
        const char *fields, *image, *runtime;
        enum tier tier;
    } rows[] = {
        { "\"backend\": \"vm\"", "coding-agent-sandbox:latest", "", TIER_VM },
        { "\"backend\": \"vm\", \"image\": \"x:1\"", "x:1", "", TIER_VM },
        { "\"runtime\": \"runsc\"", "coding-agent-sandbox:latest", "runsc", TIER_GVISOR },
        { "\"runtime\": \"crun\", \"image\": \"y\"", "y", "crun", TIER_VM },
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(json, sizeof json, "{" PYTHON ", %s}", rows[i].fields);
        struct made m = made((struct making){ .json = json });
        assert_string_equal(m.plan.backend->name, "vm");
        assert_string_equal(m.plan.sandbox.image, rows[i].image);
        assert_string_equal(m.plan.sandbox.runtime, rows[i].runtime);
        assert_int_equal(m.plan.tier, rows[i].tier);
        assert_false(m.plan.sandbox.require & LAYER_BIT(USER_NS));
        assert_int_equal(!(m.plan.sandbox.require & LAYER_BIT(LANDLOCK)),
                         rows[i].tier == TIER_GVISOR);
        assert_int_equal(m.plan.root.n, 0);
        unmake(&m);
    }
    check_refused((struct making){ .json = "{" PYTHON ", \"runtime\": \"runsc\","
                                           " \"min_isolation\": \"vm\"}" },
                  CAY_E_UNSUPPORTED, "no backend of this build gives tier vm", NULL);
}

static void test_missing_runtime(void **state)
{
    const struct plan_host nothing = { find_nothing };

    (void)state;
    check_refused((struct making){ .json = "{" PYTHON "}", .host = &nothing }, CAY_E_NOTFOUND,
                  "Python: the runtime 'python3' is not installed", "apt-get install python3");
    /* Of a compiled language, the compiler is the runtime. */
    check_refused(
        (struct making){ .json = "{\"language\": \"c\", \"code\": \"\"}", .host = &nothing },
        CAY_E_NOTFOUND, "gcc", "apt-get install gcc libc6-dev");
}

static void test_version(void **state)
{
    struct made m = made((struct making){
        .json = "{\"language\": \"py:3.11\", \"code\": \"\", \"args\": [\"a\"]}" });

    (void)state;
    assert_string_equal(m.plan.version, "3.11");
    assert_string_equal(m.plan.program, "/usr/bin/python3.11");
    check_words(plan_first(&m.plan)->argv,
                (const char *const[]){ "python3.11", "-u", "main.py", "a", NULL });
    unmake(&m);
    m = made((struct making){ .json = "{\"language\": \"c:12\", \"code\": \"\"}" });
    assert_string_equal(m.plan.program, "/usr/bin/gcc-12");
    assert_string_equal(plan_first(&m.plan)->argv[0], "gcc-12");
    assert_string_equal(m.plan.run.argv[0], plan_first(&m.plan)->argv[2]);
    unmake(&m);
    check_refused((struct making){ .json = "{\"language\": \"python:2.7\", \"code\": \"\"}" },
                  CAY_E_NOTFOUND, "python has no version '2.7'", "cay languages");
    check_refused((struct making){ .json = "{\"language\": \"python:\", \"code\": \"\"}" },
                  CAY_E_NOTFOUND, "version", NULL);
}

/* "python:bug" must not run the program pythonbug: a version is a version. */
static void test_version_is_a_version(void **state)
{
    (void)state;
    check_refused((struct making){ .json = "{\"language\": \"python:bug\", \"code\": \"\"}" },
                  CAY_E_NOTFOUND, "version", NULL);
}

/* Where the one asked for is the only one that is installed. */
static void test_version_alone(void **state)
{
    const struct plan_host host = { find_only_old_python };
    struct made m = made(
        (struct making){ .json = "{\"language\": \"python:3.9\", \"code\": \"\"}", .host = &host });

    (void)state;
    assert_string_equal(m.plan.program, "/usr/bin/python3.9");
    unmake(&m);
}

/* The plain program's own version, where no name tells. */
static void test_version_of_plain(void **state)
{
    static const char *const good[] = { "5", "5.36", "5.36.0" };
    static const char *const bad[] = { "5.3", "5.36.1", "5.36.0.1", "6", "36" };
    char json[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        snprintf(json, sizeof json, "{\"language\": \"perl:%s\", \"code\": \"\"}", good[i]);
        struct made m = made((struct making){ .json = json, .host = &full_host });
        assert_string_equal(m.plan.program, "/usr/bin/perl");
        assert_string_equal(plan_first(&m.plan)->argv[0], "perl");
        unmake(&m);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(json, sizeof json, "{\"language\": \"perl:%s\", \"code\": \"\"}", bad[i]);
        check_refused((struct making){ .json = json, .host = &full_host }, CAY_E_NOTFOUND,
                      "perl has no version", "cay languages");
    }
}

/* A language of several programs needs them all. */
static void test_programs(void **state)
{
    const struct plan_host host = { find_all_but_one };

    (void)state;
    check_refused(
        (struct making){ .json = "{\"language\": \"two\", \"code\": \"\"}", .host = &host },
        CAY_E_NOTFOUND, "the runtime 'other' is not installed", "one-bin other-bin");
}

static void test_tokens(void **state)
{
    static const struct {
        const char *fields, *word;
    } rows[] = {
        /* A heap of three quarters of what is left beside 48 MiB, and never less than 16. */
        { "\"language\": \"two\"", "--heap=348" },
        { "\"language\": \"two\", \"limits\": {\"memory\": \"1g\"}", "--heap=732" },
        { "\"language\": \"two\", \"limits\": {\"memory\": \"4m\"}", "--heap=16" },
        { "\"language\": \"two\"", "--all=503" },
        { "\"language\": \"two\"", "--young=16" },
        { "\"language\": \"two\", \"limits\": {\"memory\": \"1g\"}", "--young=16" },
        { "\"language\": \"two\", \"limits\": {\"memory\": \"64m\"}", "--all=55" },
        { "\"language\": \"two\", \"limits\": {\"memory\": \"64m\"}", "--young=2" },
        { "\"language\": \"two\", \"limits\": {\"memory\": \"4m\"}", "--young=1" },
        { "\"language\": \"two\"", "-list" },
        { "\"language\": \"two\", \"rows\": \"auto\"", "-list" },
        { "\"language\": \"two\", \"rows\": \"table\"", "-table" },
        { "\"language\": \"two\", \"rows\": \"json\"", "-json" },
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(json, sizeof json, "{%s, \"code\": \"\"}", rows[i].fields);
        struct made m = made((struct making){ .json = json, .host = &full_host });
        bool found = false;
        for (const char *const *word = plan_first(&m.plan)->argv; *word; word++)
            found |= strcmp(*word, rows[i].word) == 0;
        if (!found)
            fail_msg("%s: %s is not there", rows[i].fields, rows[i].word);
        unmake(&m);
    }
}

static void test_backend(void **state)
{
    static const struct {
        const char *fields, *backend;
    } good[] = {
        { "\"backend\": \"auto\"", "native" },
        { "\"backend\": \"native\"", "native" },
        { "\"backend\": \"vm\"", "vm" },
        { "\"min_isolation\": \"kernel\"", "native" },
        { "\"min_isolation\": \"gvisor\"", "vm" },
        { "\"min_isolation\": \"vm\"", "vm" },
        /* The un-isolated one only when named, however little is asked for. */
        { "\"min_isolation\": \"none\"", "native" },
        { "\"min_isolation\": \"none\", \"backend\": \"process\"", "process" },
    };
    static const struct {
        const char *fields, *message;
    } bad[] = {
        { "\"backend\": \"docker\"", "backend: docker" },
        { "\"backend\": \"wasm\"", "backend: wasm" },
        { "\"backend\": \"process\"", "below min_isolation kernel" },
        { "\"backend\": \"native\", \"min_isolation\": \"vm\"", "below min_isolation vm" },
        { "\"backend\": \"native\", \"min_isolation\": \"gvisor\"", "below min_isolation gvisor" },
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        snprintf(json, sizeof json, "{" PYTHON ", %s}", good[i].fields);
        struct made m = made((struct making){ .json = json });
        assert_string_equal(m.plan.backend->name, good[i].backend);
        bool is_process = strcmp(good[i].backend, "process") == 0;
        /* It says so, and claims no layer. */
        assert_int_equal(m.plan.warnings.is_set, is_process);
        assert_int_equal(m.plan.sandbox.require == 0, is_process);
        unmake(&m);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(json, sizeof json, "{" PYTHON ", %s}", bad[i].fields);
        check_refused((struct making){ .json = json }, CAY_E_UNSUPPORTED, bad[i].message, NULL);
    }
    assert_int_equal(cay_error_exit_status(CAY_E_UNSUPPORTED), 125);
}

/* Places in the list of backends above. */
enum { LACKS_PROCESS = 1, LACKS_NATIVE = 2, LACKS_VM = 4 };

#define UNSAFE   "\"fallback\": \"unsafe\""
#define ISOLATED "\"fallback\": \"isolated\""

/* Which backend there is where the one asked for can't be had, and that it is told. */
static void test_fallback(void **state)
{
    static const struct {
        const char *fields;
        uint32_t unavailable;
        const char *backend, *how; /* NULL: none was needed */
        bool has_next;
    } rows[] = {
        { "\"fallback\": \"never\"", 0, "native", NULL, true },
        { ISOLATED, 0, "native", NULL, true },
        { UNSAFE, 0, "native", NULL, true },
        /* auto goes on by itself, and says so. */
        { "\"backend\": \"auto\"", LACKS_NATIVE, "vm", "auto", false },
        { ISOLATED, LACKS_NATIVE, "vm", "auto", false },
        { UNSAFE, LACKS_NATIVE, "vm", "auto", true },
        { UNSAFE, LACKS_NATIVE | LACKS_VM, "process", "unsafe", false },
        /* A name is meant. */
        { "\"backend\": \"native\"", 0, "native", NULL, false },
        { "\"backend\": \"vm\", " ISOLATED, 0, "vm", NULL, true },
        { "\"backend\": \"vm\", " ISOLATED, LACKS_VM, "native", "isolated", false },
        { "\"backend\": \"vm\", " UNSAFE, LACKS_VM, "native", "isolated", true },
        { "\"backend\": \"vm\", " UNSAFE, LACKS_VM | LACKS_NATIVE, "process", "unsafe", false },
        { "\"backend\": \"native\", " ISOLATED ", \"min_isolation\": \"kernel\"", LACKS_NATIVE,
          "vm", "isolated", false },
        /* One that this build does not have can't be had either. */
        { "\"backend\": \"docker\", " ISOLATED, 0, "native", "isolated", true },
        { "\"backend\": \"wasm\", " UNSAFE, 0, "native", "isolated", true },
        { "\"backend\": \"wasm\", " ISOLATED ", \"min_isolation\": \"gvisor\"", 0, "vm", "isolated",
          false },
        { "\"min_isolation\": \"none\", " UNSAFE, LACKS_NATIVE | LACKS_VM, "process", "unsafe",
          false },
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct plan_host host = usual_host;
        host.unavailable = rows[i].unavailable;
        host.unavailable_why = rows[i].unavailable ? "no such thing" : NULL;
        snprintf(json, sizeof json, "{" PYTHON ", %s}", rows[i].fields);
        struct made m = made((struct making){ .json = json, .host = &host });
        if (strcmp(m.plan.backend->name, rows[i].backend) != 0)
            fail_msg("%s: %s", json, m.plan.backend->name);
        if (m.plan.has_next != rows[i].has_next)
            fail_msg("%s: has_next is %d", json, m.plan.has_next);
        assert_int_equal(!!m.plan.fallback.how, !!rows[i].how);
        assert_int_equal(m.plan.warnings.is_set, !!rows[i].how);
        bool is_unsafe = strcmp(rows[i].backend, "process") == 0;
        /* What was to run isolated does not run so unchecked. */
        assert_int_equal(m.plan.policy, is_unsafe ? POLICY_BLOCK : POLICY_WARN);
        if (rows[i].how) {
            assert_string_equal(m.plan.fallback.how, rows[i].how);
            assert_non_null(strstr(m.plan.warnings.list[0], m.plan.fallback.why));
            assert_int_equal(strncmp(m.plan.warnings.list[0], "UNSAFE: ", 8) == 0, is_unsafe);
        }
        if (rows[i].unavailable)
            assert_string_equal(m.plan.fallback.why, "no such thing");
        unmake(&m);
    }
}

static void test_fallback_refused(void **state)
{
    static const char *const on[] = { "SECURITY_ENABLE_SANDBOX=true", NULL };
    static const char *const off[] = { "SECURITY_ENABLE_SANDBOX=false", NULL };
    static const char *const unsafe[] = { "CAY_FALLBACK=unsafe", NULL };
    static const struct {
        const char *fields;
        const char *const *environment;
        const char *toml;
        uint32_t unavailable;
        enum cay_errkind kind;
        const char *message;
    } rows[] = {
        { "\"backend\": \"vm\"", NULL, NULL, LACKS_VM, CAY_E_UNSUPPORTED, "backend: vm" },
        { "\"backend\": \"vm\", \"min_isolation\": \"vm\", " ISOLATED, NULL, NULL, LACKS_VM,
          CAY_E_UNSUPPORTED, "backend: vm" },
        { ISOLATED, NULL, NULL, LACKS_NATIVE | LACKS_VM, CAY_E_UNSUPPORTED, "min_isolation" },
        { UNSAFE, NULL, NULL, LACKS_NATIVE | LACKS_VM | LACKS_PROCESS, CAY_E_UNSUPPORTED,
          "min_isolation" },
        /* With the sandbox enabled nothing ever runs directly on the host. */
        { UNSAFE, on, NULL, 0, CAY_E_POLICY, "enable_sandbox" },
        { UNSAFE, nothing_set, "[security]\nenable_sandbox = true\n", 0, CAY_E_POLICY,
          "enable_sandbox" },
        { "\"backend\": \"process\", \"min_isolation\": \"none\"", on, NULL, 0, CAY_E_POLICY,
          "enable_sandbox" },
        /* That it is not, is no leave to do so by itself. */
        { "\"backend\": \"auto\"", off, NULL, LACKS_NATIVE | LACKS_VM, CAY_E_UNSUPPORTED,
          "min_isolation" },
        /* A tier that somebody asked for is not undercut. */
        { "\"min_isolation\": \"kernel\", " UNSAFE, NULL, NULL, 0, CAY_E_POLICY, "min_isolation" },
        { UNSAFE, NULL, "min_isolation = 'kernel'\n", 0, CAY_E_POLICY, "min_isolation" },
        /* unsafe is for the request to say. */
        { "\"backend\": \"auto\"", unsafe, NULL, LACKS_NATIVE | LACKS_VM, CAY_E_UNSUPPORTED,
          "min_isolation" },
        { "\"backend\": \"auto\"", NULL, "fallback = 'unsafe'\n", LACKS_NATIVE | LACKS_VM,
          CAY_E_UNSUPPORTED, "min_isolation" },
        { "\"profile\": \"loose\"", NULL, "[profiles.loose]\nfallback = 'unsafe'\n",
          LACKS_NATIVE | LACKS_VM, CAY_E_UNSUPPORTED, "min_isolation" },
        /* What it can't do, it does not do in place of another either. */
        { "\"require\": [\"seccomp\"], " UNSAFE, NULL, NULL, LACKS_NATIVE | LACKS_VM,
          CAY_E_UNSUPPORTED, "require" },
        { "\"tty\": true, " UNSAFE, NULL, NULL, LACKS_NATIVE | LACKS_VM, CAY_E_UNSUPPORTED, "tty" },
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct plan_host host = usual_host;
        host.unavailable = rows[i].unavailable;
        snprintf(json, sizeof json, "{" PYTHON ", %s}", rows[i].fields);
        check_refused((struct making){ .json = json,
                                       .environment = rows[i].environment,
                                       .user_toml = rows[i].toml,
                                       .host = &host },
                      rows[i].kind, rows[i].message, NULL);
    }
    /* Said by a file it still is a wish: the isolated part of it is kept. */
    struct plan_host host = usual_host;
    host.unavailable = LACKS_VM;
    struct made m = made((struct making){
        .json = "{" PYTHON ", \"backend\": \"vm\"}", .environment = unsafe, .host = &host });
    assert_string_equal(m.plan.backend->name, "native");
    assert_non_null(strstr(m.plan.warnings.list[0], "isolated is in force"));
    unmake(&m);
}

static void test_layers(void **state)
{
    struct made m =
        made((struct making){ .json = "{" PYTHON ", \"require\": [\"cgroup\", \"seccomp\"]}" });

    (void)state;
    assert_int_equal(m.plan.sandbox.require, LAYER_CGROUP_BITS | LAYER_BIT(SECCOMP));
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"require\": []}" });
    assert_int_equal(m.plan.sandbox.require, 0);
    unmake(&m);
    check_refused((struct making){ .json = "{" PYTHON ", \"require\": [\"secomp\"]}" }, CAY_E_USAGE,
                  "require: unknown layer 'secomp'", "seccomp");
    check_refused((struct making){ .json =
                                       "{" PYTHON ", \"min_isolation\": \"none\","
                                       " \"backend\": \"process\", \"require\": [\"pid_ns\"]}" },
                  CAY_E_UNSUPPORTED, "pid_ns", NULL);
}

static bool has_variable(const struct plan *plan, const char *variable)
{
    for (const char *const *v = plan->env; *v; v++)
        if (strcmp(*v, variable) == 0)
            return true;
    return false;
}

static void test_workspace(void **state)
{
    (void)state;
    struct made m =
        made((struct making){ .json = "{" PYTHON ", \"workspace\": \"/home/u/link\","
                                      " \"ro\": [\"/srv/data\", \"/srv/data=/d,1\"],"
                                      " \"collect\": [\"*.csv\", \"/sandbox/{a,b}\"]}" });
    assert_string_equal(m.plan.workspace, "/home/u/project");
    assert_string_equal(m.plan.source, "/sandbox/main.py");
    assert_int_equal(m.plan.n_files, 1);
    assert_int_equal(m.plan.n_folders, 2);
    assert_string_equal(m.plan.folders[0].path, "/srv/data");
    assert_string_equal(m.plan.folder_paths[1], "/d,1");
    assert_string_equal(m.plan.globs[0], "/workspace/*.csv");
    assert_string_equal(m.plan.globs[1], "/sandbox/{a,b}");
    assert_true(has_variable(&m.plan, "VIRTUAL_ENV=/workspace/.venv"));
    assert_true(has_variable(&m.plan, "NODE_PATH=/workspace/node_modules"));
    assert_true(has_variable(&m.plan, "PYTHONPATH=/workspace"));
    assert_string_equal(m.plan.workspace_link, "/home/u/project");
    assert_string_equal(m.plan.folder_paths[2], "/home/u/project");
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"workspace\": \"/home/u/project\","
                                      " \"ro\": [\"/srv/data=/home/u\"]}" });
    assert_null(m.plan.workspace_link); /* no room for a link in what can't be written */
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"workspace\": \"/srv/data\"}" });
    assert_null(m.plan.workspace_link);
    unmake(&m);
    m = made((struct making){ .json = "{\"code\": \"\", \"workspace\": \"/home/u/project\"}",
                              .file_name = "/home/u/project/src/a.py" });
    assert_string_equal(m.plan.source, "/workspace/src/a.py");
    assert_int_equal(m.plan.n_files, 0);
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"collect\": [\"o\", \"././a/x\"]}" });
    assert_string_equal(m.plan.globs[0], "/sandbox/o");
    assert_string_equal(m.plan.globs[1], "/sandbox/a/x");
    assert_null(m.plan.workspace);
    unmake(&m);
}

static void test_wrong_folders(void **state)
{
    static const struct {
        const char *fields, *message;
    } rows[] = {
        { "\"workspace\": \"/nowhere\"", "workspace: '/nowhere'" },
        { "\"workspace\": \"/\"", "workspace: '/'" },
        { "\"ro\": [\"/nowhere\"]", "ro: '/nowhere'" },
        { "\"ro\": [\"/usr\"]", "ro: '/usr'" },
        { "\"ro\": [\"/srv/data=/etc\"]", "ro: '/etc'" },
        { "\"ro\": [\"/srv/data=rel\"]", "ro: 'rel'" },
        { "\"ro\": [\"/srv/data\", \"/home/u/project=/srv/data/x\"]", "ro: '/srv/data'" },
        { "\"collect\": [\"/etc/passwd\"]", "collect: '/etc/passwd'" },
        { "\"collect\": [\"/sandbox/../etc/x\"]", "collect" },
        { "\"collect\": [\"/workspace/x\"]", "collect: '/workspace/x'" },
        { "\"collect\": [\"./../x\"]", "collect: './../x' is not below" },
        { "\"collect\": [\"./\"]", "collect: './' names no file" },
        { "\"collect\": [\"a/\"]", "collect: 'a/' names no file" },
        { "\"collect\": [\".\"]", "collect: '.' names no file" },
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(json, sizeof json, "{" PYTHON ", %s}", rows[i].fields);
        check_refused((struct making){ .json = json }, CAY_E_USAGE, rows[i].message, NULL);
    }
    check_refused((struct making){ .json = "{" PYTHON ", \"backend\": \"process\","
                                           " \"min_isolation\": \"none\","
                                           " \"workspace\": \"/home/u/project\"}" },
                  CAY_E_UNSUPPORTED, "workspace: not supported by backend process", NULL);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *fields, *message;
    } rows[] = {
        { "\"network\": \"full\"", "network: 'full'" },
        { "\"network\": [\"a.example\"]", "network: 'a.example'" },
        { "\"network\": [\"none\", \"a.example\"]", "network" },
        { "\"session\": \"s1\"", "session: not built yet" },
        { "\"webhook\": \"http://x\"", "webhook: only available on a server" },
        { "\"backend\": \"native\", \"runtime\": \"runsc\"",
          "runtime: not supported by backend native" },
        { "\"backend\": \"vm\", \"tty\": true", "tty: not supported by backend vm" },
        { "\"detach\": true", "detach: only available on a server" },
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(json, sizeof json, "{" PYTHON ", %s}", rows[i].fields);
        check_refused((struct making){ .json = json }, CAY_E_UNSUPPORTED, rows[i].message, NULL);
    }
    check_refused((struct making){ .json = "{" PYTHON ", \"image\": \"no-such-image\"}" },
                  CAY_E_NOTFOUND, "image: no image is named 'no-such-image'", "cay image");
    check_refused((struct making){ .json = "{" PYTHON ", \"image\": \"../x\"}" }, CAY_E_USAGE,
                  "image: '../x' is not the name of an image", "a-z");
    struct made m = made((struct making){
        .json = "{" PYTHON ", \"network\": \"none\", \"detach\": false, \"tty\": false,"
                " \"image\": \"host\"}" });
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"network\": []}" });
    unmake(&m);
}

#define BASH "\"language\": \"bash\", \"code\": \"ls\""

static const struct op *find_op(const struct plan *plan, const char *path)
{
    for (size_t i = 0; i < plan->root.n; i++)
        if (strcmp(plan->root.ops[i].path, path) == 0)
            return &plan->root.ops[i];
    return NULL;
}

static void test_restricted_shell(void **state)
{
    (void)state;
    struct made m =
        made((struct making){ .json = "{" BASH ", \"shell_allow\": [\"cat\", \"cd\"]}" });
    assert_true(m.plan.sandbox.is_restricted);
    assert_string_equal(m.plan.sandbox.shell_allow, "cat,cd");
    assert_non_null(find_op(&m.plan, "usr/bin/cat"));
    assert_non_null(find_op(&m.plan, "usr/bin/bash"));
    assert_null(find_op(&m.plan, "usr/bin/ls"));
    assert_int_equal(find_op(&m.plan, "usr")->kind, OP_DIR);
    auto_free char *json = plan_json(&m.plan);
    assert_non_null(strstr(json, "\"shell_allow\": \"cat,cd\""));
    assert_non_null(strstr(json, "\"noexec\": true"));
    unmake(&m);

    m = made((struct making){ .json = "{" BASH ", \"shell_allow\": []}" });
    assert_true(m.plan.sandbox.is_restricted);
    assert_string_equal(m.plan.sandbox.shell_allow, "");
    unmake(&m);

    m = made((struct making){ .json = "{" BASH "}" });
    assert_false(m.plan.sandbox.is_restricted);
    unmake(&m);

    check_refused((struct making){ .json = "{" PYTHON ", \"shell_allow\": [\"ls\"]}" }, CAY_E_USAGE,
                  "shell_allow: is for bash and zsh; this is Python", "leave it out");
    check_refused((struct making){ .json = "{\"command\": [\"ls\"], \"shell_allow\": [\"ls\"]}" },
                  CAY_E_USAGE, "this is a command", NULL);
    check_refused((struct making){ .json = "{" BASH ", \"shell_allow\": [\"/bin/ls\"]}" },
                  CAY_E_USAGE, "'/bin/ls' is not the name of a command", "no paths");
    check_refused((struct making){ .json = "{" BASH ", \"shell_allow\": [\"no-such\"]}" },
                  CAY_E_NOTFOUND, "the command 'no-such' is not installed", NULL);
    check_refused((struct making){ .json =
                                       "{" BASH ", \"shell_allow\": [\"ls\"],"
                                       " \"backend\": \"process\", \"min_isolation\": \"none\"}" },
                  CAY_E_UNSUPPORTED, "shell_allow: not supported by backend process", NULL);
    check_refused((struct making){ .json = "{\"language\": \"bash:5\", \"code\": \"ls\","
                                           " \"shell_allow\": [\"ls\"]}" },
                  CAY_E_UNSUPPORTED, "not a version of it", NULL);
}

/* A profile is for every machine, so what is missing on this one is left out of it. */
static void test_restricted_profile(void **state)
{
    (void)state;
    struct made m = made((struct making){ .json = "{" BASH ", \"profile\": \"restricted\"}" });
    assert_true(m.plan.sandbox.is_restricted);
    assert_int_equal(plan_first(&m.plan)->spec.limits.memory_bytes, 256 << 20);
    assert_int_equal(plan_first(&m.plan)->spec.limits.pids, 25);
    assert_non_null(find_op(&m.plan, "usr/bin/cat"));
    assert_null(find_op(&m.plan, "usr/bin/env"));
    unmake(&m);

    m = made((struct making){ .json = "{" BASH ", \"profile\": \"mine\"}",
                              .user_toml = "[profiles.mine]\nshell_allow = ['cat', 'no-such']\n" });
    assert_string_equal(m.plan.sandbox.shell_allow, "cat");
    unmake(&m);

    m = made((struct making){
        .json = "{" BASH ", \"profile\": \"restricted\", \"shell_allow\": [\"env\"]}" });
    assert_string_equal(m.plan.sandbox.shell_allow, "env");
    unmake(&m);
}

static void test_terminal(void **state)
{
    (void)state;
    struct made m = made((struct making){ .json = "{" PYTHON ", \"tty\": true}" });
    assert_true(m.plan.run.spec.has_terminal);
    const char *term = NULL;
    for (const char *const *env = m.plan.env; *env; env++)
        if (strncmp(*env, "TERM=", 5) == 0)
            term = *env;
    assert_string_equal(term, "TERM=xterm-256color");
    unmake(&m);
    m = made(
        (struct making){ .json = "{" PYTHON ", \"tty\": true, \"env\": {\"TERM\": \"vt100\"}}" });
    term = NULL;
    for (const char *const *env = m.plan.env; *env; env++)
        if (strncmp(*env, "TERM=", 5) == 0)
            term = *env;
    assert_string_equal(term, "TERM=vt100");
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON "}" });
    assert_false(m.plan.run.spec.has_terminal);
    for (const char *const *env = m.plan.env; *env; env++)
        assert_true(strncmp(*env, "TERM=", 5) != 0);
    unmake(&m);
    check_refused((struct making){ .json = "{" PYTHON ", \"tty\": true, \"backend\": \"process\","
                                           " \"min_isolation\": \"none\"}" },
                  CAY_E_UNSUPPORTED, "tty: not supported by backend process", "native");
}

static void test_profile(void **state)
{
    (void)state;
    check_refused((struct making){ .json = "{" PYTHON ", \"profile\": \"hardend\"}" }, CAY_E_USAGE,
                  "profile: unknown profile 'hardend'", "hardened");
    check_refused((struct making){ .json = "{" PYTHON ", \"profile\": \"mien\"}",
                                   .user_toml = "[profiles.mine]\npids=3\n" },
                  CAY_E_USAGE, "mien", "mine");
    check_refused((struct making){ .json = "{" PYTHON ", \"profile\": \"qqqqqqq\"}" }, CAY_E_USAGE,
                  "qqqqqqq", "hardened");
}

static void test_files(void **state)
{
    struct made m = made((struct making){
        .json = "{" PYTHON ", \"files\": {\"a.txt\": \"A\", \"main.c\": \"x\"}}" });

    (void)state;
    assert_int_equal(m.plan.n_files, 3);
    unmake(&m);
    check_refused((struct making){ .json = "{" PYTHON ", \"files\": {\"main.py\": \"x\"}}" },
                  CAY_E_USAGE, "main.py", NULL);
}

/* The mode, whether anybody asked for it, and the lists that go with it. */
static void test_policy(void **state)
{
    const char *const environment[] = { "SANDBOX_BLOCK_DANGEROUS_IMPORTS=true",
                                        "CAY_BLOCK_IMPORTS=a,b", "CAY_ALLOW_IMPORTS=c", NULL };

    (void)state;
    struct made m = made((struct making){ .json = "{" PYTHON "}" });
    assert_int_equal(m.plan.policy, POLICY_WARN);
    assert_false(m.plan.is_policy_explicit);
    assert_false(m.plan.has_network);
    assert_int_equal(m.plan.import_lists.len, 0);
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"policy\": \"off\"}" });
    assert_int_equal(m.plan.policy, POLICY_OFF);
    assert_true(m.plan.is_policy_explicit);
    unmake(&m);
    m = made((struct making){ .json = "{" PYTHON ", \"policy_bypass\": true}",
                              .environment = environment });
    assert_int_equal(m.plan.policy, POLICY_BLOCK);
    assert_true(m.plan.is_policy_explicit);
    assert_true(m.plan.policy_bypass);
    assert_int_equal(m.plan.import_lists.len, 9);
    assert_memory_equal(m.plan.import_lists.data, "+a\0+b\0-c", 9);
    unmake(&m);
}

/* What nobody said is "block" where nothing isolates, and where strict mode is asked for. */
static void test_policy_by_tier(void **state)
{
    static const char process[] = "\"backend\": \"process\", \"min_isolation\": \"none\"";
    static const struct {
        const char *fields, *user_toml, *project_toml;
        bool is_unisolated, is_strict;
        enum policy_mode policy;
    } rows[] = {
        { "\"backend\": \"native\"", NULL, NULL, false, false, POLICY_WARN },
        { process, NULL, NULL, true, false, POLICY_BLOCK },
        { process, "policy = 'warn'\n", NULL, true, false, POLICY_WARN },
        { process, "policy = 'off'\n", NULL, true, false, POLICY_OFF },
        /* A project's file can only tighten. */
        { process, NULL, "policy = 'warn'\n", true, false, POLICY_BLOCK },
        { "\"policy_strict\": true", NULL, NULL, false, true, POLICY_BLOCK },
        { "\"policy_strict\": true, \"policy\": \"warn\"", NULL, NULL, false, true, POLICY_WARN },
        { "\"backend\": \"native\"", "policy_strict = true\n", NULL, false, true, POLICY_BLOCK },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char json[256];
        snprintf(json, sizeof json, "{" PYTHON ", %s}", rows[i].fields);
        struct made m = made((struct making){
            .json = json, .user_toml = rows[i].user_toml, .project_toml = rows[i].project_toml });
        assert_int_equal(m.plan.tier == TIER_NONE, rows[i].is_unisolated);
        assert_int_equal(m.plan.policy, rows[i].policy);
        assert_int_equal(m.plan.policy_strict, rows[i].is_strict);
        unmake(&m);
    }
}

static void test_json(void **state)
{
    struct made m = made((struct making){
        .json = "{\"language\": \"c\", \"code\": \"CODE-SECRET\", \"args\": [\"visible\"],"
                " \"env\": {\"API_KEY\": \"ENV-SECRET\", \"EMPTY\": \"\"},"
                " \"files\": {\"data.txt\": \"FILE-SECRET\"}, \"stdin\": \"STDIN-SECRET\","
                " \"timeout\": 2}" });
    auto_free char *text = plan_json(&m.plan);
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);

    (void)state;
    if (!root)
        fail_msg("%s: %s", where.text, text);
    assert_null(strstr(text, "SECRET"));
    assert_non_null(strstr(text, "API_KEY"));
    assert_string_equal(json_string_value(json_object_get(root, "backend")), "native");
    assert_string_equal(json_string_value(json_object_get(root, "tier")), "kernel");
    assert_string_equal(json_string_value(json_object_get(root, "language")), "c");
    assert_string_equal(json_string_value(json_object_get(root, "program")), "/usr/bin/gcc");
    assert_int_equal(json_integer_value(json_object_get(root, "stdin_bytes")), 12);

    const json_t *stages = json_object_get(root, "stages");
    assert_int_equal(json_array_size(stages), 2);
    const json_t *run = json_array_get(stages, 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(stages, 0), "name")),
                        "compile");
    assert_string_equal(json_string_value(json_object_get(run, "name")), "run");
    assert_string_equal(json_string_value(json_array_get(json_object_get(run, "argv"), 1)),
                        "visible");
    assert_true(json_real_value(json_object_get(json_object_get(run, "limits"), "timeout")) == 2.0);

    const json_t *files = json_object_get(root, "files");
    assert_int_equal(json_array_size(files), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(files, 0), "size")), 11);
    assert_true(json_array_size(json_object_get(root, "root")) > 20);
    assert_true(json_array_size(json_object_get(root, "require")) > 5);
    json_decref(root);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_limits_of_the_request),
        cmocka_unit_test(test_limits_of_the_host),
        cmocka_unit_test(test_limits_of_the_refused),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_disk_is_at_most_half_of_memory),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_cap_of_what_has_no_limit),
        cmocka_unit_test(test_compiled),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_project),
        cmocka_unit_test(test_tokens_in_variables),
        cmocka_unit_test(test_memory_of_a_language),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_choice_of_language),
        cmocka_unit_test(test_name_of_code),
        cmocka_unit_test(test_containers),
        cmocka_unit_test(test_requires_all),
        cmocka_unit_test(test_missing_runtime),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_version_is_a_version),
        cmocka_unit_test(test_version_alone),
        cmocka_unit_test(test_version_of_plain),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_backend),
        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_fallback_refused),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_wrong_folders),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_restricted_shell),
        cmocka_unit_test(test_restricted_profile),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_policy),
        cmocka_unit_test(test_policy_by_tier),
        cmocka_unit_test(test_json),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
