/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a client far away must not ask for: it would name a folder of this host, or a sandbox that
 * is none. A value of NULL: whatever it is. service_execute refuses these, and the
 * OpenAPI document does not offer them.
 */

static const struct {
    const char *field, *value, *why, *hint;
} refused_fields[] = {
    { "workspace", NULL, "a folder of the server's host can't be named by a client",
      "files can be sent in `files`" },
    { "workspace_rw", NULL, "a folder of the server's host can't be named by a client",
      "files can be sent in `files`" },
    { "ro", NULL, "a folder of the server's host can't be named by a client",
      "files can be sent in `files`" },
    { "fallback", "unsafe", "a run without isolation can't be asked for by a client",
      "never, isolated" },
    { "backend", "process", "a run without isolation can't be asked for by a client",
      "leave it out, or name another backend" },
    { "min_isolation", "none", "a run without isolation can't be asked for by a client",
      "kernel, gvisor, vm" },
};
