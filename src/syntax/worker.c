/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-syntax LANGUAGE: the syntax worker. tree-sitter, its grammars and the rules meet hostile code
 * here and nowhere else: in a process of its own that can do nothing but answer on fd 3
 * (core/syntax-wire.h). Started by engine/syntax-client.c; not for people.
 */
#include <stdio.h>
#include <unistd.h>

#include "syntax/serve.h"

enum { OWNER_FD = 3 };

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "cay-syntax: started by cay, not by people\n");
        return 2;
    }
    close_range(OWNER_FD + 1, ~0U, 0);
    return serve_language(argv[1], OWNER_FD);
}
