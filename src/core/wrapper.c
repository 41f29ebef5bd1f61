/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wrapper.h"

#include <stdbool.h>
#include <string.h>

#include "base/auto.h"

/* How many words of their options have a value. */
static const struct {
    const char *name, *valued; /* letters of options with a value in the next word */
    unsigned operands;         /* words of its own before the command */
} wrappers[] = {
    { "sudo", "ugCph", 0 }, { "doas", "uC", 0 },     { "env", "uCS", 0 },
    { "nohup", "", 0 },     { "nice", "n", 0 },      { "ionice", "cn", 0 },
    { "time", "fo", 0 },    { "timeout", "ks", 1 },  { "command", "", 0 },
    { "builtin", "", 0 },   { "exec", "a", 0 },      { "busybox", "", 0 },
    { "setsid", "", 0 },    { "stdbuf", "ioe", 0 },  { "xargs", "aEeIiLlnPsd", 0 },
    { "chroot", "", 1 },    { "unshare", "", 0 },    { "strace", "eopsu", 0 },
    { "taskset", "", 1 },   { "watch", "n", 0 },     { "then", "", 0 },
    { "coproc", "", 0 },    { "parallel", "jN", 0 }, { "flock", "wE", 1 },
    { "chrt", "", 1 },      { "prlimit", "", 0 },
};

const char *wrapper_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

size_t wrapper_words(const char *const *words, size_t n, const char **ret_name)
{
    for (size_t i = 0; i < ARRAY_LEN(wrappers); i++) {
        if (n == 0 || !words[0] || strcmp(wrapper_base_name(words[0]), wrappers[i].name) != 0)
            continue;
        unsigned operands = wrappers[i].operands;
        size_t at = 1;
        while (at < n && words[at]) {
            const char *word = words[at];
            bool is_option = word[0] == '-' && word[1];
            bool is_variable = strcmp(wrappers[i].name, "env") == 0 && strchr(word, '=');
            if (!is_option && !is_variable && operands-- == 0)
                break;
            at++;
            if (is_option && word[2] == '\0' && strchr(wrappers[i].valued, word[1]))
                at++;
        }
        *ret_name = wrappers[i].name;
        return at < n ? at : 0;
    }
    return 0;
}
