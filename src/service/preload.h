/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the modules that interpreters are to load ahead (the setting `preload`) can be imported:
 * found out once, at the start, by importing each in a sandbox. An interpreter leaves out what it
 * can't import, so that nobody would see why its programs are slow. What fails is a line of the
 * log.
 */

struct server;

void preload_check(struct server *server);
