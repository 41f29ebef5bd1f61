#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document tells the truth: each answer of a running server has a status, a type and a shape that stand in
it; tenants meet their quotas; a small load by cay-load, all answers right, leaves nothing; and cay-bench connects anew."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
import jsonschema
from cayserve import TOKEN, Server

SMALL = "small-token-0123456789abcdef0"
SLOW = "slow-token-00123456789abcdef0"
TOKENS = f"{TOKEN} main admin\n{SMALL} small\n{SLOW} slow\n"
QUOTAS = """
[tenant.small]
concurrency = 1
memory = "128m"

[tenant.slow]
runs_per_minute = 2
cpu_seconds_per_day = 1000
webhook_secret = "0123456789abcdef-secret"
"""


def operation_of(document, method, path):
    path = path.split("?")[0]
    for pattern, item in document["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            return item[method.lower()]
    raise KeyError(path)


def fault_of(document, method, path, answer):
    """What the answer has that the document does not; None where there is nothing."""
    answers = operation_of(document, method, path)["responses"]
    if str(answer.status) not in answers:
        return f"status {answer.status}"
    row = answers[str(answer.status)]
    if "$ref" in row:
        row = document["components"]["responses"][row["$ref"].rsplit("/", 1)[1]]
    if "content" not in row:
        return f"a body of {len(answer.body)} bytes" if answer.body else None
    kind = answer.headers["content-type"].split(";")[0]
    if kind not in row["content"]:
        return f"type {kind}"
    schema = row["content"][kind]["schema"]
    if not schema:
        return None
    values = [answer.json]
    if kind == "application/x-ndjson":
        values = [json.loads(line) for line in answer.body.splitlines()]
    elif kind == "text/event-stream":
        values = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
    checker = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
    for value in values:
        for error in checker.iter_errors(value):
            return f"{list(error.path)}: {error.message[:300]}"
    return None if values else "nothing in it"


def test_document(t, s):
    document = s.get("/openapi.json", token=None).json
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        t.ok(schema, f"{name} is a schema")

    def check(method, path, status, name, body=None, **options):
        answer = s.ask(method, path, body, **options)
        fault = fault_of(document, method, path, answer)
        t.ok(answer.status == status and not fault, f"{status} of {method} {name or path}", fault, answer)
        return answer

    run = {"language": "python", "code": "open('a.bin', 'wb').write(b'\\xff'); print(1)", "collect": ["*.bin"]}
    id = check("POST", "/v1/execute", 200, "a run", run).json["id"]
    for form in ("text/event-stream", "application/x-ndjson"):
        check("POST", "/v1/execute", 200, form, {"command": ["/bin/echo", "x"]}, headers={"Accept": form})
        check("GET", f"/v1/executions/{id}/events", 200, f"events, {form}", headers={"Accept": form})
    large = {"language": "python", "code": "for i in range(50): print('x' * 999, flush=True)", "limits": {"max_output": "100k"}}
    forgotten = check("POST", "/v1/execute", 200, "a large result", large).json["id"]
    for after, status in ((0, 200), (1, 200), (999, 200), ("x", 400)):
        check("GET", f"/v1/executions/{forgotten}/events?after={after}", status, f"forgotten events after {after}")
    end = s.events(f"/v1/executions/{id}/events")[-1][0]
    check("GET", f"/v1/executions/{id}/events?after={end}", 204, "events after the last")
    t.equal([x["name"] for x in operation_of(document, "GET", f"/v1/executions/{id}/events")["parameters"]],
            ["id", "after", "Last-Event-ID"], "parameters of events")
    check("POST", "/v1/execute", 200, "a timeout", {"command": ["/bin/sleep", "9"], "timeout": 0.1})
    late = check("POST", "/v1/execute", 202, "detach", {"command": ["/bin/sleep", "60"], "detach": True}).json["id"]
    check("GET", f"/v1/executions/{late}", 200, "one that runs")
    check("GET", f"/v1/executions/{late}/stdout", 409, "its output")
    check("DELETE", f"/v1/executions/{late}", 202, "one that runs")
    s.until(late)
    check("DELETE", f"/v1/executions/{late}", 204, "one that is over")
    check("GET", f"/v1/executions/{id}", 200, "one that is over")
    check("GET", f"/v1/executions/{id}/stdout", 200, "its output")
    check("GET", f"/v1/executions/{'0' * 32}", 404, "none")
    check("GET", "/v1/executions?limit=2", 200, "the list")
    check("GET", "/v1/executions?limit=x", 400, "a bad list")
    check("GET", "/v1/executions?before=x", 404, "a list behind none")
    check("POST", "/v1/execute", 400, "nonsense", b"{", headers={"Content-Type": "application/json"})
    check("POST", "/v1/execute", 400, "a field that is none", {"kode": 1})
    check("POST", "/v1/execute", 403, "the host's folders", {"command": ["/bin/true"], "workspace": "/etc"})
    check("POST", "/v1/execute", 404, "no language of ours", {"language": "klingon", "code": ""})
    check("POST", "/v1/check", 404, "no language of ours", {"language": "klingon", "code": ""})
    check("POST", "/v1/execute", 415, "no JSON", b"x", headers={"Content-Type": "text/plain"})
    check("POST", "/v1/execute", 406, "no type of ours", {"command": ["/bin/true"]}, headers={"Accept": "image/png"})
    check("GET", "/v1/languages", 401, "no token", token=None)
    check("GET", "/metrics", 403, "no scope", token=SMALL)
    for path in ("/v1/languages", "/v1/health", "/metrics", "/openapi.json"):
        check("GET", path, 200, "")
    return check


def test_examples(t, s, check):
    """Each example is what its schema says; those of requests are run."""
    document = s.get("/openapi.json", token=None).json

    def fault(schema, value):
        checker = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
        return [f"{list(e.path)}: {e.message[:200]}" for e in checker.iter_errors(value)]

    seen = 0
    places = [(f"{method} {path} {where}", media) for path, item in document["paths"].items() for method, operation in item.items()
              for where, holder in [("request", operation.get("requestBody", {})), *operation["responses"].items()]
              for kind, media in holder.get("content", {}).items()]
    places += [(name, media) for name, row in document["components"]["responses"].items() for media in row["content"].values()]
    for where, media in places:
        for name, example in media.get("examples", {}).items():
            seen += 1
            t.empty(fault(media["schema"], example["value"]), f"example {name} of {where}")
    t.ok(seen > 5, "there are examples", seen)
    for name, example in document["paths"]["/v1/execute"]["post"]["requestBody"]["content"]["application/json"]["examples"].items():
        r = check("POST", "/v1/execute", 202 if name == "detach" else 200, f"example {name}", example["value"])
        t.ok(name == "detach" or r.json["success"], f"example {name} runs", r)
    properties = document["components"]["schemas"]["Request"]["properties"]
    t.equal(properties["timeout"]["default"], "17", "defaults are those in force")


def test_quotas(t, s, check):
    def refused(quota, request, token):
        r = check("POST", "/v1/execute", 429, quota, request, token=token)
        t.ok(f"quota {quota}" in r.error.get("message", "") and int(r.headers.get("retry-after", 0)) >= 1,
             "which is named, with Retry-After", r, r.headers)

    sleep = {"command": ["/bin/sleep", "60"], "detach": True, "limits": {"memory": "64m"}}
    r = check("POST", "/v1/execute", 403, "memory", {"command": ["/bin/true"]}, token=SMALL)
    t.ok("quota memory" in r.error.get("message", "") and "waiting won't help" in r.error.get("hint", "") and
         "retry-after" not in r.headers, "what a quota can never hold is refused for good", r, r.headers)
    first = s.execute(sleep, token=SMALL)
    t.equal(first.status, 202, "within its quotas a tenant's run is taken", first)
    refused("concurrency", sleep, SMALL)
    s.ask("DELETE", f"/v1/executions/{first.json['id']}", token=SMALL)
    s.until(first.json["id"], token=SMALL)
    t.equal(s.execute({**sleep, "command": ["/bin/true"], "detach": False}, token=SMALL).status, 200, "and the next one after it")
    t.equal([s.execute({"language": "klingon", "code": ""}, token=SLOW).status for _ in range(3)], [404] * 3, "what can't be run is no run")
    t.equal([s.execute({"command": ["/bin/true"]}, token=SLOW).status for _ in range(2)], [200, 200], "two in a minute are two")
    refused("runs_per_minute", {"command": ["/bin/true"]}, SLOW)


def test_load(t, mode):
    """cay-load starts a server of its own."""
    program = os.path.join(os.path.dirname(mode.binary), "bench", "cay-load")
    options = mode.options({})
    r = subprocess.run([program, "--cay", mode.binary, "--runs", "40", "--clients", "4"], capture_output=True,
                       env=options["env"], cwd=options["cwd"], timeout=300)
    t.equal(r.returncode, 0, "cay-load: all that it checks holds", r.stdout.decode(), r.stderr.decode())


ROWS = """
[one]
http (http): language=bash code=:
[no requests]
bare: /bin/sleep 1
[two]
http (http): language=bash code=:
"""


def test_bench(t, mode):
    """cay-bench keeps its connection, which the server closes during a group that takes long."""
    program = os.path.join(os.path.dirname(mode.binary), "bench", "cay-bench")
    rows = os.path.join(mode.cwd, "rows.txt")
    with open(rows, "w") as f:
        f.write(ROWS)
    with Server(mode, env={"CAY_IDLE_TIMEOUT": "0.5"}) as s:
        options = mode.options({"env": {"CAY_BENCH_TOKEN": TOKEN}})
        r = subprocess.run([program, "--rows", rows, "--rounds", "1", "--warmup", "0", "--server",
                            f"127.0.0.1:{s.port}"], capture_output=True, env=options["env"], cwd=options["cwd"], timeout=300)
    t.equal((r.returncode, b"failed" in r.stdout), (0, False), "cay-bench: connections closed between groups are no failures",
            r.stdout.decode(), r.stderr.decode())


def test(t, mode):
    home = os.path.join(mode.cwd, "config")
    os.makedirs(os.path.join(home, "cay"))
    with open(os.path.join(home, "cay", "cay.toml"), "w") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write("timeout = 17\n" + QUOTAS)
    with Server(mode, tokens=TOKENS, env={"XDG_CONFIG_HOME": home, "CAY_EVENT_LOG": "64k"}) as s:
        check = test_document(t, s)
        test_examples(t, s, check)
        test_quotas(t, s, check)
    test_load(t, mode)
    test_bench(t, mode)


caytest.main(test, modes=("root",))
