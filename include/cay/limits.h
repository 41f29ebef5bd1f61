/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIMITS_H
#define CAY_LIMITS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The limits in force for one stage of a run. 0 in cpu_time_ns means: no limit. */
struct cay_limits {
    int64_t timeout_ns;        /* wall clock */
    int64_t cpu_time_ns;       /* CPU time of all processes together */
    uint64_t memory_bytes;     /* heap, tmpfs, shared memory, socket buffers: one sum */
    uint64_t swap_bytes;       /* on top of memory */
    uint64_t disk_bytes;       /* all that can be written, /tmp and /dev/shm included */
    uint64_t inodes;           /* files and folders that can be made */
    uint64_t max_output_bytes; /* kept of each stream in the result */
    uint64_t output_cap_bytes; /* written in all; past it the run is stopped */
    uint32_t cpus_milli;       /* 1000 is one CPU */
    uint32_t cpu_shares;       /* weight where CPUs are contended; 1024 is a full one */
    uint32_t pids;             /* processes and threads at once */
    uint32_t open_files;       /* for each process */
};

/* What a stage used, by the kernel's own counters. UINT64_MAX: this host has no counter for it. */
struct cay_usage {
    int64_t cpu_time_ns;
    uint64_t memory_peak_bytes;
    uint64_t pids_peak; /* by a cgroup: of all stages so far, for the kernel never resets it */
    uint64_t stdout_bytes;
    uint64_t stderr_bytes;
    uint64_t memory_bytes; /* in use now; UINT64_MAX too once the stage has ended */
    uint64_t pids;         /* the same of processes and threads */
};

#ifdef __cplusplus
}
#endif
#endif
