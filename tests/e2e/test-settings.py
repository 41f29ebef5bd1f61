#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Settings from files and variables: `cay config` says what is in force and why, and runs obey it. What a project's file
may not do is tested field by field in tests/unit/test-config.c."""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest


def write(mode, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if mode.uid is not None:
        for one in (path, *path.parents):
            if mode.home in one.parents or mode.cwd in one.parents:
                os.chown(one, mode.uid, mode.uid)


def config(mode, **options):
    done = mode.cay("config", "--json", **options)
    return json.loads(done.out) if done.status == 0 else {"status": done.status, "err": done.err.decode()}


def row(mode, name, **options):
    """value, origin and where of one setting, as the table shows them."""
    done = mode.cay("config", **options)
    for line in done.out.decode().splitlines():
        words = line.split(None, 2)
        if words and words[0] == name:
            return words[1], words[2]
    return None


class Files:
    def __init__(self, mode):
        self.mode = mode
        self.user = mode.home / ".config/cay/cay.toml"
        self.project = mode.cwd / ".cay.toml"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.mode.home / ".config", ignore_errors=True)
        self.project.unlink(missing_ok=True)


def origins(t, mode):
    with Files(mode) as f:
        t.equal(row(mode, "memory"), ("512m", "built-in"), "built-in")
        t.equal(config(mode)["memory"], {"value": "512m", "origin": "built-in", "where": None}, "built-in, as JSON")
        write(mode, f.user, "[limits]\nmemory = '300m'\npids = 50\ninodes = 5000\n[max]\nmemory = '1g'\n")
        t.equal(row(mode, "memory"), ("300m", f"user file: {f.user}"), "the user's file")
        t.equal(row(mode, "max.memory"), ("1g", f"user file: {f.user}"), "the user's file: a cap")
        write(mode, f.project, "[limits]\npids = 40\ninodes = 4000\n")
        t.equal(row(mode, "pids"), ("40", "project file: .cay.toml"), "the project's file over the user's")
        t.equal(row(mode, "inodes", env={"CAY_INODES": "99"}), ("99", "environment: CAY_INODES"), "a variable over both")
        t.equal(row(mode, "max.timeout"), ("300", "built-in"), "the cap on time")
        other = mode.home / "elsewhere"
        write(mode, other / "cay/cay.toml", "[limits]\nmemory = '200m'\n")
        t.equal(row(mode, "memory", env={"XDG_CONFIG_HOME": str(other)}), ("200m", f"user file: {other}/cay/cay.toml"),
                "XDG_CONFIG_HOME")
        shutil.rmtree(other)
        r = mode.python("print(1)", env={"CAY_INODES": "999"})
        t.result(r, "a run obeys them all", cause="ok", meta__resource_limits__memory=300 << 20, meta__resource_limits__pids=40,
                 meta__resource_limits__inodes=999)
        r = mode.python("print(1)", "--pids", "60", "--memory", "400m")
        t.result(r, "a flag is over files", cause="ok", meta__resource_limits__memory=400 << 20, meta__resource_limits__pids=60)
        done = mode.cay("run", "--memory", "2g", "-l", "python", "-e", "print('RAN')")
        t.ok(done.status == 2 and b"memory" in done.err and b"1g" in done.err and b"RAN" not in done.out, "past the cap: exit status 2",
             *done.describe())
    light = {"CAY_PROFILE": "light"}
    for name, value in (("timeout", "5"), ("memory", "128m"), ("cpus", "0.5"), ("pids", "25")):
        t.equal(row(mode, name, env=light), (value, "profile: light (environment: CAY_PROFILE)"), f"a profile's {name}")
    t.equal(row(mode, "memory", env={**light, "CAY_MEMORY": "1g"}), ("128m", "profile: light (environment: CAY_PROFILE)"),
            "a profile is over a variable, as in a run")
    t.equal(row(mode, "disk", env=light), ("128m", "built-in"), "what it leaves open")
    t.equal(config(mode, env=light)["pids"], {"value": "25", "origin": "profile", "where": "light (environment: CAY_PROFILE)"},
            "a profile, as JSON")
    everything = config(mode)
    for name in ("timeout", "memory", "backend", "policy", "store_code", "docker_host", "compile_timeout", "max"):
        t.ok(name in everything, f"config --json has {name}", sorted(everything))


def unset(t, mode):
    """What is in force where nobody has set anything."""
    layers = config(mode)["require"]["unset"].split(",")
    plan = mode.json("run", "-l", "python", "-e", "print(1)").get("meta.isolation.layers")
    t.ok({"seccomp", "landlock", "pid_ns"} <= set(layers) <= set(plan) and not [name for name in layers if "cgroup:" in name],
         "require: the layers that a run has to have", layers, plan)
    t.equal(row(mode, "require"), (",".join(layers), "built-in"), "and the table shows them")
    t.ok("user_ns" not in config(mode, env={"CAY_BACKEND": "docker"})["require"]["unset"], "of the backend that is set")
    t.equal(config(mode, env={"CAY_REQUIRE": "seccomp"})["require"], {"value": "seccomp", "origin": "environment", "where": "CAY_REQUIRE"},
            "not where it is set")
    t.ok("isolated" in mode.cay("config").out.decode().split("enable_sandbox")[1].splitlines()[0], "enable_sandbox: what unset means")


def unknown_variables(t, mode):
    for name, words in (("CAY_MEMROY", "did you mean CAY_MEMORY?"), ("CAY_XYZZY", "no setting has that name")):
        for args in (("config",), ("config", "--json"), ("run", "-l", "python", "-e", "print(1)"),
                     ("serve", "--token-file", "/nonexistent")):
            done = mode.cay(*args, env={name: "1"})
            t.ok(f"cay: warning: unknown variable {name}".encode() in done.err and words.encode() in done.err,
                 f"{args[0]} warns of {name}", *done.describe())
    for args, env in ((("run", "-q", "-l", "python", "-e", "print(1)"), {"CAY_XYZZY": "1"}), (("config",), {"CAY_TEST_X": "1", "CAY_HELPER": "x"})):
        done = mode.cay(*args, env=env)
        t.equal((done.status, done.err), (0, b""), f"{' '.join(args[:2])}: nothing said of {', '.join(env)}")


def variables(t, mode):
    for variable, name, shown in (
        ("SANDBOX_TYPE=local", "backend", "native"),
        ("SANDBOX_TIMEOUT_SEC=33", "timeout", "33"),
        ("SANDBOX_MAX_OUTPUT_KB=12", "max_output", "12k"),
        ("SANDBOX_BLOCK_DANGEROUS_IMPORTS=true", "policy", "block"),
        ("SANDBOX_STORE_CODE=never", "store_code", "never"),
        ("DOCKER_CPU_LIMIT=0.5", "cpus", "0.5"),
        ("DOCKER_HOST=unix:///x", "docker_host", "unix:///x"),
        ("SECURITY_ENABLE_SANDBOX=true", "enable_sandbox", "true"),
        ("SECURITY_DOCKER_IMAGE=x:1", "docker_image", "x:1"),
        ("SECURITY_MAX_EXECUTION_TIME=60", "max.timeout", "60"),
        ("CAY_MEMORY=64m", "memory", "64m"),
        ("CAY_NETWORK=none", "network", "none"),
    ):
        key, value = variable.split("=", 1)
        t.equal(row(mode, name, env={key: value}), (shown, f"environment: {key}"), variable)
        done = mode.cay("config", env={key: "\x1b[31m?"})
        if key in ("DOCKER_HOST", "SECURITY_DOCKER_IMAGE"):
            t.ok(done.status == 2 and b"\x1b" not in done.err, f"{key}: control characters are refused", *done.describe())
            continue
        t.ok(done.status == 2 and key.encode() in done.err and b"\x1b" not in done.err, f"{key}: a bad value names the variable",
             *done.describe())
        done = mode.cay("run", "-l", "python", "-e", "print('RAN')", env={key: "?"})
        t.ok(done.status in (2, 125) and b"RAN" not in done.out, f"{key}: and nothing runs", *done.describe())
    r = mode.python("print(1)", env={"SANDBOX_TIMEOUT_SEC": "33", "SANDBOX_MAX_OUTPUT_KB": "12", "SANDBOX_TYPE": "local"})
    t.result(r, "a run obeys them", cause="ok", meta__resource_limits__timeout=33.0, meta__resource_limits__max_output=12288,
             meta__runtime="native")
    done = mode.cay("run", "--timeout", "61", "-l", "python", "-e", "print('RAN')", env={"SECURITY_MAX_EXECUTION_TIME": "60"})
    t.ok(done.status == 2 and b"60" in done.err and b"RAN" not in done.out, "SECURITY_MAX_EXECUTION_TIME is the cap", *done.describe())
    done = mode.cay("run", "--timeout", "0", "-l", "python", "-e", "print('RAN')", env={"SECURITY_MAX_EXECUTION_TIME": "60"})
    t.ok(done.status == 2 and b"0.001 to 60\n" in done.err, "SECURITY_MAX_EXECUTION_TIME ends the range that is told", *done.describe())
    r = mode.python("print(1)", "--timeout", "400", env={"SECURITY_MAX_EXECUTION_TIME": "600"})
    t.result(r, "SECURITY_MAX_EXECUTION_TIME raises it", cause="ok", meta__resource_limits__timeout=400.0)
    done = mode.cay("run", "-l", "python", "-e", "print('RAN')", env={"SECURITY_ENABLE_SANDBOX": "false"})
    t.equal((done.status, done.out), (0, b"RAN\n"), "SECURITY_ENABLE_SANDBOX=false alone changes nothing", *done.describe())
    r = mode.python("print(1)", env={"SECURITY_ENABLE_SANDBOX": "false"})
    t.result(r, "it still runs isolated", cause="ok", meta__isolation__tier="kernel")


def project(t, mode):
    with Files(mode) as f:
        write(mode, f.project, "timeout = 3\n[limits]\nmemory = '64m'\npids = 9\n")
        r = mode.python("print(1)")
        t.result(r, "project: tightens", cause="ok", meta__resource_limits__timeout=3.0, meta__resource_limits__memory=64 << 20,
                 meta__resource_limits__pids=9)
        t.empty(r.get("meta.warnings") if mode.has_cgroup else [], "project: tightening is no reason to warn")
        write(mode, f.project, "timeout = 200\npolicy = 'off'\nnetwork = 'full'\nmin_isolation = 'none'\n[limits]\nmemory = '4g'\npids = 5000\n")
        r = mode.python("print(1)")
        t.result(r, "project: never loosens", "1\n", cause="ok", meta__resource_limits__timeout=30.0,
                 meta__resource_limits__memory=512 << 20, meta__resource_limits__pids=100, meta__isolation__tier="kernel")
        words = json.dumps(r.get("meta.warnings"))
        for name in ("timeout", "policy", "network", "min_isolation", "memory", "pids"):
            t.ok(name in words, f"project: {name} was asked for in vain, and that is said", words)
        for text, named in (("backend = 'process'\n", "backend"), ("fallback = 'unsafe'\n", "fallback"), ("require = []\n", "require"),
                            ("profile = 'light'\n", "profile"), ("[max]\ntimeout = 900\n", "max"), ("[profiles.default]\npids = 1\n", "profiles"),
                            ("[security]\nenable_sandbox = false\n", "security"), ("qqq = 1\n", "qqq"), ("[limits]\nmemroy = 1\n", "memroy"),
                            ("timeout = 'x'\n", "timeout"), ("= 1\n", ".cay.toml")):
            write(mode, f.project, text)
            done = mode.cay("run", "-l", "python", "-e", "print('RAN')")
            t.ok(done.status == 2 and named.encode() in done.err and b".cay.toml:" in done.err and b"RAN" not in done.out,
                 f"project: {text.splitlines()[0]} is an error with file and line", *done.describe())
        # A file of the folder that one stands in, and of no other.
        write(mode, f.project, "timeout = 3\n")
        sub = mode.cwd / "sub"
        sub.mkdir(exist_ok=True)
        r = mode.python("print(1)", cwd=sub)
        t.result(r, "project: only of the folder itself", cause="ok", meta__resource_limits__timeout=30.0)
    with Files(mode) as f:
        write(mode, f.user, "[profiles.mine]\nmemory = '96m'\n")
        write(mode, f.project, "[limits]\nmemory = '64m'\n")
        r = mode.python("print(1)", "--profile", "mine")
        t.result(r, "a profile of the user's own", cause="ok", meta__resource_limits__memory=96 << 20)


def broken(t, mode):
    with Files(mode) as f:
        for text in ("memory = '64m'\n", "tiemout = 3\n", "x = \n"):
            write(mode, f.user, text)
            for command in (("config",), ("run", "-l", "python", "-e", "print('RAN')"), ("languages",)):
                done = mode.cay(*command)
                t.ok(done.status == 2 and str(f.user).encode() + b":1" in done.err and b"RAN" not in done.out,
                     f"the user's file {text!r}: {command[0]} names file and line", *done.describe())
            for command in (("help",), ("config", "--help"), ("version",)):
                done = mode.cay(*command)
                t.equal(done.status, 0, f"the user's file {text!r}: {' '.join(command)} helps all the same", *done.describe())
        if mode.uid is not None:
            # Under sudo or su HOME may be somebody else's: what can't be read is not there.
            os.chmod(f.user, 0)
            os.chown(f.user, 0, 0)
            done = mode.cay("config")
            t.equal(done.status, 0, "a user's file that can't be read is not there", *done.describe())
            write(mode, f.project, "timeout = 3\n")
            os.chown(f.project, 0, 0)
            os.chmod(f.project, 0)
            r = mode.python("print('RAN')")
            t.result(r, "a project's file that can't be read", "", exit_code=125, cause="infrastructure", language="python")
            done = mode.cay("run", "--events", "-l", "python", "-e", "print('RAN')")
            events = [json.loads(line) for line in done.out.splitlines()]
            t.ok(done.status == 125 and [e["event"] for e in events] == ["finished"] and events[0]["result"]["exit_code"] == 125,
                 "the events end with it", *done.describe())
            t.equal(mode.cay("run", "--help").status, 0, "help is there all the same")


def test(t, mode):
    origins(t, mode)
    unset(t, mode)
    unknown_variables(t, mode)
    variables(t, mode)
    project(t, mode)
    broken(t, mode)


caytest.main(test, modes=("root", "user"))
