/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a client far away must not ask for: it would name a folder of this host, or a sandbox that
 * is none. A value of NULL: whatever it is. POST /v1/execute refuses these with 403, and the
 * OpenAPI document does not offer them.
 */

static const struct {
    const char *field, *value, *why, *hint;
} refused[] = {
    { "workspace", NULL, "a folder of the server's host can't be named over HTTP",
      "files can be sent in `files`" },
    { "workspace_rw", NULL, "a folder of the server's host can't be named over HTTP",
      "files can be sent in `files`" },
    { "ro", NULL, "a folder of the server's host can't be named over HTTP",
      "files can be sent in `files`" },
    { "fallback", "unsafe", "a run without isolation can't be asked for over HTTP",
      "never, isolated" },
    { "backend", "process", "a run without isolation can't be asked for over HTTP",
      "leave it out, or name another backend" },
    { "min_isolation", "none", "a run without isolation can't be asked for over HTTP",
      "kernel, gvisor, vm" },
};
