/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The fields of a request and the settings of the configuration: one table. Their names, kinds,
 * built-in values, bounds and help live here and nowhere else; flags, JSON, TOML, environment and
 * `cay config` are read and written by these rows.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cay_error;

enum field_kind {
    FIELD_BYTES,   /* num is bytes */
    FIELD_SECONDS, /* num is nanoseconds */
    FIELD_MILLI,   /* num is thousandths */
    FIELD_COUNT,   /* the last kind that is a number */
    FIELD_BOOL,
    FIELD_CHOICE, /* text is one of the row's choices */
    FIELD_TEXT,
    FIELD_LIST,
};

enum {
    FIELD_IN_REQUEST = 1 << 0, /* a request can set it */
    FIELD_LIMIT = 1 << 1,      /* in JSON and TOML it stands in the table `limits` */
    FIELD_PROJECT = 1 << 2,    /* ./.cay.toml may tighten it */
    FIELD_HIGHER = 1 << 3,     /* of choices and flags: the later one is the tighter one */
    FIELD_WHOLE = 1 << 4,      /* of lists: one entry each time, commas and all */
    FIELD_LOCAL = 1 << 5,      /* of the command line and the library, not of a server's clients */
    FIELD_ORDERED = 1 << 6,    /* there is a tighter one: core/floor.h */
    FIELD_NO_CONFIG = 1 << 7,  /* no file, profile or variable sets it */
};

#define MAX_BYTES   (UINT64_C(1) << 50)
#define MAX_SECONDS (UINT64_C(1000000000) * 86400 * 365)
#define FLOOR_FLAGS (FIELD_IN_REQUEST | FIELD_ORDERED)
#define LIMIT_FLAGS (FLOOR_FLAGS | FIELD_LIMIT | FIELD_PROJECT)
#define ALIAS_FLAGS (FIELD_IN_REQUEST | FIELD_LIMIT | FIELD_NO_CONFIG) /* core/request-alias.h */

/* id, name, kind, flags, built-in value (NULL: none), min, max, choices, metavar, help */
#define FIELDS(X)                                                                                  \
    X(LANGUAGE, "language", TEXT, FIELD_IN_REQUEST, NULL, 0, 0, NULL, "NAME",                      \
      "language of the code, or NAME:VERSION (by file name or #! line)")                           \
    X(TIMEOUT, "timeout", SECONDS, FLOOR_FLAGS | FIELD_PROJECT, "30", 1000000, MAX_SECONDS, NULL,  \
      "SECONDS", "wall-clock time of the run")                                                     \
    X(MEMORY, "memory", BYTES, LIMIT_FLAGS, "512m", 4 << 20, MAX_BYTES, NULL, "SIZE",              \
      "memory of all processes together, files in /tmp included")                                  \
    X(SWAP, "swap", BYTES, LIMIT_FLAGS, "0", 0, MAX_BYTES, NULL, "SIZE", "swap on top of memory")  \
    X(MEMORY_SWAP, "memory_swap", BYTES, ALIAS_FLAGS, NULL, 0, MAX_BYTES, NULL, "SIZE",            \
      "memory and swap together, instead of swap; with memory")                                    \
    X(CPUS, "cpus", MILLI, LIMIT_FLAGS, "1", 10, 1024000, NULL, "N", "CPUs, fractions allowed")    \
    X(CPU_SHARES, "cpu_shares", COUNT, LIMIT_FLAGS, "1024", 2, 1024, NULL, "N",                    \
      "CPU weight against other runs when CPUs are busy")                                          \
    X(CPU_QUOTA, "cpu_quota", COUNT, ALIAS_FLAGS, NULL, 1000, 1024000000, NULL, "USEC",            \
      "CPU time per cpu_period, instead of cpus (100000)")                                         \
    X(CPU_PERIOD, "cpu_period", COUNT, ALIAS_FLAGS, NULL, 1000, 1000000, NULL, "USEC",             \
      "what cpu_quota is divided by (100000)")                                                     \
    X(CPU_TIME, "cpu_time", SECONDS, LIMIT_FLAGS, NULL, 1000000, MAX_SECONDS, NULL, "SECONDS",     \
      "CPU time of all processes together (no limit)")                                             \
    X(PIDS, "pids", COUNT, LIMIT_FLAGS, "100", 1, 4194304, NULL, "N",                              \
      "processes and threads at once")                                                             \
    X(DISK, "disk", BYTES, LIMIT_FLAGS, "128m", 65536, MAX_BYTES, NULL, "SIZE",                    \
      "all that can be written; at most half of memory")                                           \
    X(INODES, "inodes", COUNT, LIMIT_FLAGS, "20000", 8, 1 << 30, NULL, "N",                        \
      "files and folders that can be made")                                                        \
    X(OPEN_FILES, "open_files", COUNT, LIMIT_FLAGS, "1024", 8, 1 << 20, NULL, "N",                 \
      "open files of each process")                                                                \
    X(MAX_OUTPUT, "max_output", BYTES, LIMIT_FLAGS, "20k", 0, 1 << 30, NULL, "SIZE",               \
      "kept of each stream in the result, head and tail")                                          \
    X(OUTPUT_CAP, "output_cap", BYTES, LIMIT_FLAGS, "64m", 1, MAX_BYTES, NULL, "SIZE",             \
      "output in all; past it the run is stopped")                                                 \
    X(PROFILE, "profile", TEXT, FIELD_IN_REQUEST, "default", 0, 0, NULL, "NAME",                   \
      "named set of limits: default, hardened, light, restricted, or one of yours")                \
    X(NETWORK, "network", LIST, FLOOR_FLAGS | FIELD_PROJECT, "none", 0, 0, NULL, "WHAT",           \
      "what the program can reach: none (more is not built yet)")                                  \
    X(BACKEND, "backend", CHOICE, FLOOR_FLAGS, "auto", 0, 0, "auto native docker vm wasm process", \
      "NAME", "way to make the sandbox: auto, native, docker, process")                            \
    X(MIN_ISOLATION, "min_isolation", CHOICE, FLOOR_FLAGS | FIELD_PROJECT | FIELD_HIGHER,          \
      "kernel", 0, 0, "none kernel gvisor vm", "TIER",                                             \
      "minimum isolation; a weaker run is refused: none, kernel, gvisor, vm")                      \
    X(REQUIRE, "require", LIST, FLOOR_FLAGS, NULL, 0, 0, NULL, "LAYER,…",                          \
      "layers that must be in force (all but cgroup)")                                             \
    X(FALLBACK, "fallback", CHOICE, FLOOR_FLAGS, "never", 0, 0, "never isolated unsafe", "HOW",    \
      "what to do if the backend is unavailable: never, isolated, unsafe")                         \
    X(POLICY, "policy", CHOICE, FLOOR_FLAGS | FIELD_PROJECT | FIELD_HIGHER, "warn", 0, 0,          \
      "off warn block", "MODE", "static check: off, warn, block (warn; without isolation block)")  \
    X(POLICY_BYPASS, "policy_bypass", BOOL, FLOOR_FLAGS, "false", 0, 0, NULL, NULL,                \
      "run despite a finding that blocks; audited")                                                \
    X(POLICY_STRICT, "policy_strict", BOOL, FLOOR_FLAGS | FIELD_HIGHER, "false", 0, 0, NULL, NULL, \
      "block, and on warnings too; only shell commands of an allow list run")                      \
    X(STRICT, "strict", BOOL, FLOOR_FLAGS | FIELD_HIGHER, "false", 0, 0, NULL, NULL,               \
      "start a fresh interpreter, with nothing prewarmed")                                         \
    X(STRIP_FENCE, "strip_fence", BOOL, FIELD_IN_REQUEST, "false", 0, 0, NULL, NULL,               \
      "run what is inside the Markdown fence around the code")                                     \
    X(IMAGE, "image", TEXT, FIELD_IN_REQUEST, "host", 0, 0, NULL, "NAME", "root file system")      \
    X(RUNTIME, "runtime", TEXT, FLOOR_FLAGS, NULL, 0, 0, NULL, "NAME",                             \
      "OCI runtime of a container backend")                                                        \
    X(WORKSPACE, "workspace", TEXT, FIELD_IN_REQUEST | FIELD_LOCAL, NULL, 0, 0, NULL, "DIR",       \
      "host folder, seen copy-on-write at /workspace")                                             \
    X(WORKSPACE_RW, "workspace_rw", TEXT, FIELD_IN_REQUEST | FIELD_LOCAL | FIELD_NO_CONFIG, NULL,  \
      0, 0, NULL, "DIR", "host folder that the program changes for good, at /workspace")           \
    X(RO, "ro", LIST, FIELD_IN_REQUEST | FIELD_WHOLE | FIELD_LOCAL, NULL, 0, 0, NULL,              \
      "DIR[=PATH]", "host folder to show read-only, at its own path or at PATH")                   \
    X(COLLECT, "collect", LIST, FIELD_IN_REQUEST | FIELD_WHOLE, NULL, 0, 0, NULL, "GLOB",          \
      "files of /sandbox or /workspace to return in the result")                                   \
    X(SESSION, "session", TEXT, FIELD_IN_REQUEST, NULL, 0, 0, NULL, "ID", "run in this session")   \
    X(SHELL_ALLOW, "shell_allow", LIST, FLOOR_FLAGS, NULL, 0, 0, NULL, "CMD,…",                    \
      "the only commands that a bash or zsh program has")                                          \
    X(DETACH, "detach", BOOL, FIELD_IN_REQUEST, "false", 0, 0, NULL, NULL,                         \
      "answer at once with the id")                                                                \
    X(WEBHOOK, "webhook", TEXT, FIELD_IN_REQUEST, NULL, 0, 0, NULL, "URL",                         \
      "where to post the result")                                                                  \
    X(TTY, "tty", BOOL, FIELD_IN_REQUEST, "false", 0, 0, NULL, NULL,                               \
      "a terminal of cay's own instead of pipes")                                                  \
    X(ROWS, "rows", CHOICE, FIELD_IN_REQUEST, "auto", 0, 0, "auto list table json", "FORM",        \
      "how SQL shows rows: list, table, json (by where they go)")                                  \
    X(BLOCK_IMPORTS, "block_imports", LIST, 0, NULL, 0, 0, NULL, "NAME,…",                         \
      "modules that the static check blocks, beside those of its rules")                           \
    X(ALLOW_IMPORTS, "allow_imports", LIST, 0, NULL, 0, 0, NULL, "NAME,…",                         \
      "modules that it allows, whatever its rules say")                                            \
    X(COMPILE_TIMEOUT, "compile_timeout", SECONDS, 0, "60", 1000000, MAX_SECONDS, NULL, "SECONDS", \
      "wall-clock time of the compiler")                                                           \
    X(COMPILE_MEMORY, "compile_memory", BYTES, 0, "1g", 4 << 20, MAX_BYTES, NULL, "SIZE",          \
      "memory of the compiler")                                                                    \
    X(COMPILE_CACHE, "compile_cache", BYTES, 0, "256m", 0, MAX_BYTES, NULL, "SIZE",                \
      "how much is kept of compiled programs, for each tenant; 0: none")                           \
    X(ENABLE_SANDBOX, "enable_sandbox", BOOL, 0, NULL, 0, 0, NULL, NULL,                           \
      "true: nothing runs without isolation, even if asked for by name")                           \
    X(STORE_CODE, "store_code", CHOICE, 0, "on_error", 0, 0, "never on_error always", "WHEN",      \
      "keep the code of a run: never, on_error, always")                                           \
    X(KEEP_EXECUTIONS, "keep_executions", COUNT, 0, "1000", 0, 1000000, NULL, "N",                 \
      "executions kept for `cay show`; 0: none")                                                   \
    X(KEEP_DAYS, "keep_days", COUNT, 0, "30", 1, 36500, NULL, "DAYS",                              \
      "how long an execution is kept")                                                             \
    X(KEEP_BYTES, "keep_bytes", BYTES, 0, "1g", 0, MAX_BYTES, NULL, "SIZE",                        \
      "how much all kept executions may take")                                                     \
    X(AUDIT_BYTES, "audit_bytes", BYTES, 0, "64m", 65536, MAX_BYTES, NULL, "SIZE",                 \
      "size at which a new file of the audit log is begun")                                        \
    X(AUDIT_FILES, "audit_files", COUNT, 0, "16", 0, 100000, NULL, "N",                            \
      "older files of the audit log that are kept; 0: all")                                        \
    X(SERVER, "server", BOOL, 0, "true", 0, 0, NULL, NULL,                                         \
      "use a server of this user where one is up")                                                 \
    X(WARM, "warm", LIST, 0, "python,javascript,bash,command", 0, 0, NULL, "NAME,…",               \
      "what a server has ready from its start: languages, or command")                             \
    X(PRELOAD, "preload", LIST, 0, NULL, 0, 0, NULL, "[LANGUAGE:]NAME,…",                          \
      "modules that a server's interpreters preload (Python's, unless prefixed)")                  \
    X(SPARES, "spares", COUNT, 0, "4", 0, 1024, NULL, "N",                                         \
      "sandboxes that a server has ready for each language in use; 0: none")                       \
    X(SPARES_MAX, "spares_max", COUNT, 0, "32", 0, 1024, NULL, "N", "the same under load")         \
    X(POOL_MEMORY, "pool_memory", BYTES, 0, "256m", 0, MAX_BYTES, NULL, "SIZE",                    \
      "memory that sandboxes made ahead may take together")                                        \
    X(DOCKER_HOST, "docker_host", TEXT, 0, NULL, 0, 0, NULL, "URL",                                \
      "socket of the container engine")                                                            \
    X(DOCKER_IMAGE, "docker_image", TEXT, 0, "coding-agent-sandbox:latest", 0, 0, NULL, "NAME",    \
      "image of the docker backend")                                                               \
    X(MAX_RUNNING, "max_running", COUNT, 0, "1000", 1, 100000, NULL, "N",                          \
      "runs of a server at once, if memory allows")                                                \
    X(MAX_QUEUE, "max_queue", COUNT, 0, "256", 0, 100000, NULL, "N",                               \
      "requests that wait for their turn; more are refused with 429")                              \
    X(MAX_CONNECTIONS, "max_connections", COUNT, 0, "1024", 1, 100000, NULL, "N",                  \
      "connections to a server at once; more are refused with 503")                                \
    X(MAX_BODY, "max_body", BYTES, 0, "32m", 1024, 1 << 28, NULL, "SIZE",                          \
      "largest request that a server takes")                                                       \
    X(MAX_BODIES, "max_bodies", BYTES, 0, "96m", 1024, MAX_BYTES, NULL, "SIZE",                    \
      "requests, output and answers that a server holds for all its clients together")             \
    X(HEAD_TIMEOUT, "head_timeout", SECONDS, 0, "10", 1000000, MAX_SECONDS, NULL, "SECONDS",       \
      "time that a client has for the head of a request")                                          \
    X(IDLE_TIMEOUT, "idle_timeout", SECONDS, 0, "30", 1000000, MAX_SECONDS, NULL, "SECONDS",       \
      "how long a connection without a request is kept")                                           \
    X(WRITE_TIMEOUT, "write_timeout", SECONDS, 0, "30", 1000000, MAX_SECONDS, NULL, "SECONDS",     \
      "how long a client may leave its answer unread")                                             \
    X(DRAIN, "drain", SECONDS, 0, "30", 1000000, MAX_SECONDS, NULL, "SECONDS",                     \
      "how long runs may go on once a server is told to end")                                      \
    X(EVENT_LOG, "event_log", BYTES, 0, "4m", 0, MAX_BYTES, NULL, "SIZE",                          \
      "events of finished runs that a server keeps in memory")                                     \
    X(WEBHOOK_ALLOW, "webhook_allow", LIST, 0, NULL, 0, 0, NULL, "HOST,…",                         \
      "hosts that webhooks may go to even where not public, as HOST or HOST:PORT")                 \
    X(MEMORY_OVERCOMMIT, "memory_overcommit", MILLI, 0, "4", 1000, 1000000, NULL, "N",             \
      "memory limits of a server's runs may add up to N times what is free")                       \
    X(MEMORY_RESERVE, "memory_reserve", BYTES, 0, "256m", 0, MAX_BYTES, NULL, "SIZE",              \
      "memory that a server's runs leave free for others")                                         \
    X(RUNS_PER_CORE, "runs_per_core", COUNT, 0, "4", 1, 10000, NULL, "N",                          \
      "runs per core that a server starts, whatever their limits")                                 \
    X(LOG_LEVEL, "log_level", CHOICE, 0, "info", 0, 0, "error warn info debug", "LEVEL",           \
      "what a server logs: error, warn, info, debug")                                              \
    X(LOG_FORMAT, "log_format", CHOICE, 0, "logfmt", 0, 0, "logfmt json", "FORM",                  \
      "how a server logs: logfmt, json")

enum field_id {
#define FIELD_ENUM(id, ...) FIELD_##id,
    FIELDS(FIELD_ENUM)
#undef FIELD_ENUM
        FIELD_N
};

struct field {
    const char *name;
    enum field_kind kind;
    unsigned flags;
    const char *initial;
    uint64_t min, max;
    const char *choices; /* words, tightest last where FIELD_HIGHER */
    const char *arg;
    const char *help;
};

/* A value: num or text or list by the field's kind. A field without any is !is_set. */
struct value {
    bool is_set;
    uint64_t num;
    const char *text;
    const char *const *list; /* NULL-terminated */
    size_t n, room;          /* of field_push */
};

extern const struct field fields[FIELD_N];

/* Bounds of what a field may hold: entries of a list, however they are given, and bytes of a text
 * or of one entry. */
enum { FIELD_ENTRIES_MAX = 1024, FIELD_TEXT_MAX = 4096 };

/* CAY_E_USAGE for a list that would have this many entries. */
int field_check_count(const char *name, size_t n, struct cay_error *err);

/* FIELD_N when there is none of that name. */
enum field_id field_find(const char *name);

/* Parses text as the field's kind and checks its bounds; the message names the field, what was
 * given and what is allowed. A list is split at commas, unless FIELD_WHOLE. */
int field_parse(struct arena *arena, enum field_id id, const char *text, struct value *ret,
                struct cay_error *err);

/* The same where an administrator's cap is known: messages name it as the maximum that is
 * allowed. Whoever asks for more is refused by the plan. A cap may be NULL or not set. */
int field_parse_capped(struct arena *arena, enum field_id id, const char *text,
                       const struct value *cap, struct value *ret, struct cay_error *err);

/* CAY_E_USAGE for a JSON value that is not of the field's kind at all: "an object". */
int field_fail_kind(enum field_id id, const char *given, const struct value *cap,
                    struct cay_error *err);

/* Adds one entry to a list value; the old list stays as it was. */
void field_append(struct arena *arena, struct value *value, const char *text);

/* Whether this text is one of the list's. */
bool field_has(const struct value *list, const char *text);

/* The same for a list that began empty, is filled by this alone and has no copies meanwhile: of
 * many entries none is copied often. */
void field_push(struct arena *arena, struct value *value, const char *text);

/* The value as text in the field's own form: "512m", "30", "none". */
const char *field_text(struct arena *arena, enum field_id id, const struct value *value);

/* Whether a is tighter than, or as tight as, b: lower numbers, fewer hosts and commands, more
 * layers; of a backend or runtime, which have no order: the same. */
bool field_is_tighter(enum field_id id, const struct value *a, const struct value *b);

/* CAY_E_USAGE for a name that is not a field, with the nearest one as a hint. */
int field_fail_unknown(const char *name, unsigned flags, struct cay_error *err);
