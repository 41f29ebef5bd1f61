/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where malloc's memory is: for a child that was forked to wait, among many, and has no use for
 * what its parent had allocated. Large pieces may lie elsewhere.
 */

/* NULL: it is not known. Reads /proc: not for a child between clone and exec. */
char *heap_begin(void);

/* Where it ends now. */
char *heap_end(void);
