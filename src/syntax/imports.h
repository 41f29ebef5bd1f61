/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What an import statement takes in and which names it binds: a function for each language, for the
 * rows of dialect.c. */

#include "syntax/names.h"

void imports_python(struct names *names, TSNode node, enum role role);
void imports_javascript(struct names *names, TSNode node, enum role role);
void imports_php(struct names *names, TSNode node, enum role role);
void imports_go(struct names *names, TSNode node, enum role role);
void imports_c(struct names *names, TSNode node, enum role role);
void imports_java(struct names *names, TSNode node, enum role role);
void imports_rust(struct names *names, TSNode node, enum role role);
