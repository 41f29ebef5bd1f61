/* SPDX-License-Identifier: Apache-2.0 */
/* The server as a process: started, stopped, weighed; and what it leaves behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "load.h"
#include "sys/rmtree.h"

enum { TEXT_SIZE = 65536, START_SECONDS = 30, GROUPS_MAX = 8192 };

static void rest_ms(long ms)
{
    const struct timespec ts = { ms / 1000, ms % 1000 * NS_PER_MSEC };
    nanosleep(&ts, NULL);
}

static bool read_text(const char *path, char out[static TEXT_SIZE])
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 0;

    while (fd >= 0 && (n = read(fd, out + len, TEXT_SIZE - 1 - len)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    return fd >= 0 && n >= 0;
}

static bool write_text(const char *path, const char *text)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* ---- processes ---- */

/* When a process was started; 0: it is not there, or a zombie. */
static uint64_t start_time(pid_t pid)
{
    char path[64], text[TEXT_SIZE], state = 'Z';
    unsigned long long started = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_text(path, text) || !strrchr(text, ')'))
        return 0;
    sscanf(strrchr(text, ')'),
           ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
           &state, &started);
    return state == 'Z' ? 0 : started;
}

static void list_below(struct host_server *server, pid_t pid, int depth)
{
    char path[64], text[TEXT_SIZE];

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (depth > 16 || !read_text(path, text))
        return;
    for (char *rest = NULL, *word = strtok_r(text, " \n", &rest); word;
         word = strtok_r(NULL, " \n", &rest)) {
        pid_t child = atoi(word);
        if (server->n_processes == PROCESSES_MAX)
            return;
        server->processes[server->n_processes].pid = child;
        server->processes[server->n_processes++].started = start_time(child);
        list_below(server, child, depth + 1);
    }
}

static uint64_t pss_of(pid_t pid)
{
    char path[64], text[TEXT_SIZE];
    unsigned long long kib = 0;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    const char *line = read_text(path, text) ? strstr(text, "\nPss:") : NULL;
    if (line)
        sscanf(line, "\nPss: %llu", &kib);
    return kib * 1024;
}

uint64_t host_pss(const struct host_server *server)
{
    char path[64], text[TEXT_SIZE];
    uint64_t sum = pss_of(server->pid);

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)server->pid, (int)server->pid);
    if (!read_text(path, text))
        return sum;
    for (char *rest = NULL, *word = strtok_r(text, " \n", &rest); word;
         word = strtok_r(NULL, " \n", &rest))
        sum += pss_of(atoi(word));
    return sum;
}

/* Memory that a process has of its own, from smaps_rollup. */
static uint64_t private_of(pid_t pid)
{
    static const char *const keys[] = { "\nPrivate_Clean:", "\nPrivate_Dirty:" };
    char path[64], text[TEXT_SIZE];
    uint64_t sum = 0;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    if (!read_text(path, text))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *line = strstr(text, keys[i]);
        sum += line ? strtoull(line + strlen(keys[i]), NULL, 10) * 1024 : 0;
    }
    return sum;
}

void host_show_memory(const struct host_server *server)
{
    struct host_server *copy = mem_alloc(sizeof *copy);
    struct {
        char name[32];
        size_t n;
        uint64_t pss, own;
    } rows[32] = { 0 };
    size_t n_rows = 0;

    *copy = *server;
    copy->processes[0].pid = server->pid;
    copy->n_processes = 1;
    list_below(copy, server->pid, 0);
    for (size_t i = 0; i < copy->n_processes; i++) {
        char path[64], name[TEXT_SIZE];
        size_t row = 0;
        snprintf(path, sizeof path, "/proc/%d/comm", (int)copy->processes[i].pid);
        if (!read_text(path, name))
            continue;
        name[strcspn(name, "\n")] = '\0';
        while (row < n_rows && strcmp(rows[row].name, name) != 0)
            row++;
        if (row == ARRAY_LEN(rows))
            continue;
        n_rows = MAX(n_rows, row + 1);
        snprintf(rows[row].name, sizeof rows[row].name, "%.31s", name);
        rows[row].n++;
        rows[row].pss += pss_of(copy->processes[i].pid);
        rows[row].own += private_of(copy->processes[i].pid);
    }
    printf("%-18s %8s %12s %16s\n", "process", "count", "PSS MB each", "private MB each");
    for (size_t i = 0; i < n_rows; i++)
        printf("%-18s %8zu %12.3f %16.3f\n", rows[i].name, rows[i].n,
               (double)rows[i].pss / 1e6 / (double)rows[i].n,
               (double)rows[i].own / 1e6 / (double)rows[i].n);
    free(copy);
}

/* ---- starting and stopping ---- */

static size_t count_mounts(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    size_t n = 0;

    for (int c; file && (c = getc(file)) != EOF;)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

static void make_token(char out[static 64])
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        abort();
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static pid_t spawn(const char *cay, const char *tokens, const char *log)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int null_fd = open("/dev/null", O_RDONLY);
    if (fd < 0 || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(125);
    setenv("CAY_LOG_LEVEL", "warn", 1);
    execl(cay, cay, "serve", "--listen", "127.0.0.1:0", "--socket", "none", "--token-file", tokens,
          (char *)NULL);
    _exit(127);
}

/*
 * A state folder of the server's own: thousands of runs would push the user's out of his. Root's is
 * always the same path, and another folder only in a mount namespace; but which uids are taken is
 * for all to see (sys/userns.c).
 */
static const char root_state[] = "/var/lib/cay", root_slots[] = "/var/lib/cay/slots";

static int make_state(const char *folder)
{
    char state[128], slots[160];

    snprintf(state, sizeof state, "%s/state", folder);
    snprintf(slots, sizeof slots, "%s/slots", state);
    if (mkdir(state, 0700) < 0)
        return -1;
    if (geteuid() != 0)
        return setenv("XDG_STATE_HOME", state, 1);
    if (mkdir(root_state, 0700) < 0 && errno != EEXIST)
        return -1;
    auto_close int real_fd = open(root_slots, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    auto_close int fd = open(slots, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (real_fd < 0 || fd < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(root_slots, slots, NULL, MS_BIND, NULL) < 0 ||
        mount(state, root_state, NULL, MS_BIND | MS_REC, NULL) < 0)
        return -1;
    return 0;
}

static void remove_state(const char *folder)
{
    char slots[160];

    snprintf(slots, sizeof slots, "%s/state/slots", folder);
    if (geteuid() == 0 && umount2(slots, MNT_DETACH) == 0)
        umount2(root_state, MNT_DETACH);
    rmtree_at(AT_FDCWD, folder, INT64_MAX);
}

int host_start(const char *cay, struct host_server *ret, char *why, size_t why_size)
{
    char tokens[128], log[128], line[128], text[TEXT_SIZE] = "";

    *ret = (struct host_server){ .folder = "/tmp/cay-load-XXXXXX" };
    if (!mkdtemp(ret->folder)) {
        snprintf(why, why_size, "%s: %s", ret->folder, strerror(errno));
        return -1;
    }
    if (make_state(ret->folder) < 0) {
        snprintf(why, why_size, "make a state folder for the runs: %s", strerror(errno));
        return -1;
    }
    ret->mounts = count_mounts();
    make_token(ret->token);
    snprintf(tokens, sizeof tokens, "%s/tokens", ret->folder);
    snprintf(log, sizeof log, "%s/log", ret->folder);
    snprintf(line, sizeof line, "%s default admin\n", ret->token);
    if (!write_text(tokens, line)) {
        snprintf(why, why_size, "%s: %s", tokens, strerror(errno));
        return -1;
    }
    ret->pid = spawn(cay, tokens, log);
    for (int i = 0; ret->pid > 0 && i < START_SECONDS * 50; i++) {
        unsigned port = 0;
        const char *url = read_text(log, text) ? strstr(text, "http://127.0.0.1:") : NULL;
        if (url && sscanf(url, "http://127.0.0.1:%u", &port) == 1 && port > 0) {
            ret->port = (uint16_t)port;
            return 0;
        }
        if (waitpid(ret->pid, NULL, WNOHANG) == ret->pid) {
            ret->pid = -1;
            break;
        }
        rest_ms(20);
    }
    snprintf(why, why_size, "%s serve did not come up: %.300s", cay, text);
    return -1;
}

int host_stop(struct host_server *server, int seconds)
{
    int status = -1;

    if (server->pid <= 0)
        return -1;
    list_below(server, server->pid, 0);
    kill(server->pid, SIGTERM);
    for (int i = 0; i < seconds * 50; i++) {
        if (waitpid(server->pid, &status, WNOHANG) == server->pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
        rest_ms(20);
    }
    kill(server->pid, SIGKILL);
    waitpid(server->pid, &status, 0);
    return -1;
}

void host_done(const struct host_server *server)
{
    remove_state(server->folder);
}

/* ---- what is left ---- */

/* Names of groups cay-…, with a mark on those whose lock is held in one of the hierarchies: a
 * warden holds the locks of its own groups as long as it lives. */
struct groups {
    struct {
        char name[64];
        bool is_held;
    } items[GROUPS_MAX];
    size_t n;
};

static void note_group(struct groups *groups, const char *name, bool is_held)
{
    size_t i = 0;

    while (i < groups->n && strcmp(groups->items[i].name, name) != 0)
        i++;
    if (i == GROUPS_MAX)
        return;
    if (i == groups->n) {
        snprintf(groups->items[i].name, sizeof groups->items[i].name, "%s", name);
        groups->items[i].is_held = false;
        groups->n++;
    }
    groups->items[i].is_held |= is_held;
}

static void list_groups(int dir_fd, int depth, struct groups *groups)
{
    DIR *dir = fdopendir(dir_fd);

    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || depth > 8)
            continue;
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        /* Of a run; cay-user-UID is what `cay setup` gave to a user. */
        if (strncmp(entry->d_name, "cay-", 4) == 0 &&
            strspn(entry->d_name + 4, "0123456789abcdef") >= 32)
            note_group(groups, entry->d_name, flock(fd, LOCK_EX | LOCK_NB) < 0);
        list_groups(fd, depth + 1, groups);
    }
    if (dir)
        closedir(dir);
    else
        close(dir_fd);
}

static bool is_loose(const struct groups *groups, const char *name)
{
    for (size_t i = 0; i < groups->n; i++)
        if (strcmp(groups->items[i].name, name) == 0)
            return !groups->items[i].is_held;
    return false;
}

/* Those that nobody holds, now and a moment later: a neighbour's may be about to be locked, or to
 * go. */
static size_t count_groups(struct strbuf *what)
{
    struct groups *looks = mem_alloc(2 * sizeof *looks);
    size_t n = 0;

    for (int i = 0; i < 2; i++) {
        int fd = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (i > 0)
            rest_ms(300);
        if (fd >= 0)
            list_groups(fd, 0, &looks[i]);
    }
    for (size_t i = 0; i < looks[0].n; i++) {
        const char *name = looks[0].items[i].name;
        if (!is_loose(&looks[0], name) || !is_loose(&looks[1], name))
            continue;
        strbuf_printf(what, "cgroup %s\n", name);
        n++;
    }
    free(looks);
    return n;
}

size_t host_leftovers(const struct host_server *server, struct strbuf *what)
{
    size_t n = 0, mounts = count_mounts();

    n += count_groups(what);
    for (size_t i = 0; i < server->n_processes; i++)
        if (server->processes[i].started &&
            start_time(server->processes[i].pid) == server->processes[i].started) {
            strbuf_printf(what, "process %d\n", (int)server->processes[i].pid);
            n++;
        }
    if (mounts != server->mounts) {
        strbuf_printf(what, "%zu mounts, %zu before\n", mounts, server->mounts);
        n++;
    }
    return n;
}
