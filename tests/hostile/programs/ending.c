/* SPDX-License-Identifier: Apache-2.0 */
/* Ends in the way it is told: "exit N", "signal N", "segv", "trap", "child-killed", "kill-all",
 * "kill-init". */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Some attacks hit everything that can be seen: only where that is no more than a sandbox. */
static int is_alone(void)
{
    int seen = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));)
        seen += e->d_name[0] >= '1' && e->d_name[0] <= '9';
    return proc && seen <= 8;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;

    alarm(20);
    if (strcmp(how, "exit") == 0)
        return number;
    if (strcmp(how, "signal") == 0) {
        kill(getpid(), number);
        pause();
    }
    if (strcmp(how, "segv") == 0)
        *(volatile int *)(uintptr_t)8 = 1;
    if (strcmp(how, "trap") == 0)
        __builtin_trap();
    if (strcmp(how, "child-killed") == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            kill(getpid(), SIGKILL);
            pause();
        }
        waitpid(pid, NULL, 0);
        return 0;
    }
    if (strncmp(how, "kill-", 5) == 0 && !is_alone())
        return 3;
    if (strcmp(how, "kill-all") == 0) {
        for (int sig = 1; sig < 32; sig++)
            if (sig != SIGSTOP && sig != SIGTSTP)
                kill(-1, sig);
        return 6;
    }
    if (strcmp(how, "kill-init") == 0) {
        for (int sig = 1; sig < 65; sig++) {
            kill(1, sig);
            kill(getppid(), sig);
        }
        return 6;
    }
    return 2;
}
