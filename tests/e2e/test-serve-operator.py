#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cay serve from its operator's side: what it requires of its host, and says where that is lacking; quotas that are read
again; tenants in the metrics; what clients are told in fields and routes; and whose runs its end cuts off."""
import contextlib
import json
import os
import pwd
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caydocker
import caytest
from cayserve import TOKEN, Server

NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent/engine.sock"}
SIGN = "❚"
OTHER = "another-token-0123456789abcdef"


def serve(mode, *args, **options):
    return mode.cay("serve", "--listen", "127.0.0.1:0", "--socket", "none", *args, **options)


def test_wrong_layers(t, mode):
    for args, env, words in ((("--require", "cgroup,secomp"), {}, b"cay: require: unknown layer 'secomp'"),
                             ((), {"CAY_REQUIRE": "secomp"}, b"cay: CAY_REQUIRE: require: unknown layer 'secomp'")):
        done = serve(mode, *args, env=env)
        t.ok(done.status == 2 and words in done.err and b"did you mean seccomp?" in done.err,
             "an unknown layer is an error at the start, and its field is named once", *done.describe())
    done = serve(mode, "--require", "none,cgroup")
    t.ok(done.status == 2 and b"cay: require: none and layers are mutually exclusive" in done.err, "none goes alone", *done.describe())


def test_lacking(t, mode):
    """Landlock is missing: root's and an ordinary user's."""
    done = mode.command(caytest.workdir() / "deny", "landlock", mode.binary, "serve", "--listen", "127.0.0.1:0", "--socket", "none", env=NO_ENGINE)
    t.ok(done.status == 125 and b"nothing can be run here: layer " in done.err and b"cay serve --require none" in done.err
         and b"listening" not in done.err, "a host that lacks a layer: the server says so, and exits", *done.describe())


def user_name(uid):
    """The name of a user; one who has none gets one, in this script's own mount namespace."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        copy = caytest.workdir() / "passwd"
        copy.write_text(f"{Path('/etc/passwd').read_text()}cay-named:x:{uid}:{uid}::/nonexistent:/bin/sh\n")
        copy.chmod(0o644)
        subprocess.run(["mount", "--bind", copy, "/etc/passwd"], check=True)
        return "cay-named"


def test_undelegated(t, mode):
    """An ordinary user has no cgroup."""
    name = user_name(mode.host_uid)
    done = serve(mode, env=NO_ENGINE)
    t.ok(done.status == 125 and b"nothing can be run here: layer cgroup:memory" in done.err and f"sudo cay setup {name}".encode() in done.err
         and b"--require none" in done.err, "no cgroup: the server says what helps, with the user's name, and exits", *done.describe())
    lines = mode.terminal("serve", "--listen", "127.0.0.1:0", "--socket", "none").decode().splitlines()
    t.ok(any("nothing can be run" in line for line in lines) and all(SIGN in line for line in lines),
         "on a terminal, each of the server's own lines has cay's sign", lines)
    with Server(mode, "--listen", "127.0.0.1:0", "--socket", "none", "--require", "none", env=NO_ENGINE) as s:
        t.ok("a watcher enforces memory" in s.words() and f"sudo cay setup {name}" in s.words(), "--require none: it says what it does instead", s.words())
        with open(re.search(r"token: in (\S+)\n", s.words())[1], encoding="ascii") as file:
            token = file.read().strip()
        r = s.execute({"command": ["/bin/echo", "x"]}, token=token)
        t.ok(all("cay setup" not in w for w in r.json["meta"]["warnings"]), "a client is not told the operator's command", r.json["meta"])
        t.equal((r.status, r.json.get("stdout"), "watcher" in r.json["meta"]["isolation"]["layers"]), (200, "x\n", True), "and runs", r)
        test_unmade(t, s, token)


def test_unmade(t, s, token=TOKEN):
    """A run that can't be made is no result: nothing ran."""
    request = {"command": ["/bin/echo", "RAN"], "require": ["watcher" if s.mode.has_cgroup else "cgroup"]}
    r = s.execute(request, token=token)
    t.equal((r.status, r.error.get("kind"), r.error.get("hint"), int(r.headers.get("retry-after", 0)) > 0),
            (503, "unsupported", "ask the operator of this server: its log says more", True), "a layer that can't be had: 503", r)
    t.ok("layer " in r.error.get("message", ""), "which is named", r)
    end = s.events("/v1/execute", form="application/x-ndjson", body=request, token=token)[-1][1]
    result = end["result"]
    t.equal((end["event"], result["verdict"]["cause"], result["exit_code"]), ("finished", "infrastructure", 125), "a stream has its end", end)
    fallback = result["meta"]["fallback"]
    t.equal((result["meta"]["runtime"], fallback["asked"], fallback["ran"]), (None, "auto", None), "which names nothing that did not run", result["meta"])
    said = f'{result["verdict"]["remedy"]} {result["error"]["suggestion"]}'
    t.ok(not OF_THE_HOST.search(said), "and tells nothing of the host", said)
    r = s.execute({"command": ["/bin/echo", "RAN"], "backend": "docker"}, token=token)
    t.equal((r.status, r.error.get("kind")), (503, "unsupported"), "no engine: 503", r)
    r = s.execute({"command": ["/nonexistent"]}, token=token)
    t.equal((r.status, r.json.get("exit_code")), (200, 127), "a command that is not there is a result", r)
    said = r.json["verdict"]["remedy"], r.json["error"]["suggestion"]
    t.ok(all("`files`" in x for x in said), "whose remedy speaks of fields", r.json)
    r = s.execute({"command": ["/sandbox/x"], "files": {"x": "\x01\x02"}}, token=token)
    t.equal((r.status, r.json.get("exit_code")), (200, 125), "and one that can't be executed", r)
    t.equal(s.execute({"language": "klingon", "code": "1"}, token=token).status, 404, "and a language that is not there what it was")


# What each is answered with, and what its hint has; None: there is none.
SHAPES = (
    ({"command": "ls"}, "command: expected an array of strings, got a string"), ({"command": ["a"], "args": "x"}, "args: expected an array of strings, got a string"),
    ({"code": "1", "files": []}, "files: expected an object of names and their text, got an array"), ({"language": 1}, "language: expected a string, got a number"),
    ({"strict": "yes"}, "strict: expected true or false, got a string"), ({"tty": 1}, "tty: expected true or false, got a number"),
    ({"timeout": True}, "timeout: expected a number of seconds, got true"), ({"limits": []}, "limits: expected an object"),
    ({"env": ["A=1"]}, "env: expected an object of names and strings, got an array"), ({"stdin": 1}, "stdin: expected a string, got a number"),
)
HINTS = (
    ({"code": "x y z"}, "`language`"), ({"command": ["true"], "timeout": 9999}, "ask for less"), ({"language": "klingon", "code": ""}, "/v1/languages"),
    ({"command": ["true"], "limits": {"memory": "100000g"}}, "ask for less"), ({"command": ["true"], "image": "no-such"}, "`image`"),
    ({"command": ["true"], "image": "No Such"}, "within"), ({"command": ["true"], "limits": {"open_files": 100000}}, "ask for less"),
    ({"command": ["true"], "tty": True, "backend": "docker"}, "`tty`"), ({"command": ["true"], "profile": "no-such"}, "hardened"),
    ({"language": "python:9.9", "code": "1"}, None),
)
OF_THE_HOST = re.compile(r"(^|\s)-{1,2}[a-z]|`cay |sudo |\b(CAY|SECURITY|DOCKER)_|\[max\]|/etc/|cay\.toml")


def test_words(t, s):
    for body, want in SHAPES:
        r = s.execute(body)
        t.ok(r.status == 400 and want in r.error.get("message", ""), f"{body}: {want}", r)
    r = s.ask("POST", "/v1/check", {"code": 1})
    t.equal((r.status, r.error.get("message")), (400, "code: expected a string, got a number"), "a check likewise", r)
    for body, want in HINTS:
        r = s.execute(body)
        hint = r.error.get("hint")
        t.ok(r.status >= 400 and (want is None or want in (hint or "")) and not OF_THE_HOST.search(f"{hint}"), f"the hint for {body} speaks of fields", r)
    r = s.execute({"command": ["true"], "limits": {"open_files": 100000}})
    t.ok(r.status == 400 and "the configured maximum of 4096" in r.error.get("message", ""), "open files have a cap", r)
    r = s.execute({"command": ["/bin/sh", "-c", "ulimit -n"], "limits": {"open_files": 4096}})
    t.equal(r.json.get("stdout"), "4096\n", "up to which they can be asked for", r)
    r = s.execute({"command": ["true"], "files": {"x": "y" * 300000}})
    t.ok(r.status == 413 and "256k (262144 bytes)" in r.error.get("message", ""), "413 says the limit", r)
    r = s.get("/v1/check/x")
    t.equal((r.status, r.error.get("kind"), "not built" in r.error.get("hint", "")), (404, "notfound", False), "what is behind a route of ours is not there", r)


def test_api(t, s):
    """What the document says of this server is so."""
    api = s.get("/openapi.json", token=None).json
    request, limits = (api["components"]["schemas"][name]["properties"] for name in ("Request", "Limits"))
    t.equal((request["timeout"]["default"], request["timeout"]["maximum"], limits["memory"]["default"], limits["open_files"]["maximum"]),
            ("7", 9, "512m", 4096), "defaults and maximums are those in force")
    t.equal([x["url"] for x in api["servers"]], ["/", f"http://127.0.0.1:{s.port}"], "it names its address")


def test_usage(t, s):
    """A compiler has ended, and the program goes on."""
    if not {x["name"]: x for x in s.get("/v1/languages").json}["c"]["version"]:
        t.skip("usage of a run that goes on", "no C compiler", "gcc")
        return
    code = "#include <unistd.h>\nint main(void) { write(1, \"x\", 1); sleep(60); }"
    id = s.execute({"language": "c", "code": code, "detach": True}).json["id"]
    page = {}

    def is_told():
        page.update(s.get(f"/v1/executions/{id}").json)
        return "usage" in page
    t.ok(caytest.until(is_told, 60), "one that runs is shown with its usage", page)
    t.ok(page["status"] == "running" and page["usage"]["cpu_time"] > 0, "of what ended by then", page)
    s.ask("DELETE", f"/v1/executions/{id}")
    t.ok("usage" not in (s.until(id) or {"usage": 0}), "and with its result once there is one")


def test_quotas(t, mode):
    home = mode.cwd / "quotas"
    (home / "cay").mkdir(parents=True)
    path = home / "cay" / "cay.toml"

    def write(text):
        path.write_text(text)
        path.chmod(0o600)

    write("[tenant.main]\nruns_per_minute = 1\n[tenant.othr]\nconcurrency = 1\n")
    run = {"command": ["/bin/true"]}
    with Server(mode, tokens=f"{TOKEN} main execute,read,metrics\n{OTHER} other\n", env={"XDG_CONFIG_HOME": str(home)}) as s:
        t.ok("warning: [tenant.othr]: no token belongs to this tenant (did you mean other?)" in s.words(), "a tenant without a token is warned about", s.words())
        t.equal([s.execute(run).status for _ in range(2)], [200, 429], "a quota holds")
        t.equal(s.execute(run, token=OTHER).status, 200, "of its tenant")
        write("[tenant.main]\nruns_per_minute = 100\n[tenant.idle]\nmemory = '1g'\n")
        s.proc.send_signal(signal.SIGHUP)
        t.ok(caytest.until(lambda: "event=quotas-reloaded" in s.words(), 20), "SIGHUP reads quotas again", s.words()[-500:])
        t.equal([s.execute(run).status for _ in range(2)], [200, 200], "which hold at once")
        t.ok("event=tenant-without-token tenant=idle" in s.words(), "and warns as at the start", s.words()[-500:])
        write("[tenant.main]\nruns_per_minute = 0\n")
        s.proc.send_signal(signal.SIGHUP)
        t.ok(caytest.until(lambda: "event=reload-failed" in s.words(), 20), "a file that is wrong is said", s.words()[-500:])
        t.equal(s.execute(run).status, 200, "and the old quotas stay")
        path.unlink()
        write("[tenant.other]\nruns_per_minute = 1\n")
        s.proc.send_signal(signal.SIGHUP)
        t.ok(caytest.until(lambda: s.words().count("event=quotas-reloaded") == 2, 20), "a new file is taken")
        t.equal([s.execute(run, token=OTHER).status for _ in range(3)][-1], 429, "with a quota for who had none")
        text = s.get("/metrics").body.decode()
        seen = dict(re.findall(r'^(cay_tenant_\w+\{tenant="\w+"\}) (\S+)$', text, re.M))
        t.ok(int(seen.get('cay_tenant_runs_total{tenant="main"}', 0)) >= 4 and seen.get('cay_tenant_refused_total{tenant="main"}') == "1"
             and float(seen.get('cay_tenant_cpu_seconds_total{tenant="other"}', 0)) > 0 and 'cay_tenant_running{tenant="other"}' in seen,
             "metrics tell tenants apart", seen)


def test_docker(t, mode):
    """A server's containers have what docker has; a user namespace is none of it."""
    why = caydocker.missing()
    if why:
        t.skip("a server of containers", why, "docker")
        return
    with caydocker.Engine() as engine:
        engine.make_image(with_c=False)
        env = {"DOCKER_HOST": engine.host, "SECURITY_DOCKER_IMAGE": caydocker.IMAGE, "CAY_SPARES": "0", "CAY_BACKEND": "docker"}
        with Server(mode, env=env) as s:
            r = s.execute({"command": ["/bin/echo", "x"]})
            meta = (r.json or {}).get("meta") or {}
            layers = (meta.get("isolation") or {}).get("layers", [])
            t.equal((r.status, (r.json or {}).get("stdout"), meta.get("runtime")), (200, "x\n", "docker"), "docker: a server runs on a default engine", r)
            t.ok({"cgroup:memory", "cgroup:pids", "cgroup:cpu", "seccomp"} <= set(layers), "docker: with its cgroups", layers)
            r = s.execute({"command": ["/bin/echo", "x"], "require": ["user_ns"]})
            t.equal((r.status, r.error.get("kind")), (503, "unsupported"), "docker: what it does not have can't be asked for", r)


def the_warden():
    found = [p.pid for p in caytest.descendants() if p.args[1:2] == [b"warden"]]
    return found[0] if found else None


def test_cut_commands(t, mode):
    """`cay run` through a server that is told to end, and does not wait any more."""
    mine = {"CAY_SERVER": "true", "SECURITY_MAX_EXECUTION_TIME": "218"}  # another server may be up: only ours has this cap
    with Server(mode, env={**mine, "CAY_WARM": "command", "CAY_SPARES": "0", "CAY_DRAIN": "0.5"}) as s:
        run = subprocess.Popen([mode.binary, "run", "--events", "-l", "bash", "-e", "echo begun; sleep 60"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**mode.env, **mine}, cwd=mode.cwd)
        while b"begun" not in (line := run.stdout.readline()) and line:
            continue
        t.equal(s.get("/v1/health").json["commands"] if caytest.until(lambda: s.get("/v1/health").json["commands"] == 1, 30) else None, 1,
                "one goes through the server's warden")
        s.proc.send_signal(signal.SIGTERM)
        out, words = run.communicate(timeout=60)
        last = json.loads(out.splitlines()[-1])
        t.equal((last["event"], last.get("result", {}).get("verdict", {}).get("cause"), run.returncode), ("finished", "cancelled", 137),
                "past the drain time it is cancelled", last, words)
        t.equal(s.wait(), 0, "and the server ends", s.words()[-500:])


def test_cut_own(t, mode):
    """Its own, which a warden that hangs does not end in time."""
    with Server(mode, env={"CAY_DRAIN": "0.5", "CAY_SPARES": "0"}) as s:
        id = s.execute({"command": ["/bin/sh", "-c", "echo begun; sleep 60"], "detach": True}).json["id"]
        t.equal(s.events(f"/v1/executions/{id}/events", most=3)[-1][1]["data"], "begun\n", "a run goes on")
        warden = the_warden()
        os.kill(warden, signal.SIGSTOP)
        try:
            s.proc.send_signal(signal.SIGTERM)
            t.equal(s.wait(60), 0, "the server ends", s.words()[-500:])
        finally:
            with contextlib.suppress(ProcessLookupError):  # the monitor continues it, so that it can end
                os.kill(warden, signal.SIGCONT)
    shown = {}

    def is_shown():
        shown.update(json.loads(mode.cay("show", id, "--json").out or b"{}"))
        return shown
    caytest.until(is_shown, 20)
    t.equal((shown.get("verdict", {}).get("cause"), shown.get("exit_code")), ("cancelled", 143), "what it cut off is on record as cancelled", shown)


def test(t, mode):
    test_wrong_layers(t, mode)
    test_lacking(t, mode)
    if not mode.has_cgroup:
        test_undelegated(t, mode)
        return
    env = {**NO_ENGINE, "CAY_MAX_BODY": "256k", "CAY_TIMEOUT": "7", "SECURITY_MAX_EXECUTION_TIME": "9"}
    with Server(mode, env=env) as s:
        test_words(t, s)
        test_api(t, s)
        test_unmade(t, s)
    with Server(mode, env={"CAY_SPARES": "0"}) as s:
        test_usage(t, s)
    test_quotas(t, mode)
    test_cut_commands(t, mode)
    test_cut_own(t, mode)
    test_docker(t, mode)


caytest.main(test, programs=["deny"])
