/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this host gives to this user, and what stands in the way. Three steps, apart from each
 * other so that each can be tested by itself:
 *
 *     facts_read     what files and variables say, below a folder that tests can make up
 *     facts_try      what the kernel really does, each in a process of its own with a deadline
 *     doctor_judge   a finding for each row of a table, by the facts alone
 *
 * A sysctl says what an administrator wanted; only a try shows what happens. So the tries say
 * whether something works, and what was read only explains why not, and what to do about it. The
 * run of a real sandbox has the last word (doctor.c).
 *
 * The public face is <cay/doctor.h>.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/docker/engine-address.h"
#include "base/arena.h"
#include "sys/userns.h"

/* ---- facts ---- */

/* What is tried: a name of its own for each, and what has to be there before (doctor-probe.c). */
enum probe {
    PROBE_USER_NS,
    PROBE_ID_MAP,
    PROBE_PID_NS,
    PROBE_MOUNT_NS,
    PROBE_NET_NS,
    PROBE_IPC_NS,
    PROBE_UTS_NS,
    PROBE_CGROUP_NS,
    PROBE_MOUNT_API,
    PROBE_PIVOT,
    PROBE_PROC,
    PROBE_DEVPTS,
    PROBE_OVERLAY,
    PROBE_IDMAP,
    PROBE_NO_NEW_PRIVS,
    PROBE_SECCOMP,
    PROBE_NOTIFY,
    PROBE_LANDLOCK,
    PROBE_CAPS,
    PROBE_RLIMITS,
    PROBE_PIDFD,
    PROBE_CLONE3,
    PROBE_CLOSE_RANGE,
    PROBE_MEMFD,
    PROBE_OPENAT2,
    PROBE_CGROUP,
    PROBE_N
};

enum { PROBE_UNTRIED = -1 };

struct probe_result {
    int errnum;    /* 0: it works; PROBE_UNTRIED: something else is missing first */
    char what[48]; /* the step that failed, or what is missing first */
};

/* Where the host itself runs; any number of them. */
#define PLACES(X)                 \
    X(DOCKER, "docker")           \
    X(PODMAN, "podman")           \
    X(KUBERNETES, "kubernetes")   \
    X(LXC, "lxc")                 \
    X(NSPAWN, "systemd-nspawn")   \
    X(CONTAINER, "container")     \
    X(USER_NS, "user namespace")  \
    X(WSL1, "wsl1")               \
    X(WSL2, "wsl2")               \
    X(GVISOR, "gvisor")           \
    X(FIRECRACKER, "firecracker") \
    X(VM, "virtual machine")

enum place {
#define PLACE_ENUM(name, word) PLACE_##name,
    PLACES(PLACE_ENUM)
#undef PLACE_ENUM
        PLACE_N
};

#define PLACE_BIT(name) (UINT32_C(1) << PLACE_##name)

const char *place_name(enum place place);

enum cgroup_layout { CGROUPS_NONE, CGROUPS_V1, CGROUPS_HYBRID, CGROUPS_V2 };

enum tool_state { TOOL_ABSENT, TOOL_PRESENT, TOOL_REFUSED, TOOL_SILENT };

enum { TOOL_DOCKER, TOOL_PODMAN, TOOL_KVM, TOOL_QEMU, TOOL_RUNSC, TOOL_BWRAP, FACTS_TOOLS };

/* The container engine, as it was found by its own API; strings are never NULL where it answers,
 * but for api. */
struct engine_facts {
    bool is_asked;    /* else the rest is not known */
    bool is_wanted;   /* a setting names the backend docker, */
    bool wants_runsc; /* with that runtime */
    bool answers;
    int errnum;          /* of the connection; 0: there was one */
    const char *message; /* why it can't be had */
    const char *address;
    const char *name, *version, *api; /* "Docker", "20.10.24", "1.41" */
    bool is_rootless, has_runsc;
    struct engine_programs programs;
    bool has_group, in_group; /* the group docker is there; this user is in it, by /etc/group */
};

struct facts {
    struct arena *arena; /* holds every string */

    uint32_t uid;
    const char *user; /* the name, or the number where there is none */
    const char *exe;  /* this program, to be named in advice */

    const char *machine; /* "x86_64" */
    const char *release; /* "6.1.0-18-amd64" */
    unsigned version;    /* 601 for 6.1 */
    const char *os_id;   /* "debian", "ubuntu", … with what it is like behind it; "" */
    const char *os_name; /* "Debian GNU/Linux 12 (bookworm)", or "" */
    uint32_t places;
    const char *vm; /* what the machine calls itself, or NULL */
    int64_t clock_s;

    int64_t max_user_ns;     /* switches of the kernel: -1 where there is none to be read */
    int64_t userns_clone;    /* Debian's kernels */
    int64_t apparmor_userns; /* Ubuntu's */
    int64_t selinux;         /* 1: enforcing */
    const char *lsm;         /* "lockdown,capability,landlock,yama", or NULL */
    const char *proc_mask;   /* a mount that lies over a part of /proc, or NULL */
    unsigned proc_masks;
    int64_t seccomp_mode; /* of the caller: 2 when a filter is on it already */
    bool no_new_privs;    /* on the caller */

    enum cgroup_layout cgroup_layout;
    bool cgroup_read_only;
    bool cgroup_memory_off;         /* the kernel was booted without it */
    const char *cgroup_controllers; /* of the kernel, or of this part of the tree */
    int cgroup_version;             /* what can be used: 0, 1, 2 */
    bool cgroup_cpu;
    bool has_swap, swap_counted;
    bool has_systemd, has_systemd_user;

    enum identity_kind identity; /* what the next run would get */
    uint64_t subuids, subgids;   /* of this user; 0: none */
    uint64_t subids_next;        /* where nobody's range is yet */
    int newuidmap;               /* 0: not there; 1: no privilege on it; 2: fine */

    uint64_t nproc, nofile, fsize; /* hard limits of the caller; UINT64_MAX: none */
    const char *state_path;        /* NULL: there is no place for one */
    int state_errnum;              /* 0: can be written */
    uint64_t state_free;
    const char *settings; /* what configuration changes about the default run; NULL: nothing */

    enum tool_state tools[FACTS_TOOLS];
    struct engine_facts engine;

    const char *grammars_missing; /* "go, r"; "": none; NULL: nobody has tried */
    const char *prewarm_missing;  /* "php, ruby": cay was built without their headers; as above */
    const char *syntax_error;     /* why the syntax worker does not answer, or NULL */

    int landlock_abi;
    struct probe_result tried[PROBE_N];
};

/* Reads below root_fd ("/" but in tests), and variables of "NAME=value". Fills what files say. */
void facts_read(struct facts *f, int root_fd, const char *const *environment);

/* Which of the places: by files below root_fd and by variables. Part of facts_read. */
void facts_read_place(struct facts *f, int root_fd, const char *const *environment);

/* Whether this user is in the group docker. Part of facts_read. */
void facts_read_group(struct facts *f, int root_fd);

/* Asks the engine. */
void facts_ask_engine(struct facts *f, const struct engine_places *places);

/* Helpers of the two: a file's text in the arena (NULL: it can't be read), a number that is alone
 * in a file (-1), a variable (NULL). */
const char *facts_text(struct facts *f, int root_fd, const char *path);
int64_t facts_number(int root_fd, const char *path);
const char *facts_variable(const char *const *environment, const char *name);

/* Tries everything, and asks about the caller itself. state_fd may be -1. */
void facts_try(struct facts *f, int state_fd);

/* Asks the syntax worker about each language. */
void facts_try_syntax(struct facts *f);

/* Looks for the programs that interpreters are started ahead with. */
void facts_find_prewarm(struct facts *f);

/* For a try whose step of that name has failed: puts the name into what, returns -errno. */
int probe_step(char what[static 48], const char *name);

/* The tries that have to do with mounts; each runs in a process of its own that may mount, and
 * returns -errno with the step in what. */
int probe_mount_api(char what[static 48]);
int probe_pivot(char what[static 48]);
int probe_proc(char what[static 48]);
int probe_devpts(char what[static 48]);
int probe_overlay(char what[static 48]);
int probe_idmap(char what[static 48]);

/* ---- findings ---- */

enum finding_status { FINDING_OK, FINDING_WARN, FINDING_FAIL, FINDING_SKIP };

struct fix {
    const char *text;    /* what to do */
    const char *command; /* to type, or NULL */
};

enum { FIXES_MAX = 6 };

struct finding {
    const char *id;    /* "user_ns", "language:go": stable */
    const char *group; /* "namespaces" */
    const char *title;
    const char *why; /* what it is needed for */
    enum finding_status status;
    const char *fact; /* what was found */
    struct fix fixes[FIXES_MAX];
    unsigned n_fixes;
};

struct check {
    const char *id;
    const char *group;
    const char *title;
    const char *why;
    /* Checks of one try need no more than these: what its failing means, the version that has it
     * (601 for 6.1), and what a kernel is built with for it. */
    enum probe probe; /* PROBE_N: judge says it all */
    enum finding_status bad;
    unsigned since;
    const char *config;
    /* Says it all, or adds the fixes of this check to what a try has found; may be NULL. */
    void (*judge)(const struct facts *f, struct finding *out);
};

/* The rows, in the order of the report; each list ends with a row without an id. */
extern const struct check checks_host[], checks_kernel[], checks_cgroup[], checks_user[],
    checks_tools[];

/* The finding of one row. */
void doctor_judge(const struct facts *f, const struct check *check, struct finding *ret);

/* For judges: the status and what was found; one more thing to do about it (command may be NULL, or
 * is a format). */
void finding_say(const struct facts *f, struct finding *out, enum finding_status status,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void finding_fix(const struct facts *f, struct finding *out, const char *text, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Judges of the rows about it, in doctor-engine.c. */
void judge_docker(const struct facts *f, struct finding *out);
void judge_runsc(const struct facts *f, struct finding *out);

/* Judges that are in a file of their own: doctor-syntax.c. */
void judge_syntax_worker(const struct facts *f, struct finding *out);
void judge_grammars(const struct facts *f, struct finding *out);
void judge_prewarm(const struct facts *f, struct finding *out);

/* "sudo ", or "" for root. */
const char *facts_sudo(const struct facts *f);

/* The command that installs a package, by its name in Debian, on this system; NULL when this
 * system's name for it isn't known. */
const char *facts_install(const struct facts *f, const char *package);

/* What to do for the kernel to be booted with these words on its command line. */
void finding_fix_boot(const struct facts *f, struct finding *out, const char *text,
                      const char *words);

/* What has to be changed about the container, if this is one. Returns whether there was. */
bool finding_fix_place(const struct facts *f, struct finding *out);
