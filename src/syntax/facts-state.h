/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of facts.h share: facts.c walks the code, facts-shell.c reads what a shell would
 * run. */

#include "syntax/facts.h"
#include "syntax/names.h"
#include "syntax/shell-command.h"

struct facts {
    const struct syntax_tree *tree;
    const struct roles *roles;
    const struct rules *rules;
    struct findings *findings;
    struct names *names;
    int nesting;        /* code within code */
    unsigned n_entered; /* folders that a shell has gone down into, and not come up from */
    const struct facts *outer;
    TSNode outer_node; /* where it stands in the outer code */
    size_t at;         /* where there are no nodes: the place that is looked at */
    unsigned char
        *parts; /* a bit a byte of the text: a name that is only part of one starts here */
};

/* What is looked up at the moment. */
struct look {
    struct facts *facts;
    TSNode node; /* where the finding is */
    const char *name;
    TSNode call; /* of WAY_CALL */
    const struct shell_command *command;
    enum way way;
};

/* Looks up the rules for what is found in this way by this name. */
void facts_look_up(struct facts *facts, enum way way, const char *name, TSNode node);

/* A rule whose name fits: reports it where its conditions hold. arg: a struct look. */
void facts_on_rule(void *arg, const struct rule *rule);

/* Code that the code has run: the same rules again. */
void facts_look_within(struct facts *facts, const char *code, size_t len, TSNode node);

/* Commands, what they are piped into, and what they are redirected to. */
void facts_look_at_command(struct facts *facts, TSNode node);
void facts_look_at_pipeline(struct facts *facts, TSNode node);
void facts_look_at_redirect(struct facts *facts, TSNode node);
