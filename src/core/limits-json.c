/* SPDX-License-Identifier: Apache-2.0 */
#include "core/limits-json.h"

#include <cay/limits.h>

#include "base/clock.h"
#include "base/json.h"

void limits_put(struct json_writer *w, const struct cay_limits *limits)
{
    json_field_real(w, "timeout", clock_seconds(limits->timeout_ns));
    json_field_uint(w, "max_output", limits->max_output_bytes);
    json_field_uint(w, "memory", limits->memory_bytes);
    json_field_uint(w, "swap", limits->swap_bytes);
    json_field_real(w, "cpus", (double)limits->cpus_milli / 1000);
    json_field_uint(w, "cpu_shares", limits->cpu_shares);
    if (limits->cpu_time_ns > 0)
        json_field_real(w, "cpu_time", clock_seconds(limits->cpu_time_ns));
    else
        json_field_null(w, "cpu_time");
    json_field_uint(w, "pids", limits->pids);
    json_field_uint(w, "disk", limits->disk_bytes);
    json_field_uint(w, "inodes", limits->inodes);
    json_field_uint(w, "open_files", limits->open_files);
    json_field_uint(w, "output_cap", limits->output_cap_bytes);
}

/* null where this host has no counter for it: better unknown than guessed. */
static void put_counter(struct json_writer *w, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        json_field_null(w, key);
    else
        json_field_uint(w, key, value);
}

void usage_put(struct json_writer *w, const struct cay_usage *usage)
{
    json_field_real(w, "cpu_time", clock_seconds(usage->cpu_time_ns));
    put_counter(w, "memory_peak", usage->memory_peak_bytes);
    put_counter(w, "pids_peak", usage->pids_peak);
    json_field_uint(w, "stdout_bytes", usage->stdout_bytes);
    json_field_uint(w, "stderr_bytes", usage->stderr_bytes);
}

void usage_put_now(struct json_writer *w, const struct cay_usage *usage)
{
    usage_put(w, usage);
    put_counter(w, "memory", usage->memory_bytes);
    put_counter(w, "pids", usage->pids);
}
