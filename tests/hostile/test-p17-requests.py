#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P17: whatever is in a request, the server lives, its memory is bounded, it says what is wrong, and others are answered.

Valid JSON of hostile sizes and shapes in every field that /openapi.json knows: long texts, many entries, deep nesting, names
that come twice, numbers that fit nowhere; and programs that print what makes an answer large. A failure can be tried again:

    tests/hostile/test-p17-requests.py --seconds 600 --seed 4711
"""
import contextlib
import http.client
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayfuzz
import caytest
from cayserve import ALL, TOKEN, Server

HOSTILE = "hostile-token-0123456789abcdef"
TOKENS = f"{TOKEN} main {ALL}\n{HOSTILE} hostile {ALL}\n"
# As it is where nobody configures anything.
ENV = {"CAY_DRAIN": "2", "CAY_LOG_LEVEL": "warn"}
# Those of a request that is refused; 503: too much at once. 500 is a fault of ours.
STATUSES = {200, 202, 400, 403, 404, 409, 413, 422, 429, 501, 503}
PIECES = ("a", "\0", "\x01", "\x1b[2J", "é", "\U0001f333", "\ud800", "\"", "\\", "/", "../", "a,", "a ", "\n", "%s%n", "=", "{}", "\u275a cay: ")
COLLIDE = "0123456789abcdef"


def size(r):
    """Mostly small; sometimes around where something is bounded, sometimes far beyond."""
    return r.choice([r.randrange(4), r.randrange(300), r.choice([1023, 1024, 1025, 4095, 4096, 65535, 65536]), r.randrange(20000),
                     r.randrange(400000) if r.random() < 0.3 else 1])


def text(r):
    return r.choice(PIECES) * size(r) + r.choice(["", "x", *PIECES])


def name(r):
    return r.choice([text(r)[:r.choice([10, 300, 5000])], f"{r.randrange(1000)}", "/".join("d" * r.randrange(200)), "".join(r.choices(COLLIDE, k=8))])


def number(r):
    return r.choice([0, -1, 1, 2**31, 2**63, 2**64, -2**63 - 1, 10**300, 1.5, -0.0, 1e308, 5e-324, r.random(), r.randrange(1 << 40)])


def deep(r):
    n = r.choice([10, 60, 100, 1000, 100000])
    return Raw((r.choice("[") * n + "]" * n) if r.random() < 0.5 else '{"a":' * n + "1" + "}" * n)


class Raw(str):
    """What json.dumps would not write."""


def value(r, depth=0):
    kind = r.randrange(9)
    if kind < 2:
        return text(r)
    if kind == 2:
        return number(r)
    if kind == 3:
        return r.choice([True, False, None, "", [], {}])
    if kind == 4 and depth < 3:
        return [value(r, depth + 2) for _ in range(r.choice([1, 3, 20]))]
    if kind == 5:
        return [r.choice(["a", "", "x" * 100, 7])] * size(r)
    if kind == 6:
        return {f"{prefix}{i}": value(r, 3) if i < 3 else "v" for prefix in [name(r)[:50]] for i in range(min(size(r), 20000))}
    if kind == 7:
        return Raw("9" * r.choice([20, 400, 100000]) + r.choice(["", ".5", "e5", "e999999999"]))
    return deep(r)


def typed(r, schema):
    """What the field may hold, if only it were less."""
    if "enum" in schema:
        return r.choice(schema["enum"])
    kind = schema.get("type", "object")
    kind = r.choice(kind) if isinstance(kind, list) else kind
    if kind == "string":
        return text(r)
    if kind == "array":
        return [text(r)[:1000] for _ in range(r.choice([1, 5, 1024]))]
    if kind == "object":
        return {name(r): text(r)[:1000] for _ in range(r.choice([1, 5, 1000]))}
    return r.random() < 0.5 if kind == "boolean" else r.choice([1, 2, 64, 1 << 20, "64m", "2"])


def write(r, what):
    """As JSON, with what a library would leave out: names twice, white space without end, digits without end."""
    if isinstance(what, Raw):
        return str(what)
    if isinstance(what, dict):
        rows = [json.dumps(k) + ":" + write(r, v) for k, v in what.items()]
        if rows and r.random() < 0.05:
            rows.append(r.choice(rows))
        return "{" + ",".join(rows) + "}"
    if isinstance(what, list):
        return "[" + ",".join(write(r, v) for v in what) + "]"
    return json.dumps(what, ensure_ascii=r.random() < 0.5)


LOUD = "import sys; b = bytes([{byte}]) * 65536\nfor _ in range({n}): sys.stdout.buffer.write(b)"


def base(r):
    """A request that is right as it stands."""
    kind = r.randrange(8)
    if kind < 3:
        return {"command": ["/bin/true"], "timeout": 2}
    if kind < 5:
        return {"language": "python", "code": "print(1)", "timeout": 5}
    if kind == 5:
        return {"language": r.choice(["bash", "python", "javascript"]), "code": text(r), "timeout": 2}
    if kind == 6:
        return {"command": ["/bin/cat"], "stdin": text(r), "files": {name(r): text(r) for _ in range(r.choice([1, 5, 60]))}, "timeout": 2}
    return {"language": "python", "code": LOUD.format(byte=r.choice([0, 1, 34, 65, 255]), n=r.randrange(40)), "timeout": 5,
            "limits": {"max_output": "16m"}}


def hostile(r, schemas, is_check):
    request = {"language": r.choice(["bash", "python"]), "code": text(r)} if is_check else base(r)
    for _ in range(r.choice([0, 1, 1, 2, 5])):
        into, schema = request, schemas["CheckRequest" if is_check else "Request"]["properties"]
        if r.random() < 0.25 and not is_check:
            into = request["limits"] = dict(request["limits"]) if isinstance(request.get("limits"), dict) else {}
            schema = schemas["Limits"]["properties"]
        field = r.choice([x for x in sorted(schema) if x != "webhook"])  # what stands there might be looked up
        into[field] = typed(r, schema[field]) if r.random() < 0.6 else value(r)
    if isinstance(request.get("timeout"), (int, float)) and not isinstance(request["timeout"], bool):
        request["timeout"] = min(request["timeout"], 5)
    if r.random() < 0.05:
        request = value(r)
    body = write(r, request)
    return body.encode(errors="surrogatepass") if r.random() < 0.5 else body.encode(errors="replace")


def is_right(answer):
    """Every answer is JSON; every refusal says of what kind it is and why, in few words."""
    if answer.status not in STATUSES or answer.json is None:
        return False
    return answer.status in (200, 202) or (bool(answer.error.get("kind")) and 0 < len(answer.error.get("message", "")) < 2000)


def test(t, mode):
    if not mode.has_cgroup:
        t.skip("the server", "it needs a cgroup, and none is delegated to this user")
        return
    host = mode.host()
    wrong = []
    with Server(mode, tokens=TOKENS, env=ENV) as s:
        schemas = s.get("/openapi.json").json["components"]["schemas"]

        def be_client(r, number):
            path = r.choice(["/v1/execute"] * 5 + ["/v1/check"])
            body = hostile(r, schemas, path == "/v1/check")
            try:
                connection = s.connection(r.choice(["tcp", "unix"]), timeout=300)  # in all: 30 MB, beside all the others
                with contextlib.closing(connection):
                    answer = s.ask("POST", path, body, headers={"Content-Type": "application/json"}, token=HOSTILE, connection=connection)
            except TimeoutError:
                wrong.append((number, path, body[:300], "no answer"))
                return
            except (ConnectionError, http.client.HTTPException):
                return  # refused before all of it was sent: that it lives is looked at by others
            if not is_right(answer):
                wrong.append((number, path, body[:300], answer))

        fuzz = cayfuzz.attack(t, [(s, "tcp"), (s, "unix")], be_client)
        t.empty(wrong[:5], f"{fuzz}: every answer is JSON, and every refusal says why")
        t.ok(caytest.until(lambda: s.metric("cay_connections") == 1 and s.get("/v1/health").json["running"] == 0, 30), "in the end nobody is left")
        t.ok(not caytest.SANITIZED or "runtime error:" not in s.words(), "nothing undefined was done", s.words()[-3000:])
    t.equal(s.proc.returncode, 0, "and it ends well")
    shutil.rmtree(s.folder)
    left = [x for x in host.settle(30) if x != f"file /tmp/cay-{mode.uid}"]  # a user's folder for sockets stays
    t.empty(left, "nothing is left")


# What is in a request is read in the same way whoever serves: each build takes one of them.
caytest.main(test, modes=("root",) if caytest.SANITIZED else ("root", "deleg") if caytest.LONG else ("deleg",))
