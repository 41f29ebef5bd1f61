/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a signal is called: the same whichever C library a program is linked with, for the same run
 * may be told of by `cay` or by its server. The words are those of glibc, which shells print too.
 */

/* "KILL"; NULL of a number that has no name. */
const char *signal_name(int number);

/* "Killed"; of other numbers "Real-time signal 3", "Unknown signal 99". The text of such a number
 * lives in buf. */
enum { SIGNAL_TEXT_MAX = 40 };
const char *signal_text(int number, char buf[static SIGNAL_TEXT_MAX]);
