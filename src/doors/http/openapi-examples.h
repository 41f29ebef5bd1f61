/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Examples of the OpenAPI document, by schema. tests/e2e/test-openapi.py sends the requests, and
 * holds each against its schema. */

#include <stddef.h>

static const struct openapi_example {
    const char *schema, *name, *summary, *json;
} openapi_examples[] = {
    { "Request", "code", "code in a language",
      "{\"language\":\"python\",\"code\":\"print(6 * 7)\"}" },
    { "Request", "files", "files, input, arguments and limits",
      "{\"language\":\"python\",\"code\":\"import sys, helper\\n"
      "print(helper.double(int(sys.stdin.read())), sys.argv[1:])\",\"files\":{\"helper.py\":"
      "\"def double(n):\\n    return 2 * n\\n\",\"data.bin\":{\"base64\":\"AAEC\"}},"
      "\"stdin\":\"21\",\"args\":[\"-v\"],\"env\":{\"MODE\":\"test\"},\"timeout\":5,"
      "\"limits\":{\"memory\":\"256m\",\"pids\":20}}" },
    { "Request", "command", "a command, and a file that it leaves",
      "{\"command\":[\"/bin/sh\",\"-c\",\"echo hi > out.txt\"],\"collect\":[\"*.txt\"]}" },
    { "Request", "detach", "answered at once, with an id",
      "{\"language\":\"bash\",\"code\":\"echo done\",\"detach\":true}" },
    { "Result", "result", "of `print(6 * 7)`",
      "{\"id\":\"0123456789abcdef0123456789abcdef\",\"success\":true,\"exit_code\":0,"
      "\"signal\":null,\"stdout\":\"42\\n\",\"stderr\":\"\",\"execution_time\":0.0021,"
      "\"timeout\":false,\"error_message\":null,"
      "\"container_id\":\"0123456789abcdef0123456789abcdef\",\"language\":\"python\","
      "\"timestamp\":\"2026-11-15T19:13:02.123Z\",\"verdict\":{\"cause\":\"ok\","
      "\"limit_name\":null,\"limit\":null,\"measured\":null,\"unit\":null,\"remedy\":null},"
      "\"error\":null,\"results\":[],\"files\":[],\"meta\":{\"runtime\":\"native\","
      "\"fallback\":null,\"language_version\":\"3.11.2\",\"start\":\"warm\",\"truncated\":false,"
      "\"blocked_imports\":[],\"warnings\":[],\"resource_limits\":{\"timeout\":30,"
      "\"max_output\":20480,\"memory\":536870912,\"swap\":0,\"cpus\":1,\"cpu_shares\":1024,\"cpu_"
      "time\":null,"
      "\"pids\":100,\"disk\":134217728,\"inodes\":20000,\"open_files\":1024,"
      "\"output_cap\":67108864},\"usage\":{\"cpu_time\":0.0007,\"memory_peak\":9437184,"
      "\"pids_peak\":1,\"stdout_bytes\":3,\"stderr_bytes\":0},\"timing\":{\"queue\":0,"
      "\"setup\":0.0004,\"compile\":null,\"run\":0.0021,\"teardown\":0},\"isolation\":{"
      "\"tier\":\"kernel\",\"layers\":[\"user_ns\",\"pid_ns\",\"mount_ns\",\"net_ns\",\"ipc_ns\","
      "\"uts_ns\",\"cgroup_ns\",\"cgroup:memory\",\"cgroup:pids\",\"cgroup:cpu\",\"seccomp\","
      "\"landlock\",\"no_new_privs\",\"caps_dropped\",\"nonroot\",\"rlimits\"]}}}" },
    { "Status", "taken", "a detached run was taken",
      "{\"id\":\"0123456789abcdef0123456789abcdef\",\"status\":\"queued\","
      "\"events\":\"/v1/executions/0123456789abcdef0123456789abcdef/events\"}" },
    { "Error", "usage", "a field has the wrong type",
      "{\"error\":{\"kind\":\"usage\",\"message\":\"args: expected an array of strings, got a "
      "string\",\"hint\":null}}" },
    { "CheckRequest", "check", "what would this do?",
      "{\"language\":\"python\",\"code\":\"import socket\"}" },
    { NULL },
};
