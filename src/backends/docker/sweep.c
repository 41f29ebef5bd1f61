/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers whose keeper is dead. Each names its maker by boot, pid namespace, pid and start time,
 * which no other process ever has: so a live neighbour's is never touched, nor another machine's on
 * the same engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "base/auto.h"
#include "net/http.h"
#include "sys/file.h"

/* "BOOT-ID NAMESPACE " of this machine and pid namespace. */
static int place_of(char *buf, size_t size)
{
    char boot[64];
    struct stat st;

    if (file_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot) < 0 ||
        stat("/proc/self/ns/pid", &st) < 0)
        return -errno;
    boot[strcspn(boot, "\n")] = '\0';
    return snprintf(buf, size, "%s %llu ", boot, (unsigned long long)st.st_ino);
}

/* Field 22 of /proc/PID/stat; the name before it may hold anything. 0: no such process. */
static unsigned long long start_of(long pid)
{
    char path[64], text[1024];

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    const char *at = strrchr(text, ')');
    for (int i = 0; at && i < 20; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

void sweep_owner(char *buf, size_t size)
{
    int len = place_of(buf, size);

    if (len < 0 || (size_t)len >= size)
        len = 0;
    snprintf(buf + len, size - (size_t)len, "%ld %llu", (long)getpid(), start_of(getpid()));
}

static bool is_left(const char *owner)
{
    char place[128];
    int len = place_of(place, sizeof place);
    char *end;

    if (!owner || len <= 0 || strncmp(owner, place, (size_t)len) != 0)
        return false;
    long pid = strtol(owner + len, &end, 10);
    return start_of(pid) != strtoull(end, NULL, 10);
}

/* Labels alone prove nothing: an image that was made of a container of ours has them too, and gives
 * them to each container that somebody makes of it. Names are given to one only, and by its maker.
 */
static bool has_own_name(const json_t *container, const char *run)
{
    const json_t *names = json_object_get(container, "Names"), *name;
    size_t i;

    json_array_foreach (names, i, name) {
        const char *text = json_string_value(name);
        if (text && run &&
            strncmp(text, "/" DOCKER_NAME_PREFIX, strlen(DOCKER_NAME_PREFIX) + 1) == 0 &&
            strcmp(text + strlen(DOCKER_NAME_PREFIX) + 1, run) == 0)
            return true;
    }
    return false;
}

int sweep_containers(struct api *api, bool dry_run)
{
    auto_strbuf struct strbuf target = { 0 };
    struct cay_error ignored;
    json_t *answer = NULL;
    const json_t *one;
    int n = 0;
    size_t i;

    strbuf_puts(&target, "/containers/json?all=true&filters=");
    http_escape(&target, "{\"label\":[\"" DOCKER_LABEL_RUN "\"]}");
    if (api_call(api, "GET", strbuf_str(&target), NULL, &answer, &ignored) != 200) {
        json_decref(answer);
        return -1;
    }
    json_array_foreach (answer, i, one) {
        const json_t *labels = json_object_get(one, "Labels");
        const char *id = json_string_value(json_object_get(one, "Id"));
        if (!id || strlen(id) > 64 ||
            !has_own_name(one, json_string_value(json_object_get(labels, DOCKER_LABEL_RUN))) ||
            !is_left(json_string_value(json_object_get(labels, DOCKER_LABEL_OWNER))))
            continue;
        if (!dry_run)
            container_remove(api, id);
        n++;
    }
    json_decref(answer);
    return n;
}
