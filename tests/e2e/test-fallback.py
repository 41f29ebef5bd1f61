#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Where the backend asked for can't be had: refused unless `fallback` says otherwise, and what ran instead is told in the
result and in the audit log. Which backend is taken when is tests/unit/test-plan.c's; here a host really lacks something:
Landlock, by a filter around cay, or an engine at the other end of DOCKER_HOST."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
import cayserve

# Nobody's, whatever engine this host has.
NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent/engine.sock"}


def lacking(mode, *args, layer="landlock", **options):
    """cay on a host without Landlock, and without an engine that could take native's place."""
    options["env"] = {**NO_ENGINE, "SECURITY_ENABLE_SANDBOX": "false", **(options.get("env") or {})}
    return mode.command(caytest.workdir() / "deny", layer, mode.binary, *args, **options)


def never(t, mode):
    for flags, env in (((), {}), (("--fallback", "never"), {}), (("--fallback", "isolated"), {}), ((), {"CAY_FALLBACK": "unsafe"}),
                       ((), {"SECURITY_ENABLE_SANDBOX": "false"})):
        done = lacking(mode, "exec", *flags, "--", "/bin/echo", "RAN", env=env)
        t.ok(done.status == 125 and b"RAN" not in done.out and b"landlock" in done.err, f"refused, and the layer named: {flags} {env}",
             *done.describe())


def unsafe(t, mode):
    r = caytest.Result(lacking(mode, "exec", "--json", "--fallback", "unsafe", "--", "/bin/cat", stdin=b"all of it"))
    t.result(r, "unsafe: runs", "all of it", cause="ok", meta__runtime="process", meta__isolation__tier="none")
    t.equal(r.get("meta.fallback.asked"), "auto", "unsafe: what was asked")
    t.equal(r.get("meta.fallback.ran"), "process", "unsafe: what ran")
    t.equal(r.get("meta.fallback.how"), "unsafe", "unsafe: how that came")
    t.matches(r.get("meta.fallback.why") or "", "landlock", "unsafe: and why")
    t.ok(any(w.startswith("UNSAFE: ") for w in r.get("meta.warnings")), "unsafe: a warning in the result", r.get("meta.warnings"))
    t.ok(b"UNSAFE: " in r.done.err, "unsafe: and a loud one", *r.done.describe())
    if not mode.is_root:  # root's log is everybody's, and long
        entries = [json.loads(line) for line in mode.cay("audit", "export").out.splitlines()]
        own = [e for e in entries if e.get("id") == r.get("id")]
        t.equal([(e["asked"], e["fallback"], e["backend"], e["tier"]) for e in own], [("auto", "unsafe", "process", "none")],
                "unsafe: in the audit log")
    shown = json.loads(mode.cay("show", "--json", r.get("id")).out or b"{}")
    t.equal(((shown.get("result") or shown).get("meta") or {}).get("fallback"), r.get("meta.fallback"), "unsafe: and kept")
    done = lacking(mode, "run", "--fallback", "unsafe", "-l", "python", "-e", "import os; print('RAN')")
    t.ok(done.status == 126 and b"RAN" not in done.out and b"blocked import: os" in done.err,
         "unsafe: the static check blocks where nobody said otherwise", *done.describe())
    done = lacking(mode, "run", "--fallback", "unsafe", "--policy", "warn", "-l", "python", "-e", "import os; print('RAN')")
    t.ok(done.status == 0 and done.out == b"RAN\n", "unsafe: and warns where somebody did", *done.describe())
    done = lacking(mode, "exec", "--fallback", "unsafe", "--", "/bin/echo", "RAN", env={"SECURITY_ENABLE_SANDBOX": "true"})
    t.ok(done.status == 126 and b"RAN" not in done.out and b"enable_sandbox" in done.err,
         "with the sandbox enabled nothing runs without it", *done.describe())
    shown = json.loads(mode.cay("config", "--json").out)["enable_sandbox"]
    t.equal(shown["value"], None, "which is shown as set only where somebody has set it")
    named = ("exec", "--backend", "process", "--min-isolation", "none", "--", "/bin/echo", "RAN")
    for args in (("exec", "--fallback", "unsafe", "--", "/bin/echo", "RAN"), named):
        for value, want in ((None, 0), ("false", 0), ("true", 126)):
            env = {**NO_ENGINE, **({"SECURITY_ENABLE_SANDBOX": value} if value else {})}
            done = mode.command(caytest.workdir() / "deny", "landlock", mode.binary, *args, env=env)
            t.ok(done.status == want and (b"RAN" in done.out) == (want == 0) and (want == 0 or b"SECURITY_ENABLE_SANDBOX=false" in done.err),
                 f"enable_sandbox {value}, asked for by {args[1:3]}: {want}", *done.describe())
    done = lacking(mode, "exec", "--fallback", "unsafe", "--min-isolation", "kernel", "--", "/bin/echo", "RAN")
    t.ok(done.status == 126 and b"RAN" not in done.out and b"min_isolation" in done.err, "nor below the tier that was asked for",
         *done.describe())
    done = lacking(mode, "exec", "--fallback", "unsafe", "--", "/bin/echo", "RAN", layer="landlock-short")
    t.ok(done.status == 125 and b"RAN" not in done.out and b"UNSAFE" not in done.err and b"landlock" in done.err,
         "nor is a host that is short of memory just now", *done.describe())
    script = caytest.workdir() / "not-a-program"
    script.write_text("\x01\x02")
    script.chmod(0o755)
    done = mode.cay("exec", "--fallback", "unsafe", "--file", f"x={script}", "--", "/sandbox/x", env={**NO_ENGINE, "SECURITY_ENABLE_SANDBOX": "false"})
    script.unlink()
    t.ok(done.status == 125 and b"UNSAFE" not in done.err, "what the program itself can bring about is no reason", *done.describe())


# Un-isolated, nobody said anything of a policy: what it runs is checked. None of them does any harm where it is not.
BLOCKED = [
    (("rm", "-rf", "/nonexistent-x"), "rm"), (("/bin/sh", "-c", "rm -f /nonexistent-x"), "rm"), (("env", "A=1", "sh", "-c", "rm -f /nonexistent-x"), "rm"),
    (("timeout", "5", "bash", "-ec", "true; dd if=/nonexistent-x"), "dd"), (("cat", "../../../nonexistent-x"), "climbs out"),
    (("sh", "-c", "cat ../../nonexistent-x"), "climbs out"), (("python3", "-c", "import os; print('RAN')"), "blocked import: os"),
    (("python3", "-Ic", "import os; print('RAN')"), "blocked import: os"), (("env", "python3", "-W", "ignore", "-c", "import socket"), "blocked import: socket"),
    (("sh", "-c", "python3 -c 'import os'"), "not looked at"), (("cat", "/nonexistent-x/.ssh/id_rsa"), "secrets"), (("sh",), "reads from its input"),
    (("bash", "--norc", "-c", "rm -f /nonexistent-x"), "rm"), (("bash", "-c", "--", "rm -f /nonexistent-x"), "rm"),
    (("env", "-S", "sh -c 'rm -f /nonexistent-x'"), "rm"), (("awk", 'BEGIN { system("true") }'), "starts commands"),
    (("chmod", "777", "/nonexistent-x"), "opens"), (("sudo", "-n", "true"), "another user"), (("true",) * 300, "more words"),
    (("bash", "-c", "declare -A m; m[1:1]=x; m[$m:$m]=1"), "does not parse"), (("cat", "../nonexistent-x"), "is above the folder"),
]
RUNS = [("/bin/echo", "RAN"), ("sh", "-c", "echo RAN"), ("python3", "-c", "print('RAN')"), ("echo", "python3", "RAN"), ("env", "X=RAN", "printenv", "X")]


def validated(t, mode):
    """Where there is no wall: the command, what a shell is given, and what an interpreter is."""
    process = ("exec", "--backend", "process", "--min-isolation", "none", "--")
    env = {"SECURITY_ENABLE_SANDBOX": "false"}
    for words, why in caytest.some(BLOCKED):
        r = mode.json(*process, *words, env=env)
        t.ok((r.done.status, r.cause, r.stdout) == (126, "policy", "") and why in (r.get("error_message") or ""), f"blocked: {' '.join(words)[:60]}", *r.describe())
    for words in RUNS:
        t.ok(mode.cay(*process, *words, env=env).out.endswith(b"RAN\n"), f"runs: {' '.join(words)}")
    r = mode.json("run", *process[1:-1], "-l", "bash", "-e", "declare -A m; i=1; m[$i:$i]=RAN; echo ${m[1:1]}", env=env)
    t.ok(r.cause == "policy" and "could not be checked" in r.get("error_message"), "what the grammar can't read is refused", *r.describe())
    done = lacking(mode, "exec", "--fallback", "unsafe", "--", "sh", "-c", "echo RAN; rm -f /nonexistent-x")
    t.ok(done.status == 126 and done.out == b"" and b"UNSAFE" in done.err and b"rm destroys" in done.err, "a fallback is checked when it becomes one", *done.describe())
    r = caytest.Result(lacking(mode, "exec", "--json", "--fallback", "unsafe", "--policy", "warn", "--", "sh", "-c", "rm -f /nonexistent-x; echo RAN"))
    t.ok(r.stdout == "RAN\n" and any("rm destroys" in w for w in r.get("meta.warnings")), "or told of, where somebody wants that", *r.describe())
    done = lacking(mode, "exec", "--fallback", "unsafe", "--policy", "block", "--", "rm", "-f", "/nonexistent-x")
    t.ok(done.status == 126 and b"rm destroys" in done.err, "what passes isolated is looked at again without", *done.describe())
    r = mode.json(*process[:-1], "--stdin", "rm -f /nonexistent-x", "--", "sh", env=env)
    t.ok(r.cause == "policy" and "rm destroys" in r.get("error_message"), "a shell's input too", *r.describe())
    tool = mode.cwd / "tool.py"
    tool.write_text("import subprocess\n")
    r = mode.json(*process[:-1], "--file", "tool.py", "--", "python3", "tool.py", env=env)
    tool.unlink()
    t.ok(r.cause == "policy" and r.get("meta.blocked_imports") == ["subprocess"], "and the files of the request", *r.describe())
    project = mode.cwd / ".cay.toml"
    project.write_text('policy = "warn"\n')
    r = mode.json(*process, "rm", "-f", "/nonexistent-x", env=env)
    project.unlink()
    t.ok(r.cause == "policy", "a project's file lets nothing pass", *r.describe())
    r = mode.json("exec", "--", "rm", "-f", "/nonexistent-x")
    t.result(r, "isolated, it just runs", "", cause="ok")
    r = mode.json("exec", "--policy", "block", "--", "sh", "-c", "cat ../../../etc/passwd")
    t.ok(r.cause == "policy" and "climbs out" in r.get("error_message"), "unless somebody asked for the policy there", *r.describe())
    folder = "/usr/local/lib/cay/grammars"
    if mode.is_root and caytest.contained() and os.path.isdir(folder):
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        try:
            done = mode.cay(*process, "/bin/echo", "RAN", env=env)
        finally:
            subprocess.run(["umount", folder], check=True)
        t.ok(done.status == 126 and done.out == b"" and b"could not be checked" in done.err and b"hint: " in done.err,
             "what can't be checked is unknown: it does not run, and the remedy is named", *done.describe())


def engine(t, mode):
    docker = ("--backend", "docker")
    is_built = b"not built" not in mode.cay("exec", "--plan", *docker, "--", "/bin/true", env=NO_ENGINE).err
    words = "Error: (Docker not found|Cannot connect to Docker daemon)" if is_built else "docker is not built yet"
    done = mode.cay("exec", *docker, "--", "/bin/echo", "RAN", env=NO_ENGINE)
    t.ok(done.status == 125 and b"RAN" not in done.out, "no engine: refused", *done.describe())
    t.matches(done.err.decode(), words, "no engine: and why")
    if is_built:
        t.matches(done.err.decode(), "hint: .*(apt install|start it|DOCKER_HOST)", "no engine: with the remedy")
    r = mode.json("exec", *docker, "--fallback", "isolated", "--", "/bin/cat", stdin=b"all of it", env=NO_ENGINE)
    t.result(r, "no engine, isolated: native runs it", "all of it", cause="ok", meta__runtime="native", meta__isolation__tier="kernel")
    t.equal([r.get(f"meta.fallback.{key}") for key in ("asked", "ran", "how")], ["docker", "native", "isolated"],
            "no engine, isolated: the result says so")
    t.matches(r.get("meta.fallback.why") or "", words, "no engine, isolated: and why")
    t.ok(any("docker is not available" in w for w in r.get("meta.warnings")), "no engine, isolated: a warning too", r.get("meta.warnings"))
    done = mode.cay("exec", *docker, "--fallback", "isolated", "--min-isolation", "vm", "--", "/bin/echo", "RAN", env=NO_ENGINE)
    t.ok(done.status == 125 and b"RAN" not in done.out, "no engine, isolated: never below min_isolation", *done.describe())
    r = mode.json("exec", "--", "/bin/true")
    t.result(r, "nothing lacking: nothing to tell", "", cause="ok", meta__fallback=None)


def served(t, mode):
    """Over HTTP nobody gets a run without isolation, whatever the server's own configuration says."""
    env = {**NO_ENGINE, "CAY_FALLBACK": "unsafe", "CAY_SPARES": "0", "CAY_DRAIN": "0.2"}
    with cayserve.Server(mode, env=env) as s:
        r = s.execute({"command": ["/bin/echo", "RAN"], "fallback": "unsafe"})
        t.ok(r.status == 403 and r.error.get("kind") == "policy" and "fallback" in r.error.get("message", ""),
             "HTTP: unsafe is refused by name", r)
        r = s.execute({"command": ["/bin/echo", "RAN"], "backend": "docker"})
        t.equal((r.status, r.json.get("stdout"), r.json["meta"]["runtime"]) if r.status == 200 else r, (200, "RAN\n", "native"),
                "HTTP: of the server's own unsafe, the isolated part is kept")
        r = s.execute({"command": ["/bin/echo", "RAN"], "backend": "docker", "fallback": "never"})
        t.ok(r.status != 200 or r.json["verdict"]["cause"] == "infrastructure", "HTTP: never", r)


def test(t, mode):
    host = mode.host()
    never(t, mode)
    unsafe(t, mode)
    validated(t, mode)
    engine(t, mode)
    t.empty(host.settle(), "nothing is left")
    if mode.is_root:
        served(t, mode)


caytest.main(test, programs=["deny"])
