/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-seccomp ROWS ARCH > seccomp-ARCH.h
 *
 * Compiles the rows of src/sys/seccomp.rows, whose head describes them, into BPF for one
 * architecture (x86_64, aarch64) and all profiles. It runs while cay is built; libseccomp is asked
 * only for the numbers of names.
 *
 * The program it makes:
 *
 *     the architecture is ours, or kill
 *     the number has no x32 bit, or kill                     (x86_64)
 *     a balanced tree of "number >= K" over ranges of numbers with the same answer, where a lone
 *       number with another answer (an island) costs a "number == K" at the leaf
 *     a pool: the returns and the jumps to checks that the tree points at
 *     the checks, each a list of comparisons of arguments, and a pool of their returns
 *
 * Loading costs the kernel about 0.3 us an instruction, most of it to compile returns: hence
 * islands and pools. Only instructions that its interpreter of constant answers knows come before a
 * check (seccomp_is_const_allow), so that since Linux 5.11 an allowed call costs one look at a
 * bitmap. Conditional jumps reach 255 instructions: a pool is put in before they are used up, a
 * long way past a subtree is a "ja" (32 bits), and near() ends the build should that ever not do.
 *
 * Nothing is printed before the result has been run, instruction by instruction, over all numbers
 * and over the border values of all arguments, and agreed with a plain reading of the rows.
 */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "../src/sys/exit-mark.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

enum {
    NUMBERS = 1024,    /* no architecture has as many calls */
    ALLOWED_MAX = 300, /* the promise on what reaches the kernel (x86_64 has the most calls) */
    CHECKS_MAX = 48,
    RULES_MAX = 24,
    CONDS_MAX = 3,
    VALUES_MAX = 16,
    INSNS_MAX = 4096, /* BPF_MAXINSNS */
    ISLANDS_MAX = 4,
    JUMP_MAX = 255,
    POOL_AT = 128, /* distance of the oldest open jump at which a pool is due */
    NEAR_MAX = 24, /* ranges of a subtree that any conditional jump passes */
    ARGS = 5,      /* that a rule can look at */
};

#define X32_BIT 0x40000000U
#define NO_CALL 0xffffffffU /* syscall(-1), for a call that the headers lack: no x32 call */
#define DEFAULT (SECCOMP_RET_ERRNO | ENOSYS)

struct constant {
    const char *name;
    uint32_t value;
};

/* One constant a line would be three pages. */
/* clang-format off */
#define N(name) { #name, (uint32_t)(name) }

static const struct constant errnos[] = {
    N(EPERM), N(ENOSYS), N(EINVAL), N(EOPNOTSUPP), N(EAFNOSUPPORT), N(EPROTONOSUPPORT), N(ENOMEM),
    N(ENOENT), N(ENODEV), N(ENOPROTOOPT),
};

static const struct constant constants[] = {
    N(AF_UNIX), N(AF_INET), N(AF_INET6), N(AF_NETLINK),
    N(SOCK_STREAM), N(SOCK_DGRAM), N(SOCK_SEQPACKET), N(SOCK_RAW), N(SOCK_PACKET),
    N(IPPROTO_TCP), N(IPPROTO_UDP), N(IPPROTO_UDPLITE), N(NETLINK_ROUTE), N(MSG_OOB), N(TCP_ULP),
    N(IPPROTO_IP), N(IPPROTO_IPV6), N(IP_ADD_MEMBERSHIP), N(IP_ADD_SOURCE_MEMBERSHIP),
    N(IPV6_JOIN_GROUP), N(MCAST_JOIN_GROUP), N(MCAST_JOIN_SOURCE_GROUP),
    N(SOL_SOCKET), N(SO_ATTACH_FILTER), N(SO_ATTACH_BPF), N(SO_ATTACH_REUSEPORT_CBPF),
    N(SO_ATTACH_REUSEPORT_EBPF),
    N(F_SETLK), N(F_SETLKW), N(F_OFD_SETLK), N(F_OFD_SETLKW), N(F_SETLEASE), N(F_NOTIFY),
    N(F_SETPIPE_SZ),
    N(S_IFMT), N(S_IFREG), N(S_IFIFO), N(S_IFSOCK),
    N(TIOCSTI), N(TIOCLINUX), N(TIOCSETD), N(TIOCCONS), N(TIOCSSERIAL), N(TIOCVHANGUP),
    N(TIOCSLCKTRMIOS),
    N(FS_IOC_GETFLAGS), N(FS_IOC_GETVERSION), N(FS_IOC_FSGETXATTR), N(FS_IOC_FIEMAP),
    N(FICLONE), N(FICLONERANGE), N(FIBMAP),
    N(F_SETOWN), N(F_SETSIG), N(F_SETOWN_EX),
    N(MAP_HUGETLB), N(MFD_HUGETLB), N(SHM_HUGETLB), N(MADV_MERGEABLE), N(MS_SYNC),
    N(POSIX_FADV_DONTNEED), N(RENAME_WHITEOUT),
    N(CLONE_NEWNS), N(CLONE_NEWCGROUP), N(CLONE_NEWUTS), N(CLONE_NEWIPC), N(CLONE_NEWUSER),
    N(CLONE_NEWPID), N(CLONE_NEWNET), N(CLONE_NEWTIME),
    N(PR_SET_NAME), N(PR_GET_NAME), N(PR_SET_PDEATHSIG), N(PR_GET_PDEATHSIG),
    N(PR_SET_DUMPABLE), N(PR_GET_DUMPABLE), N(PR_SET_NO_NEW_PRIVS), N(PR_GET_NO_NEW_PRIVS),
    N(PR_GET_SECCOMP), N(PR_GET_SECUREBITS), N(PR_GET_KEEPCAPS), N(PR_SET_KEEPCAPS),
    N(PR_CAPBSET_READ), N(PR_CAPBSET_DROP), N(PR_CAP_AMBIENT), N(PR_SET_CHILD_SUBREAPER),
    N(PR_GET_CHILD_SUBREAPER), N(PR_GET_TID_ADDRESS), N(PR_SET_TIMERSLACK), N(PR_GET_TIMERSLACK),
    N(PR_GET_TIMING), N(PR_SET_TIMING), N(PR_SET_THP_DISABLE), N(PR_GET_THP_DISABLE),
    N(PR_SET_VMA), N(PR_GET_TSC), N(PR_SET_TSC), N(PR_GET_SPECULATION_CTRL), N(PR_SVE_GET_VL),
    N(PR_SVE_SET_VL), N(PR_GET_TAGGED_ADDR_CTRL), N(PR_SET_TAGGED_ADDR_CTRL),
    N(PR_PAC_RESET_KEYS), N(PR_SET_MM),
};
/* clang-format on */

static const struct arch {
    const char *name;
    const char *macro;
    uint32_t scmp;
    uint32_t audit;
    bool has_x32;
} arches[] = {
    { "x86_64", "X86_64", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, true },
    { "aarch64", "AARCH64", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, false },
};

/* The low half of argument `arg`, masked: one of the values, or (any) not zero. */
struct cond {
    unsigned arg;
    uint32_t mask;
    bool any;
    size_t n_values;
    uint32_t values[VALUES_MAX];
};

struct rule {
    size_t n_conds; /* 0: else */
    struct cond conds[CONDS_MAX];
    uint32_t ret;
};

struct check {
    size_t n_rules;
    struct rule rules[RULES_MAX];
    bool done; /* has its else */
};

/* What happens on one number: a return value, or one of the checks. */
struct answer {
    bool named;
    bool checked;
    uint32_t ret; /* or the index of the check */
};

enum profile {
    PROFILE_DEFAULT,
    PROFILE_WATCHED,
    PROFILE_NOTICED,
    /* Two that make PROFILE_NOTICED together: a zygote has the first, what it forks the second too.
     */
    PROFILE_ZYGOTE,
    PROFILE_FORKED,
    PROFILES
};

struct policy {
    const struct arch *arch;
    struct answer answers[PROFILES][NUMBERS];
    bool late[NUMBERS]; /* calls that are left to the second: a zygote, or what it forks, makes them
                           before, or they are told of */
    size_t n_checks;
    struct check checks[CHECKS_MAX];
    int line; /* of the row that is read */
    const char *path;
};

/* The numbers from `first` up to the next range have this answer, but for the islands. */
struct range {
    uint32_t first;
    struct answer answer;
    size_t n_islands;
    struct {
        uint32_t nr;
        struct answer answer;
    } islands[ISLANDS_MAX];
};

/* A jump to an answer, open until the next pool. */
struct open_jump {
    size_t insn;
    bool if_true;
    struct answer answer;
};

struct program {
    size_t len;
    struct sock_filter insns[INSNS_MAX];
    size_t n_ranges;
    struct range ranges[NUMBERS + 1];
    size_t n_open;
    struct open_jump open[INSNS_MAX * 2];
    size_t n_far[CHECKS_MAX]; /* each check is jumped to from here */
    size_t far[CHECKS_MAX][NUMBERS];
};

__attribute__((noreturn, format(printf, 2, 3))) static void die(const struct policy *p,
                                                                const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (p->line > 0)
        fprintf(stderr, "%s:%d: ", p->path, p->line);
    else
        fprintf(stderr, "gen-seccomp: ");
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(EXIT_FAILURE);
}

/* --- reading the rows --------------------------------------------------------------------------*/

static const struct constant *lookup(const struct constant *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static bool parse_action(const char *word, uint32_t *ret)
{
    const struct constant *c = lookup(errnos, LEN(errnos), word);

    if (strcmp(word, "allow") == 0)
        *ret = SECCOMP_RET_ALLOW;
    else if (strcmp(word, "zero") == 0)
        *ret = SECCOMP_RET_ERRNO;
    else if (strcmp(word, "notify") == 0)
        *ret = SECCOMP_RET_USER_NOTIF;
    else if (c)
        *ret = SECCOMP_RET_ERRNO | c->value;
    else
        return false;
    return true;
}

static uint32_t parse_value(const struct policy *p, const char *word)
{
    if (isdigit((unsigned char)word[0])) {
        char *end;
        unsigned long value = strtoul(word, &end, 0);
        if (*end || value > UINT32_MAX)
            die(p, "%s is not a number of 32 bits", word);
        return (uint32_t)value;
    }

    const struct constant *c = lookup(constants, LEN(constants), word);
    if (!c)
        die(p, "%s is not among the constants of gen-seccomp.c", word);
    return c->value;
}

static uint32_t parse_mask(const struct policy *p, char *text)
{
    uint32_t mask = 0;
    char *save;
    for (char *w = strtok_r(text, "|", &save); w; w = strtok_r(NULL, "|", &save))
        mask |= parse_value(p, w);
    if (!mask)
        die(p, "an empty mask");
    return mask;
}

static void parse_cond(const struct policy *p, char *word, struct cond *cond)
{
    if (strncmp(word, "arg", 3) != 0 || word[3] < '0' || word[3] >= '0' + ARGS)
        die(p, "%s is not a condition", word);
    *cond = (struct cond){ .arg = (unsigned)(word[3] - '0'), .mask = UINT32_MAX };

    char *values = strchr(word, '=');
    if (values)
        *values++ = '\0';
    if (word[4] == '&')
        cond->mask = parse_mask(p, word + 5);
    else if (word[4] || !values)
        die(p, "%s is not a condition", word);
    cond->any = !values;
    if (!values)
        return;

    char *save;
    for (char *w = strtok_r(values, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        if (cond->n_values == VALUES_MAX)
            die(p, "more than %d values", VALUES_MAX);
        uint32_t value = parse_value(p, w);
        if (value & ~cond->mask)
            die(p, "%s has bits outside its mask: it would never match", w);
        cond->values[cond->n_values++] = value;
    }
    if (!cond->n_values)
        die(p, "no value after =");
}

static void parse_rule(struct policy *p, char **words, size_t n)
{
    struct check *check = p->n_checks ? &p->checks[p->n_checks - 1] : NULL;
    if (!check || check->done)
        die(p, "a rule that belongs to no check");
    if (check->n_rules == RULES_MAX || n - 1 > CONDS_MAX)
        die(p, "too many rules or conditions");

    struct rule *rule = &check->rules[check->n_rules++];
    if (n < 2 || !parse_action(words[n - 1], &rule->ret))
        die(p, "a rule ends in allow, zero, notify or an errno of gen-seccomp.c");
    if (strcmp(words[0], "else") == 0) {
        if (n != 2 || check->n_rules == 1)
            die(p, "else has no conditions and is not alone");
        check->done = true;
        return;
    }
    for (size_t i = 0; i + 1 < n; i++)
        parse_cond(p, words[i], &rule->conds[rule->n_conds++]);
}

/* Gives a name's number, or -1 where this architecture has no such call. */
static int resolve(const struct policy *p, const char *name)
{
    int nr = seccomp_syscall_resolve_name_arch(p->arch->scmp, name);
    if (nr == __NR_SCMP_ERROR)
        die(p, "%s: no architecture has such a call", name);
    if (nr >= NUMBERS)
        die(p, "%s: number %d is past the table", name, nr);
    return nr < 0 ? -1 : nr;
}

static void set_answer(struct policy *p, const char *name, struct answer answer)
{
    int nr = resolve(p, name);
    if (nr < 0)
        return;
    if (p->answers[PROFILE_DEFAULT][nr].named)
        die(p, "%s is named twice", name);
    for (int i = 0; i < PROFILES; i++)
        p->answers[i][nr] = answer;
}

static void set_watched(struct policy *p, const char *name, uint32_t ret)
{
    int nr = resolve(p, name);
    if (nr < 0)
        return;
    if (!p->answers[PROFILE_DEFAULT][nr].named)
        die(p, "watched %s: has no row of its own above", name);
    p->answers[PROFILE_WATCHED][nr] = (struct answer){ .named = true, .ret = ret };
}

static void set_zygote(struct policy *p, const char *name)
{
    int nr = resolve(p, name);
    if (nr < 0)
        return;
    if (!p->answers[PROFILE_DEFAULT][nr].named)
        die(p, "zygote %s: has no row of its own above", name);
    p->late[nr] = true;
}

static void parse_row(struct policy *p, char **words, size_t n)
{
    uint32_t ret = 0;

    if (p->n_checks && !p->checks[p->n_checks - 1].done)
        die(p, "the check above has no else");
    if (strcmp(words[0], "check") == 0) {
        if (n < 2 || p->n_checks == CHECKS_MAX)
            die(p, "check takes names, and there are at most %d", CHECKS_MAX);
        struct answer answer = { .named = true, .checked = true, .ret = (uint32_t)p->n_checks++ };
        for (size_t i = 1; i < n; i++)
            set_answer(p, words[i], answer);
        return;
    }
    if (strcmp(words[0], "zygote") == 0) {
        for (size_t i = 1; i < n; i++)
            set_zygote(p, words[i]);
        return;
    }

    bool watched = strcmp(words[0], "watched") == 0;
    size_t first = watched ? 1 : 0;
    if (n < first + 2 || !parse_action(words[first], &ret))
        die(p, "a row is an action and names");
    for (size_t i = first + 1; i < n; i++) {
        if (watched)
            set_watched(p, words[i], ret);
        else
            set_answer(p, words[i], (struct answer){ .named = true, .ret = ret });
    }
}

static void read_rows(struct policy *p)
{
    FILE *file = fopen(p->path, "re");
    if (!file)
        die(p, "open %s: %s", p->path, strerror(errno));

    char text[512];
    while (fgets(text, sizeof(text), file)) {
        p->line++;
        if (!strchr(text, '\n'))
            die(p, "the line is too long or has no end");
        text[strcspn(text, "#\n")] = '\0';

        char *words[64];
        size_t n = 0;
        char *save;
        for (char *w = strtok_r(text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
            if (n == LEN(words))
                die(p, "too many words");
            words[n++] = w;
        }
        if (n && isspace((unsigned char)text[0]))
            parse_rule(p, words, n);
        else if (n)
            parse_row(p, words, n);
    }
    if (p->n_checks && !p->checks[p->n_checks - 1].done)
        die(p, "the last check has no else");
    p->line = 0;
    fclose(file);
}

/* The default, but that somebody is told of a process that wants to end and says so. */
static void make_noticed(struct policy *p)
{
    const struct check by_mark = {
        .n_rules = 2,
        .rules = { { .n_conds = 2,
                     .conds = { { .arg = 1, .mask = UINT32_MAX, .n_values = 1, { EXIT_MARK_1 } },
                                { .arg = 2, .mask = UINT32_MAX, .n_values = 1, { EXIT_MARK_2 } } },
                     .ret = SECCOMP_RET_USER_NOTIF },
                   { .ret = SECCOMP_RET_ALLOW } },
        .done = true,
    };
    int nr = resolve(p, "exit_group");

    memcpy(p->answers[PROFILE_NOTICED], p->answers[PROFILE_DEFAULT],
           sizeof p->answers[PROFILE_NOTICED]);
    struct answer *answer = &p->answers[PROFILE_NOTICED][nr];
    if (nr < 0 || answer->checked || answer->ret != SECCOMP_RET_ALLOW)
        die(p, "exit_group is not simply allowed");
    if (p->n_checks == CHECKS_MAX)
        die(p, "there are at most %d checks", CHECKS_MAX);
    p->checks[p->n_checks] = by_mark;
    *answer = (struct answer){ .named = true, .checked = true, .ret = (uint32_t)p->n_checks++ };
    p->late[nr] = true;
}

/* What a rule means in a profile: without a listener, nobody is told. */
static uint32_t ret_in(enum profile profile, const struct rule *rule)
{
    bool is_heard = profile == PROFILE_NOTICED || profile == PROFILE_FORKED;

    return rule->ret == SECCOMP_RET_USER_NOTIF && !is_heard ? SECCOMP_RET_ALLOW : rule->ret;
}

static bool notifies(const struct policy *p, const struct answer *answer)
{
    const struct check *check = answer->checked ? &p->checks[answer->ret] : NULL;

    if (!check)
        return answer->ret == SECCOMP_RET_USER_NOTIF;
    for (size_t i = 0; i < check->n_rules; i++)
        if (check->rules[i].ret == SECCOMP_RET_USER_NOTIF)
            return true;
    return false;
}

/* The noticed one in two: each call is left to one of them by the other. */
static void make_halves(struct policy *p)
{
    const struct answer allow = { .named = true, .ret = SECCOMP_RET_ALLOW };
    struct answer *zygote = p->answers[PROFILE_ZYGOTE], *forked = p->answers[PROFILE_FORKED];
    const struct answer *whole = p->answers[PROFILE_NOTICED];

    for (size_t nr = 0; nr < NUMBERS; nr++) {
        bool is_late = p->late[nr] || (whole[nr].named && notifies(p, &whole[nr]));
        zygote[nr] = is_late ? allow : whole[nr];
        forked[nr] = is_late ? whole[nr] : allow;
    }
}

/* --- code --------------------------------------------------------------------------------------*/

static size_t emit(const struct policy *p, struct program *prog, struct sock_filter insn)
{
    if (prog->len == INSNS_MAX)
        die(p, "more than %d instructions", INSNS_MAX);
    prog->insns[prog->len] = insn;
    return prog->len++;
}

static uint8_t near(const struct policy *p, size_t distance)
{
    if (distance > JUMP_MAX)
        die(p, "a jump over %zu instructions", distance);
    return (uint8_t)distance;
}

#define RET(k)          ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (k)))
#define LOAD(offset)    ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset)))
#define JUMP(k)         ((struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (k)))
#define IF(op, k, t, f) ((struct sock_filter)BPF_JUMP(BPF_JMP | (op) | BPF_K, (k), (t), (f)))

static bool same_answer(struct answer a, struct answer b)
{
    return a.checked == b.checked && a.ret == b.ret;
}

/* Emits a comparison; a side that is NULL goes on with the next instruction. */
static size_t emit_if(const struct policy *p, struct program *prog, uint16_t op, uint32_t k,
                      const struct answer *yes, const struct answer *no)
{
    size_t at = emit(p, prog, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, k, 0, 0));
    if (yes)
        prog->open[prog->n_open++] = (struct open_jump){ at, true, *yes };
    if (no)
        prog->open[prog->n_open++] = (struct open_jump){ at, false, *no };
    return at;
}

/* Gives every open jump its end: one instruction for each answer. Nothing may run into it. */
static void emit_pool(const struct policy *p, struct program *prog)
{
    for (size_t i = 0; i < prog->n_open; i++) {
        const struct open_jump *jump = &prog->open[i];
        size_t at;
        size_t first = 0;
        while (!same_answer(prog->open[first].answer, jump->answer))
            first++;
        if (first < i) {
            const struct sock_filter *done = &prog->insns[prog->open[first].insn];
            at = prog->open[first].insn + 1 + (prog->open[first].if_true ? done->jt : done->jf);
        } else if (jump->answer.checked) {
            uint32_t check = jump->answer.ret;
            at = emit(p, prog, JUMP(0));
            prog->far[check][prog->n_far[check]++] = at;
        } else {
            at = emit(p, prog, RET(jump->answer.ret));
        }

        struct sock_filter *insn = &prog->insns[jump->insn];
        uint8_t distance = near(p, at - jump->insn - 1);
        if (jump->if_true)
            insn->jt = distance;
        else
            insn->jf = distance;
    }
    prog->n_open = 0;
}

static void emit_due_pool(const struct policy *p, struct program *prog)
{
    if (prog->n_open && prog->len - prog->open[0].insn > POOL_AT)
        emit_pool(p, prog);
}

static void emit_head(const struct policy *p, struct program *prog)
{
    emit(p, prog, LOAD(offsetof(struct seccomp_data, arch)));
    emit(p, prog, IF(BPF_JEQ, p->arch->audit, 1, 0));
    emit(p, prog, RET(SECCOMP_RET_KILL_PROCESS));
    emit(p, prog, LOAD(offsetof(struct seccomp_data, nr)));
    if (!p->arch->has_x32)
        return;
    emit(p, prog, IF(BPF_JGE, X32_BIT, 0, 3));
    emit(p, prog, IF(BPF_JEQ, NO_CALL, 1, 0));
    emit(p, prog, RET(SECCOMP_RET_KILL_PROCESS));
    emit(p, prog, RET(DEFAULT));
}

static struct answer answer_of(const struct policy *p, enum profile profile, uint32_t nr)
{
    if (nr < NUMBERS && p->answers[profile][nr].named)
        return p->answers[profile][nr];
    return (struct answer){ .ret = DEFAULT };
}

/* Numbers with the same answer become one range; the last one has no end. */
static void merge_ranges(const struct policy *p, enum profile profile, struct program *prog)
{
    prog->ranges[prog->n_ranges++] = (struct range){ 0, answer_of(p, profile, 0) };
    for (uint32_t nr = 1; nr <= NUMBERS; nr++) {
        struct range *last = &prog->ranges[prog->n_ranges - 1];
        struct answer answer = answer_of(p, profile, nr);
        if (same_answer(answer, last->answer))
            continue;
        if (nr < NUMBERS && last->n_islands < ISLANDS_MAX &&
            same_answer(answer_of(p, profile, nr + 1), last->answer)) {
            last->islands[last->n_islands].nr = nr;
            last->islands[last->n_islands++].answer = answer;
            continue;
        }
        prog->ranges[prog->n_ranges++] = (struct range){ nr, answer };
    }
}

/* The one answer of n ranges, if a jump can go straight to it. */
static const struct answer *plain_answer(const struct range *ranges, size_t n)
{
    return n == 1 && !ranges->n_islands ? &ranges->answer : NULL;
}

static void emit_leaf(const struct policy *p, struct program *prog, const struct range *range)
{
    for (size_t i = 0; i < range->n_islands; i++) {
        bool last = i + 1 == range->n_islands;
        emit_if(p, prog, BPF_JEQ, range->islands[i].nr, &range->islands[i].answer,
                last ? &range->answer : NULL);
    }
}

/* Control never runs out of a tree's end: every path in it is a jump to an answer. */
static void emit_tree(const struct policy *p, struct program *prog, const struct range *ranges,
                      size_t n)
{
    if (n == 1) {
        emit_leaf(p, prog, ranges);
        return;
    }

    size_t half = n / 2;
    uint32_t border = ranges[half].first;
    const struct answer *left = plain_answer(ranges, half);
    const struct answer *right = plain_answer(ranges + half, n - half);
    bool far = half > NEAR_MAX;
    size_t node = emit_if(p, prog, BPF_JGE, border, right, left);
    if (far) {
        prog->insns[node].jf = 1;
        node = emit(p, prog, JUMP(0));
    }
    if (!left)
        emit_tree(p, prog, ranges, half);
    emit_due_pool(p, prog);
    if (right)
        return;
    if (far)
        prog->insns[node].k = (uint32_t)(prog->len - node - 1);
    else
        prog->insns[node].jt = near(p, prog->len - node - 1);
    emit_tree(p, prog, ranges + half, n - half);
}

static void emit_load(const struct policy *p, struct program *prog, const struct cond *cond)
{
    /* both architectures are little-endian: the low half comes first */
    size_t offset = offsetof(struct seccomp_data, args) + cond->arg * sizeof(uint64_t);
    emit(p, prog, LOAD((uint32_t)offset));
}

/* The comparisons of one condition; gives the index of the last, whose jf is taken on failure. */
static size_t emit_cond(const struct policy *p, struct program *prog, const struct cond *cond,
                        const struct answer *yes, const struct answer *no)
{
    if (cond->any)
        return emit_if(p, prog, BPF_JSET, cond->mask, yes, no);
    if (cond->mask != UINT32_MAX)
        emit(p, prog, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, cond->mask));
    for (size_t i = 0; i + 1 < cond->n_values; i++) {
        size_t at = emit_if(p, prog, BPF_JEQ, cond->values[i], yes, NULL);
        if (!yes)
            prog->insns[at].jt = near(p, cond->n_values - 1 - i);
    }
    return emit_if(p, prog, BPF_JEQ, cond->values[cond->n_values - 1], yes, no);
}

/* The last condition of a rule jumps to its answer; all fail to the next rule, or to the else. */
static void emit_rule(const struct policy *p, enum profile profile, struct program *prog,
                      const struct rule *rule, bool loaded)
{
    const struct rule *next = rule + 1;
    const struct answer yes = { .ret = ret_in(profile, rule) };
    const struct answer otherwise = { .ret = ret_in(profile, next) };
    const struct answer *no = next->n_conds ? NULL : &otherwise;
    size_t fails[CONDS_MAX];

    for (size_t i = 0; i < rule->n_conds; i++) {
        const struct cond *cond = &rule->conds[i];
        if (i > 0 || !loaded)
            emit_load(p, prog, cond);
        fails[i] = emit_cond(p, prog, cond, i + 1 == rule->n_conds ? &yes : NULL, no);
    }
    for (size_t i = 0; i + 1 < rule->n_conds && !no; i++)
        prog->insns[fails[i]].jf = near(p, prog->len - fails[i] - 1);
}

static void emit_check(const struct policy *p, enum profile profile, struct program *prog,
                       const struct check *check)
{
    /* the argument that the accumulator holds, whole, however the rule was reached */
    unsigned held = ARGS;
    for (const struct rule *rule = check->rules; rule->n_conds; rule++) {
        const struct cond *first = &rule->conds[0];
        emit_rule(p, profile, prog, rule, first->arg == held);
        bool whole = first->any || first->mask == UINT32_MAX;
        held = rule->n_conds == 1 && whole ? first->arg : ARGS;
    }
}

static void compile(const struct policy *p, enum profile profile, struct program *prog)
{
    emit_head(p, prog);
    merge_ranges(p, profile, prog);
    emit_tree(p, prog, prog->ranges, prog->n_ranges);
    emit_pool(p, prog);
    for (size_t i = 0; i < p->n_checks; i++) {
        if (!prog->n_far[i])
            continue; /* not in this profile, or not on this architecture */
        for (size_t j = 0; j < prog->n_far[i]; j++)
            prog->insns[prog->far[i][j]].k = (uint32_t)(prog->len - prog->far[i][j] - 1);
        emit_check(p, profile, prog, &p->checks[i]);
        emit_due_pool(p, prog);
    }
    emit_pool(p, prog);
}

/* --- proof -------------------------------------------------------------------------------------*/

/* Runs the program as the kernel would; what the kernel would not take is a failure. */
static uint32_t run(const struct policy *p, const struct program *prog,
                    const struct seccomp_data *data)
{
    uint32_t acc = 0;
    for (size_t pc = 0; pc < prog->len; pc++) {
        const struct sock_filter *insn = &prog->insns[pc];
        bool taken = false;
        switch (insn->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (insn->k % 4 || insn->k + 4 > sizeof(*data))
                die(p, "instruction %zu loads from %u", pc, insn->k);
            memcpy(&acc, (const char *)data + insn->k, 4);
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            acc &= insn->k;
            continue;
        case BPF_RET | BPF_K:
            return insn->k;
        case BPF_JMP | BPF_JA:
            pc += insn->k;
            continue;
        case BPF_JMP | BPF_JEQ | BPF_K:
            taken = acc == insn->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            taken = acc >= insn->k;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            taken = acc & insn->k;
            break;
        default:
            die(p, "instruction %zu has code %#x", pc, insn->code);
        }
        pc += taken ? insn->jt : insn->jf;
    }
    die(p, "ran past the end");
}

static bool cond_holds(const struct cond *cond, const uint64_t *args)
{
    uint32_t low = (uint32_t)args[cond->arg] & cond->mask;
    if (cond->any)
        return low != 0;
    for (size_t i = 0; i < cond->n_values; i++)
        if (low == cond->values[i])
            return true;
    return false;
}

/* The rows, read plainly. */
static uint32_t expected(const struct policy *p, enum profile profile,
                         const struct seccomp_data *data)
{
    uint32_t nr = (uint32_t)data->nr;
    if (data->arch != p->arch->audit)
        return SECCOMP_RET_KILL_PROCESS;
    if (p->arch->has_x32 && nr >= X32_BIT && nr != NO_CALL)
        return SECCOMP_RET_KILL_PROCESS;
    if (nr >= NUMBERS || !p->answers[profile][nr].named)
        return DEFAULT;

    const struct answer *answer = &p->answers[profile][nr];
    if (!answer->checked)
        return answer->ret;

    uint64_t args[ARGS];
    for (size_t i = 0; i < ARGS; i++)
        args[i] = data->args[i];
    const struct check *check = &p->checks[answer->ret];
    for (size_t i = 0; i < check->n_rules; i++) {
        const struct rule *rule = &check->rules[i];
        bool holds = true;
        for (size_t c = 0; c < rule->n_conds; c++)
            holds = holds && cond_holds(&rule->conds[c], args);
        if (holds)
            return ret_in(profile, rule);
    }
    die(p, "call %u: a check without an else", nr);
}

/* What is to do as the profile says: one program, or two whose stricter answer counts. */
struct subject {
    enum profile profile;
    const struct program *progs[2]; /* the one that is loaded last is the first */
};

/* As the kernel chooses among all filters: by the action alone, and of the same the last loaded. */
static uint32_t run_all(const struct policy *p, const struct subject *subject,
                        const struct seccomp_data *data)
{
    uint32_t ret = run(p, subject->progs[0], data);

    if (!subject->progs[1])
        return ret;
    uint32_t other = run(p, subject->progs[1], data);
    return (int32_t)(other & SECCOMP_RET_ACTION_FULL) < (int32_t)(ret & SECCOMP_RET_ACTION_FULL)
               ? other
               : ret;
}

static void compare(const struct policy *p, const struct subject *subject,
                    const struct seccomp_data *data)
{
    uint32_t want = expected(p, subject->profile, data);
    uint32_t got = run_all(p, subject, data);
    if (got != want)
        die(p, "%s: call %#x of arch %#x answers %#x instead of %#x", p->arch->name,
            (uint32_t)data->nr, data->arch, got, want);
}

struct samples {
    size_t n;
    uint64_t values[1024];
};

static void add_sample(const struct policy *p, struct samples *s, uint64_t value)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->values[i] == value)
            return;
    if (s->n == LEN(s->values))
        die(p, "too many samples");
    s->values[s->n++] = value;
}

/* A value, its neighbours, a flag beside it, and all of them with the high half set. */
static void add_samples(const struct policy *p, struct samples *s, uint32_t value)
{
    const uint32_t low[] = { value, value + 1, value - 1, value | 0x80000U };
    for (size_t i = 0; i < LEN(low); i++) {
        add_sample(p, s, low[i]);
        add_sample(p, s, low[i] | 0xffffffff00000000U);
    }
}

static void collect_samples(const struct policy *p, const struct check *check, unsigned arg,
                            struct samples *s)
{
    s->n = 0;
    for (size_t i = 0; i < check->n_rules; i++) {
        const struct rule *rule = &check->rules[i];
        for (size_t c = 0; c < rule->n_conds; c++) {
            const struct cond *cond = &rule->conds[c];
            if (cond->arg != arg)
                continue;
            for (size_t v = 0; v < cond->n_values; v++)
                add_samples(p, s, cond->values[v]);
            for (unsigned bit = 0; bit < 32 && cond->mask != UINT32_MAX; bit++)
                add_sample(p, s, 1U << bit);
        }
    }
    if (s->n)
        add_samples(p, s, 0);
    else
        s->values[s->n++] = 0x5555555555555555U; /* an argument that no rule looks at */
}

/* All combinations of the arguments' samples. */
static void prove_check(const struct policy *p, const struct subject *subject,
                        struct seccomp_data *data, const struct check *check)
{
    static struct samples s[ARGS];
    for (unsigned i = 0; i < ARGS; i++)
        collect_samples(p, check, i, &s[i]);
    for (size_t a = 0; a < s[0].n; a++)
        for (size_t b = 0; b < s[1].n; b++)
            for (size_t c = 0; c < s[2].n; c++)
                for (size_t d = 0; d < s[3].n; d++)
                    for (size_t e = 0; e < s[4].n; e++) {
                        data->args[0] = s[0].values[a];
                        data->args[1] = s[1].values[b];
                        data->args[2] = s[2].values[c];
                        data->args[3] = s[3].values[d];
                        data->args[4] = s[4].values[e];
                        compare(p, subject, data);
                    }
}

static void prove(const struct policy *p, struct subject subject)
{
    const struct answer *answers = p->answers[subject.profile];
    static const uint32_t edges[] = { 0x3fffffff, 0x40000000, 0x40000001, 0x400001ff,
                                      0x400003ff, 0x7fffffff, 0x80000000, 0xbfffffff,
                                      0xc0000000, 0xfffffffe, 0xffffffff };
    static const uint32_t foreign[] = { 0,
                                        UINT32_MAX,
                                        AUDIT_ARCH_I386,
                                        AUDIT_ARCH_ARM,
                                        AUDIT_ARCH_X86_64,
                                        AUDIT_ARCH_AARCH64,
                                        AUDIT_ARCH_RISCV64 };

    for (uint32_t i = 0; i < NUMBERS + LEN(edges); i++) {
        struct seccomp_data data = { .nr = (int)(i < NUMBERS ? i : edges[i - NUMBERS]) };
        for (size_t f = 0; f < LEN(foreign); f++) {
            data.arch = foreign[f];
            compare(p, &subject, &data);
        }
        data.arch = p->arch->audit;
        if (i < NUMBERS && answers[i].checked)
            prove_check(p, &subject, &data, &p->checks[answers[i].ret]);
        else
            compare(p, &subject, &data);
    }
}

/* --- result ------------------------------------------------------------------------------------*/

/* The calls that reach the kernel in any form. */
static size_t count_allowed(const struct policy *p, enum profile profile)
{
    size_t n = 0;
    for (size_t nr = 0; nr < NUMBERS; nr++) {
        const struct answer *answer = &p->answers[profile][nr];
        n += answer->named && (answer->checked || answer->ret == SECCOMP_RET_ALLOW);
    }
    return n;
}

static void print_program(const struct policy *p, enum profile profile, const struct program *prog)
{
    static const struct {
        const char *name, *macro;
    } suffixes[PROFILES] = {
        [PROFILE_DEFAULT] = { "", "" },
        [PROFILE_WATCHED] = { "_watched", "_WATCHED" },
        [PROFILE_NOTICED] = { "_noticed", "_NOTICED" },
        [PROFILE_ZYGOTE] = { "_zygote", "_ZYGOTE" },
        [PROFILE_FORKED] = { "_forked", "_FORKED" },
    };
    const char *suffix = suffixes[profile].name, *macro = suffixes[profile].macro;

    printf("\n#define SECCOMP_%s%s_ALLOWED %zu\n", p->arch->macro, macro,
           count_allowed(p, profile));
    printf("#define SECCOMP_%s%s_LEN     %zu\n", p->arch->macro, macro, prog->len);
    printf("static const struct sock_filter seccomp_%s%s[SECCOMP_%s%s_LEN] = {\n", p->arch->name,
           suffix, p->arch->macro, macro);
    for (size_t i = 0; i < prog->len; i++) {
        const struct sock_filter *insn = &prog->insns[i];
        printf("    { 0x%02x, %u, %u, 0x%08x },\n", insn->code, insn->jt, insn->jf, insn->k);
    }
    printf("};\n");
}

int main(int argc, char **argv)
{
    static struct policy policy;
    static struct program programs[PROFILES];

    if (argc == 3)
        for (size_t i = 0; i < LEN(arches); i++)
            if (strcmp(arches[i].name, argv[2]) == 0)
                policy.arch = &arches[i];
    if (!policy.arch) {
        fprintf(stderr, "usage: gen-seccomp ROWS x86_64|aarch64 > seccomp-ARCH.h\n");
        return 2;
    }
    policy.path = argv[1];
    read_rows(&policy);
    make_noticed(&policy);
    make_halves(&policy);

    for (enum profile i = 0; i < PROFILES; i++) {
        size_t allowed = i < PROFILE_ZYGOTE ? count_allowed(&policy, i) : 0;
        if (allowed > ALLOWED_MAX)
            die(&policy, "%zu calls reach the kernel, at most %d may", allowed, ALLOWED_MAX);
        compile(&policy, i, &programs[i]);
        prove(&policy, (struct subject){ i, { &programs[i] } });
    }
    prove(&policy, (struct subject){ PROFILE_NOTICED,
                                     { &programs[PROFILE_FORKED], &programs[PROFILE_ZYGOTE] } });

    printf("/* SPDX-License-Identifier: Apache-2.0 */\n"
           "/* Made by gen-seccomp from seccomp.rows; do not edit. */\n"
           "#pragma once\n\n#include <linux/filter.h>\n");
    for (enum profile i = 0; i < PROFILES; i++)
        print_program(&policy, i, &programs[i]);
    return fflush(stdout) || ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
