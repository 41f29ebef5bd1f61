/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The layers of isolation, each independent of the others. A set of them is a bit mask; the names
 * are those of `require` and of meta.isolation.layers. "cgroup" stands for the three of its kind.
 */

#include <stdbool.h>
#include <stdint.h>

struct cay_error;

#define LAYERS(X)                     \
    X(USER_NS, "user_ns")             \
    X(PID_NS, "pid_ns")               \
    X(MOUNT_NS, "mount_ns")           \
    X(NET_NS, "net_ns")               \
    X(IPC_NS, "ipc_ns")               \
    X(UTS_NS, "uts_ns")               \
    X(CGROUP_NS, "cgroup_ns")         \
    X(CGROUP_MEMORY, "cgroup:memory") \
    X(CGROUP_PIDS, "cgroup:pids")     \
    X(CGROUP_CPU, "cgroup:cpu")       \
    X(SECCOMP, "seccomp")             \
    X(LANDLOCK, "landlock")           \
    X(NO_NEW_PRIVS, "no_new_privs")   \
    X(CAPS_DROPPED, "caps_dropped")   \
    X(NONROOT, "nonroot")             \
    X(RLIMITS, "rlimits")             \
    X(WATCHER, "watcher")

enum layer {
#define LAYER_ENUM(name, word) LAYER_##name,
    LAYERS(LAYER_ENUM)
#undef LAYER_ENUM
        LAYER_N
};

#define LAYER_BIT(name) (UINT32_C(1) << LAYER_##name)

#define LAYER_CGROUP_BITS \
    (LAYER_BIT(CGROUP_MEMORY) | LAYER_BIT(CGROUP_PIDS) | LAYER_BIT(CGROUP_CPU))

/* What a request requires unless it says otherwise: all but cgroup. */
#define LAYER_REQUIRE_DEFAULT \
    (((UINT32_C(1) << LAYER_N) - 1) & ~(LAYER_CGROUP_BITS | LAYER_BIT(WATCHER)))

/* Without these the native backend keeps none of its promises; no request can do without. */
#define LAYER_CORE_BITS                                                                \
    (LAYER_BIT(PID_NS) | LAYER_BIT(MOUNT_NS) | LAYER_BIT(NET_NS) | LAYER_BIT(IPC_NS) | \
     LAYER_BIT(NO_NEW_PRIVS) | LAYER_BIT(CAPS_DROPPED) | LAYER_BIT(NONROOT) | LAYER_BIT(RLIMITS))

const char *layer_name(enum layer layer);

/* The bits behind a name of `require`; 0: there is no such layer. */
uint32_t layer_bits(const char *name);

/* All words that `require` takes, NULL-terminated. */
const char *const *layer_words(void);

/* Whether it is the word of `require` that asks for nothing beyond the core layers. */
bool layer_is_none(const char *name);

/* CAY_E_USAGE for a word of `require` that names no layer, with the nearest one as a hint. */
int layer_fail_unknown(const char *name, struct cay_error *err);
