/* SPDX-License-Identifier: Apache-2.0 */
#include "core/limits.h"

#include "base/auto.h"
#include "core/config.h"

enum { COMPILE_PIDS = 64, COMPILE_CPUS_MILLI = 1000 };

struct cay_limits limits_from_fields(limits_number_fn *number, const void *arg)
{
    uint64_t memory = number(arg, FIELD_MEMORY), disk = number(arg, FIELD_DISK);

    return (struct cay_limits){
        .timeout_ns = (int64_t)number(arg, FIELD_TIMEOUT),
        .cpu_time_ns = (int64_t)number(arg, FIELD_CPU_TIME),
        .memory_bytes = memory,
        .swap_bytes = number(arg, FIELD_SWAP),
        /* What is written counts as memory too: at least half is left for the program. */
        .disk_bytes = memory > 0 ? MIN(disk, memory / 2) : disk,
        .inodes = number(arg, FIELD_INODES),
        .max_output_bytes = number(arg, FIELD_MAX_OUTPUT),
        .output_cap_bytes = number(arg, FIELD_OUTPUT_CAP),
        .cpus_milli = (uint32_t)number(arg, FIELD_CPUS),
        .cpu_shares = (uint32_t)number(arg, FIELD_CPU_SHARES),
        .pids = (uint32_t)number(arg, FIELD_PIDS),
        .open_files = (uint32_t)number(arg, FIELD_OPEN_FILES),
    };
}

/* More where there is a limit at all. */
static uint32_t at_least(uint32_t value, uint32_t min)
{
    return value == 0 ? 0 : MAX(value, min);
}

struct cay_limits limits_for_compiler(const struct cay_limits *run, int64_t timeout_ns,
                                      uint64_t memory_bytes)
{
    struct cay_limits compile = *run;

    compile.timeout_ns = timeout_ns;
    compile.cpu_time_ns = 0;
    compile.memory_bytes = run->memory_bytes == 0 ? 0 : MAX(run->memory_bytes, memory_bytes);
    compile.pids = at_least(run->pids, COMPILE_PIDS);
    compile.cpus_milli = at_least(run->cpus_milli, COMPILE_CPUS_MILLI);
    return compile;
}

static uint64_t setting_number(const void *arg, enum field_id id)
{
    const struct config *config = arg;
    return config->settings[id].value.num;
}

static uint64_t cap_number(const void *arg, enum field_id id)
{
    const struct config *config = arg;
    return config->caps[id].value.num;
}

struct cay_limits limits_usual(const struct config *config)
{
    return limits_from_fields(setting_number, config);
}

struct cay_limits limits_max(const struct config *config)
{
    struct cay_limits max = limits_from_fields(cap_number, config);

    max.disk_bytes = config->caps[FIELD_DISK].value.num; /* however much memory one asks for */
    return max;
}

struct cay_limits limits_compile_max(const struct config *config)
{
    const struct setting *settings = config->settings;
    const struct cay_limits max = limits_max(config);

    return limits_for_compiler(&max, (int64_t)settings[FIELD_COMPILE_TIMEOUT].value.num,
                               settings[FIELD_COMPILE_MEMORY].value.num);
}
