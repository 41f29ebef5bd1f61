/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel counted. The engine's word of it costs a call and lacks some; where its cgroups
 * are this machine's, the files are read. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "base/auto.h"
#include "net/http.h"
#include "sys/file.h"

static long long pid_of(struct api *api, const struct container *container)
{
    struct cay_error ignored;
    json_t *answer = NULL;
    char target[96];

    snprintf(target, sizeof target, "/containers/%s/json", container->id);
    if (api_call(api, "GET", target, NULL, &answer, &ignored) != 200)
        answer = NULL;
    long long pid = json_integer_value(json_object_get(json_object_get(answer, "State"), "Pid"));
    json_decref(answer);
    return pid;
}

static int open_group(const char *controller, const char *path)
{
    char full[512];

    snprintf(full, sizeof full, "/sys/fs/cgroup/%s%s", controller, path);
    return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (; *list; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ',')) {
        if (strcspn(list, ",") == len && strncmp(list, word, len) == 0)
            return true;
        if (!list[strcspn(list, ",")])
            break;
    }
    return false;
}

/* A line of /proc/PID/cgroup: "4:memory:/docker/ID", "0::/docker/ID". */
static void take_line(char *line, struct counters *ret)
{
    static const char *const names[CGROUP_N] = { "memory", "pids", "cpu", "cpuacct" };
    char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;

    if (!second)
        return;
    *second = '\0';
    const char *list = first + 1, *path = second + 1;
    for (int i = 0; i < CGROUP_N && *list; i++)
        if (has_word(list, names[i]) && ret->group.dir[i] < 0)
            ret->group.dir[i] = open_group(names[i], path);
    if (!*list && strncmp(line, "0:", 2) == 0 && ret->group.dir[CGROUP_MEMORY] < 0) {
        int fd = open_group("", path);
        if (fd >= 0 && faccessat(fd, "memory.events", R_OK, 0) == 0) {
            ret->group.dir[CGROUP_MEMORY] = fd;
            ret->host.version = 2;
        } else {
            close_fd(&fd);
        }
    }
}

void counters_open(struct api *api, const struct container *container, struct counters *ret)
{
    char path[64], text[4096], *save = NULL;
    long long pid = pid_of(api, container);

    *ret = (struct counters){ 0 };
    for (int i = 0; i < CGROUP_N; i++)
        ret->group.dir[i] = ret->group.join[i] = ret->host.parent[i] = -1;
    for (int i = 0; i < CGROUP_COUNTERS; i++)
        ret->group.counters[i] = -1;
    ret->group.host = &ret->host;
    snprintf(path, sizeof path, "/proc/%lld/cgroup", pid);
    /* Another machine's pid may be somebody's here: the container's id has to be in the path. */
    if (pid <= 1 || file_read_at(AT_FDCWD, path, text, sizeof text) < 0 ||
        !strstr(text, container->id))
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        take_line(line, ret);
    if (ret->host.version == 0 && ret->group.dir[CGROUP_MEMORY] >= 0)
        ret->host.version = 1;
    for (int i = 0; i < CGROUP_N; i++)
        ret->host.has[i] = ret->group.dir[ret->host.version == 2 ? CGROUP_MEMORY : i] >= 0;
}

static uint64_t number_at(const json_t *object, const char *a, const char *b, const char *c)
{
    const json_t *value = json_object_get(object, a);

    value = json_object_get(value, b);
    if (c)
        value = json_object_get(value, c);
    return json_is_integer(value) ? (uint64_t)json_integer_value(value) : UINT64_MAX;
}

static void ask_engine(struct api *api, const struct container *container,
                       struct cgroup_counters *ret)
{
    struct cay_error ignored;
    json_t *answer = NULL;
    char target[128];

    snprintf(target, sizeof target, "/containers/%s/stats?stream=false&one-shot=true",
             container->id);
    if (api_call(api, "GET", target, NULL, &answer, &ignored) == 200) {
        ret->cpu_ns = number_at(answer, "cpu_stats", "cpu_usage", "total_usage");
        ret->memory_peak = number_at(answer, "memory_stats", "max_usage", NULL);
    }
    json_decref(answer);
    answer = NULL;
    snprintf(target, sizeof target, "/containers/%s/json", container->id);
    if (api_call(api, "GET", target, NULL, &answer, &ignored) == 200)
        ret->oom_kills =
            json_is_true(json_object_get(json_object_get(answer, "State"), "OOMKilled"));
    json_decref(answer);
}

bool counters_saw_oom(struct api *api, const struct container *container, int64_t since_s)
{
    auto_strbuf struct strbuf target = { 0 }, filters = { 0 };
    struct cay_error ignored;
    json_t *answer = NULL;

    strbuf_printf(&filters, "{\"event\":[\"oom\"],\"container\":[\"%s\"]}", container->id);
    strbuf_printf(&target, "/events?since=%lld&until=%lld&filters=", (long long)since_s,
                  (long long)time(NULL) + 1); /* the clock of events is finer */
    http_escape(&target, strbuf_str(&filters));
    if (api_call(api, "GET", strbuf_str(&target), NULL, &answer, &ignored) != 200)
        return false;
    bool is_oom = json_is_object(answer);
    json_decref(answer);
    return is_oom;
}

void counters_read(struct counters *counters, struct api *api, const struct container *container,
                   struct cgroup_counters *ret)
{
    *ret = (struct cgroup_counters){ UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX };
    if (counters->host.version == 0) {
        ask_engine(api, container, ret);
        return;
    }
    cgroup_read(&counters->group, ret);
}
