/* SPDX-License-Identifier: Apache-2.0 */
/* `cay setup USER`: what root does once, so that USER's runs have cgroups of their own. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/setup.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/parse.h"
#include "cli/commands.h"
#include "cli/print.h"

static const char about[] =
    "Delegates a cgroup subtree to USER (a name or a uid), v1 or v2, so that the kernel's own\n"
    "counters limit their runs. Needs root. Where systemd runs, the subtree is made again at each\n"
    "boot; elsewhere it is gone after a reboot: put this into a start-up script. On cgroup v2 the\n"
    "kernel lets a user use the subtree only from inside it: a COMMAND is run as USER inside it.\n"
    "A systemd scope works as well, and is what is set up for each boot there:\n"
    "systemd-run --user --scope -p Delegate=yes cay run …";

static const char examples[] = "  sudo cay setup alice\n"
                               "  sudo cay setup alice -- su - alice\n"
                               "  sudo cay setup --remove alice\n";

/* From the files alone: a static program can't ask a name service, and a uid can be given instead.
 */
static const struct passwd *user_by(const char *name, uid_t uid)
{
    static const char path[] = "/etc/passwd";
    FILE *file = fopen(path, "re");
    const struct passwd *user = NULL;

    while (file && (user = fgetpwent(file)))
        if (name ? strcmp(user->pw_name, name) == 0 : user->pw_uid == uid)
            break;
    if (file)
        fclose(file);
    return user;
}

/* The groups that list the user, and the user's own. Returns -1 with errno. */
static int set_groups_of(const char *name, gid_t gid)
{
    gid_t groups[64] = { gid };
    size_t n = 1;
    FILE *file = fopen("/etc/group", "re");

    for (const struct group *group; file && n < ARRAY_LEN(groups) && (group = fgetgrent(file));)
        for (char **member = group->gr_mem; *member; member++)
            if (n < ARRAY_LEN(groups) && group->gr_gid != gid && strcmp(*member, name) == 0)
                groups[n++] = group->gr_gid;
    if (file)
        fclose(file);
    return setgroups(n, groups);
}

static int find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct cay_error *err)
{
    const struct passwd *user = user_by(name, 0);
    uint64_t number;

    if (!user && parse_uint(name, UINT32_MAX - 1, &number) == 0) {
        user = user_by(NULL, (uid_t)number);
        if (!user) { /* a uid without an entry is a user too */
            *ret_uid = (uid_t)number;
            *ret_gid = (gid_t)number;
            return 0;
        }
    }
    if (!user)
        return cay_fail(err, CAY_E_USAGE, "setup: unknown user '%.60s'", name);
    *ret_uid = user->pw_uid;
    *ret_gid = user->pw_gid;
    return 0;
}

/* Becomes the user inside their subtree, for good. */
static int run_as(uid_t uid, gid_t gid, char **argv, struct cay_error *err)
{
    const struct passwd *user = user_by(NULL, uid);

    if (cay_enter_delegated(uid, err) < 0)
        return -1;
    if ((user ? set_groups_of(user->pw_name, gid) : setgroups(0, NULL)) < 0 ||
        setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return cay_fail_errno(err, errno, "setup: become uid %u", uid);
    if (user && user->pw_dir)
        setenv("HOME", user->pw_dir, 1);
    execvp(argv[0], argv);
    return cay_fail(err, CAY_E_NOTFOUND, "setup: %s: %s", argv[0], strerror(errno));
}

/* There may be what is made at boot alone: after one, and nobody has used it. */
static int take_back(uid_t uid, struct cay_error *err)
{
    int n = cay_undelegate_at_boot(uid, err);

    if (n < 0)
        return -1;
    return cay_undelegate(uid, err) < 0 && !(n > 0 && err->kind == CAY_E_NOTFOUND) ? -1 : 0;
}

int cmd_setup(int argc, char **argv)
{
    bool remove = false, help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 0, "remove", NULL, "take the subtree back", &remove },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    int first, dashdash;
    uid_t uid = 0;
    gid_t gid = 0;
    char path[128];

    if (opt_parse(opts, argc, argv, OPT_STOP_AT_OPERAND, &first, &dashdash, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay setup [--remove] USER [-- COMMAND [ARGS]]", about, opts, examples);
    if (first >= argc) {
        cay_fail(&err, CAY_E_USAGE, "setup: which user?");
        cay_hint(&err, "sudo cay setup USER");
        return print_error(&err);
    }
    const char *name = argv[first++];
    if (first < argc && strcmp(argv[first], "--") == 0)
        first++;
    if (find_user(name, &uid, &gid, &err) < 0)
        return print_error(&err);
    if (uid == 0) {
        cay_fail(&err, CAY_E_USAGE, "setup: root needs no delegation");
        return print_error(&err);
    }
    if (remove)
        return take_back(uid, &err) < 0 ? print_error(&err) : 0;
    if (cay_delegate(uid, gid, &err) < 0)
        return print_error(&err);
    int kept = cay_delegate_at_boot(uid, gid, path, sizeof path, &err);
    if (kept < 0)
        print_message("warning: %s", err.msg);
    if (first < argc)
        return run_as(uid, gid, argv + first, &err) < 0 ? print_error(&err) : 0;
    print_message("uid %u now has a cgroup subtree of its own", uid);
    if (kept > 0)
        print_message("and at each boot: %s", path);
    else
        print_message("it is gone after a reboot: put this command into a start-up script");
    return 0;
}
