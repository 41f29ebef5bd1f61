#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command line before anything runs: help, unknown words and their nearest right ones, values that are refused."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

COMMANDS = ("run", "exec", "languages", "config", "doctor", "setup", "completion", "version", "help")
UNBUILT = ("batch", "compare", "test", "verify", "session", "repl", "mcp")
RAN = "print('RAN')"

# flag, value, words of the message besides the flag and the value: what is allowed
BAD_VALUES = [
    ("timeout", "0", "0.001 to 300"),
    ("timeout", "-1", "seconds"),
    ("timeout", "soon", "seconds"),
    ("timeout", "nan", "seconds"),
    ("timeout", "1e3", "seconds"),
    ("timeout", "", "seconds"),
    ("timeout", "301", "maximum of 300"),
    ("timeout", "99999999999999999999", "to 300"),
    ("memory", "1", "4m to"),
    ("memory", "0", "4m to"),
    ("memory", "64q", "512m"),
    ("memory", "-64m", "size"),
    ("memory", "1.5", "size"),
    ("swap", "-1", "size"),
    ("cpu-shares", "0", "2 to 1024"),
    ("cpu-shares", "2048", "2 to 1024"),
    ("cpu-quota", "-1", "whole number"),
    ("cpu-period", "10", "1000 to"),
    ("memory-swap", "lots", "size"),
    ("cpus", "0", "0.01 to"),
    ("cpus", "many", "number"),
    ("cpu-time", "0", "0.001 to"),
    ("pids", "0", "1 to"),
    ("pids", "1.5", "whole number"),
    ("pids", "-1", "1 to 4194304"),
    ("pids", "+3", "whole number"),
    ("disk", "1", "64k to"),
    ("inodes", "1", "8 to"),
    ("open-files", "1", "8 to"),
    ("max-output", "much", "size"),
    ("max-output", "2g", "to 1g"),
    ("output-cap", "0", "1 to"),
    ("backend", "chroot", "native docker"),
    ("min-isolation", "high", "none kernel gvisor vm"),
    ("policy", "on", "off warn block"),
    ("fallback", "always", "never isolated unsafe"),
    ("profile", "hardend", "hardened"),
    ("require", "secomp", "seccomp"),
    ("require", "nope", "landlock"),
]


def helps(t, mode):
    overview = mode.cay("help")
    t.ok(overview.status == 0 and overview.err == b"", "help: exit status 0, nothing on stderr", *overview.describe())
    text = overview.out.decode()
    for name in COMMANDS:
        t.ok(f"\n  {name} " in text, f"help names {name}", text)
    for name in UNBUILT:
        t.ok(f"\n  {name} " not in text, f"help does not name {name}", text)
    for same in (("--help",), ("-h",), ("help", "help")):
        t.equal(mode.cay(*same).out, overview.out, f"{' '.join(same)} is the same")
    for name in COMMANDS[:-1]:
        direct, by_flag, by_letter = mode.cay("help", name), mode.cay(name, "--help"), mode.cay(name, "-h")
        t.ok(direct.status == 0 and direct.err == b"" and direct.out.startswith(b"Usage: cay " + name.encode()),
             f"help {name}", *direct.describe())
        t.ok((by_flag.status, by_flag.out) == (0, direct.out) and (by_letter.status, by_letter.out) == (0, direct.out),
             f"{name} --help and -h are the same", *by_flag.describe())
    done = mode.cay()
    t.equal((done.status, done.out), (2, overview.out), "no command at all: help, and exit status 2")
    for args in (("version",), ("--version",)):
        done = mode.cay(*args)
        t.ok(done.status == 0 and done.out.startswith(b"cay "), " ".join(args), *done.describe())
    for name in ("help", "languages", "config", "version"):
        done = mode.command("/bin/sh", "-c", f"'{mode.binary}' {name} >/dev/full")
        t.ok(done.status == 125 and done.err, f"{name} onto a full disk: 125, and said", *done.describe())
    for flags in ("", "--json", "--events", "--repeat 2", "--repeat 2 --json"):
        done = mode.command("/bin/sh", "-c", f"'{mode.binary}' run {flags} -l bash -e 'echo hi' >/dev/full")
        t.ok(done.status == 125 and b"cannot write to stdout" in done.err, f"run {flags} onto a full disk: likewise", *done.describe())


def flags_of_run(t, mode):
    """Every field of the request that the contract's table has is a flag, with dashes."""
    text = mode.cay("help", "run").out.decode()
    for field in ("language", "timeout", "memory", "swap", "cpus", "cpu-time", "pids", "disk", "inodes", "open-files",
                  "max-output", "output-cap", "network", "workspace", "collect", "backend", "min-isolation", "policy",
                  "require", "strict", "strip-fence", "image", "runtime", "fallback", "shell-allow", "policy-bypass", "tty",
                  "profile", "file", "env", "env-file", "json", "events", "raw", "no-color", "no-server", "plan"):
        t.ok(f"--{field} " in text or f"--{field}\n" in text, f"help run has --{field}")
    for field in ("session", "detach", "webhook"):
        t.ok(f"--{field}" not in text, f"help run does not show --{field}, which it refuses")
    for words in ("(30)", "(512m)", "(auto)"):
        t.ok(words in text, f"help run shows a default: {words}")


def other_programs_forms(t, mode):
    """What people type who know python3, docker and other servers."""
    for args, out in (
        (("ran.py",), b"RAN\n"),
        (("ran.py", "--timeout", "5"), b"RAN\n"),
        (("run", "-l", "python", "-c", RAN), b"RAN\n"),
        (("exec", "-i", "--", "echo", "RAN"), b"RAN\n"),
        (("check", "-l", "python", "-e", "1"), b"(code): nothing found\n"),
    ):
        done = mode.cay(*args)
        t.equal((done.status, done.out, done.err), (0, out, b""), f"cay {' '.join(args[:3])}: understood", *done.describe())
    done = mode.cay("serve", "--port", "x")
    t.ok(done.status == 2 and b"x" in done.err, "serve --port: a port that is none", *done.describe())


def misuse_as_json(t, mode):
    """One object on stdout, whichever command it is and wherever --json stands."""
    for args, words in (
        (("run", "--json", "--timeout", "0", "-l", "python", "-e", RAN), ("timeout", "0.001 to 300")),
        (("run", "--tiemout", "2", "--json", "-l", "python", "-e", RAN), ("--tiemout", "--timeout")),
        (("run", "--json", "--repeat", "x"), ("--repeat",)),
        (("exec", "--json"), ("no command",)),
        (("show", "--bogus", "--json"), ("--bogus",)),
        (("languages", "--jsn", "--json"), ("--jsn", "--json")),
        (("languages", "--json", "too", "many"), ("unexpected argument 'too'",)),
        (("show", "--json", "--stdout", "last"), ("are mutually exclusive",)),
        (("explain", "--json", "--report", "last"), ("are mutually exclusive",)),
        (("explain", "--json"), ("which run",)),
        (("check", "--json"), ("which file",)),
        (("image", "lst", "--json"), ("cay image list",)),
        (("image", "remove", "--json"), ("--json",)),
        (("token", "--json"), ("add, list or remove",)),
        (("history", "--json", "--cause", "hunger"), ("hunger",)),
        (("completion", "ksh", "--json"), ("bash",)),
        (("bogus", "--json"), ("unknown command 'bogus'",)),
        (("repl", "--json"), ("not built yet",)),
        (("--json",), ("before the option",)),
    ):
        done = mode.cay(*args)
        error = json.loads(done.out)["error"]
        t.ok(done.status == 2 and set(error) == {"kind", "message", "hint"} and error["kind"] == "usage"
             and all(word in error["message"] + (error["hint"] or "") for word in words),
             f"cay {' '.join(args[:3])}: misuse as JSON", *done.describe())
    for args, status, kind in (
        (("show", "--json", "ffffffffffff"), 127, "notfound"),
        (("explain", "--json", "ffffffffffff"), 127, "notfound"),
        (("check", "--json", "nofile.py"), 2, "usage"),
        (("apply", "--json"), 2, "usage"),
    ):
        done = mode.cay(*args)
        error = json.loads(done.out)["error"]
        t.ok((done.status, error["kind"]) == (status, kind) and error["message"] in done.err.decode() and done.out.count(b"\n") == 1,
             f"cay {' '.join(args)}: its error as JSON", *done.describe())
    plain, pretty = (mode.cay("run", "--json", *flag, "-l", "python", "-e", RAN).out for flag in ((), ("--pretty",)))
    t.ok(plain.count(b"\n") == 1 and pretty.count(b"\n") > 20 and json.loads(pretty)["stdout"] == "RAN\n",
         "--json --pretty is indented", pretty)


def unknown(t, mode):
    for folder in ("folder", "empty"):
        (mode.cwd / folder).mkdir(exist_ok=True)
    (mode.cwd / "folder/main.py").write_text(RAN)
    (mode.cwd / "ran.py").write_text(RAN)
    for args, status, words in (
        (("rnu",), 2, ("'rnu'", "cay run")),
        (("langauges",), 2, ("cay languages",)),
        (("help", "rnu"), 2, ("'rnu'", "cay run")),
        (("qqqqqq",), 2, ("'qqqqqq'", "cay help")),
        (("nosuch.py",), 2, ("there is no file 'nosuch.py'", "cay run FILE")),
        (("folder/nosuch",), 2, ("there is no file 'folder/nosuch'", "cay run FILE")),
        *(((name, "--json"), 2, (f"cay {name} is not built yet",)) for name in UNBUILT),
        (("help", "repl"), 2, ("cay repl is not built yet",)),
        (("run", "--tiemout", "2", "-l", "python", "-e", RAN), 2, ("--tiemout", "--timeout")),
        (("run", "--max_output", "2", "-l", "python", "-e", RAN), 2, ("--max_output", "--max-output")),
        (("run", "-x", "-l", "python", "-e", RAN), 2, ("-x",)),
        (("exec", "--jsno", "--", "echo", "RAN"), 2, ("--jsno", "--json")),
        (("languages", "--jsn"), 2, ("--jsn", "--json")),
        (("config", "--jsn"), 2, ("--jsn", "--json")),
        (("setup", "--remvoe", "x"), 2, ("--remvoe", "--remove")),
        (("run", "-l", "pyhton", "-e", RAN), 127, ("'pyhton'", "python")),
        (("-it",), 2, ("'-it'", "cay run -it")),
        (("run", "print(1)"), 2, ("print(1)", "-e CODE")),
        (("run", "folder"), 2, ("is a folder", "--workspace folder folder/main.py")),
        (("run", "empty"), 2, ("is a folder", "--workspace empty empty/FILE")),
        (("run", "-l", "qqqqqqqqqq", "-e", RAN), 127, ("'qqqqqqqqqq'", "cay languages")),
        (("run", "-l", "python:1.0", "-e", RAN), 127, ("1.0", "cay languages")),
        (("run", "--require", "lanlock", "-l", "python", "-e", RAN), 2, ("'lanlock'", "landlock")),
        (("completion", "tcsh"), 2, ("'tcsh'", "bash zsh fish")),
    ):
        done = mode.cay(*args)
        err = done.err.decode()
        t.ok(done.status == status and b"RAN" not in done.out and all(w in err for w in words),
             f"cay {' '.join(args[:3])}: {status}, with a suggestion", *done.describe())
        t.ok(err.startswith("cay: "), f"cay {' '.join(args[:3])}: in cay's own words", err)


def misuse(t, mode):
    (mode.cwd / "folder").mkdir(exist_ok=True)
    for name, args in (
        ("no command to exec", ("exec",)),
        ("code for exec", ("exec", "-e", RAN, "--", "echo", "RAN")),
        ("code for exec, by its long name", ("exec", "--eval", RAN, "--", "echo", "RAN")),
        ("a language for exec", ("exec", "-l", "python", "--", "echo", "RAN")),
        ("--diff and --events at once", ("run", "--diff", "--events", "-l", "python", "-e", RAN)),
        ("an option without its value", ("run", "-l")),
        ("a value for a flag", ("run", "--json=yes", "-l", "python", "-e", RAN)),
        ("a file that is not there", ("run", "nothing-here.py")),
        ("a folder instead of a file", ("run", "-l", "python", "folder")),
        ("a file for the sandbox that is not there", ("run", "--file", "nothing-here", "-l", "python", "-e", RAN)),
        ("a file name that leaves the sandbox", ("run", "--file", "../x=/etc/hostname", "-l", "python", "-e", RAN)),
        ("a file without end", ("run", "--file", "x=/dev/zero", "-l", "python", "-e", RAN)),
        ("an absolute file name", ("run", "--file", "/x=/etc/hostname", "-l", "python", "-e", RAN)),
        ("a file with the name of the code", ("run", "--file", "main.py=/etc/hostname", "-l", "python", "-e", RAN)),
        ("a variable without a name", ("run", "--env", "=x", "-l", "python", "-e", RAN)),
        ("a variable that is not set", ("run", "--env", "CAY_NOT_SET_ANYWHERE", "-l", "python", "-e", RAN)),
        ("an env file that is not there", ("run", "--env-file", "nothing-here", "-l", "python", "-e", RAN)),
        ("a request that is not there", ("run", "--request", "nothing-here")),
        ("code in no known language", ("run", "-e", RAN)),
        ("a language of no known name", ("run", "/etc/hostname")),
        ("a word too many for languages", ("languages", "python")),
        ("a word too many for config", ("config", "memory")),
        ("a word too many for version", ("version", "2")),
        ("setup without a user", ("setup",)),
        ("completion without a shell", ("completion",)),
    ):
        done = mode.cay(*args)
        t.ok(done.status == 2 and done.out == b"" and done.err.startswith(b"cay: "), f"{name}: exit status 2",
             *done.describe())


def values(t, mode):
    for field, value, allowed in BAD_VALUES:
        for command in (("run", f"--{field}={value}", "-l", "python", "-e", RAN), ("exec", f"--{field}={value}", "--", "echo", "RAN")):
            done = mode.cay(*command)
            err = done.err.decode()
            # "the configured maximum" is told by the field's own name
            named = field in err or field.replace("-", "_") in err
            t.ok(done.status == 2 and b"RAN" not in done.out and named and value in err and allowed in err,
                 f"{command[0]} --{field}={value!r}: names the field, what was given and what is allowed", *done.describe())
    done = mode.cay("run", "--json", "--timeout", "0", "-l", "python", "-e", RAN)
    t.ok(done.status == 2 and b"RAN" not in done.out, "also with --json: exit status 2", *done.describe())
    # Control characters of a value do not reach the terminal.
    done = mode.cay("run", "--memory", "\x1b[2J\x9b", "-l", "python", "-e", RAN)
    t.ok(done.status == 2 and b"\x1b" not in done.err, "a value is not shown raw", *done.describe())
    t.ok(b"\xc2\x9b" not in done.err, "nor are its 8-bit controls", *done.describe())
    # Nor can it begin a line that reads as cay's own.
    for field in ("files", "env"):
        request = {"language": "python", "code": RAN, field: {"a\ncay: everything is fine\n": "x"}}
        done = mode.cay("run", "--request", "-", stdin=json.dumps(request).encode())
        t.ok(done.status == 2 and done.err.count(b"\n") == 1 and b"a\\x0acay:" in done.err, f"a line feed of {field} is made visible",
             *done.describe())


def long_words(t, mode):
    """What execve takes at most, cold as warm; past it the field is told."""
    code = "import os, sys; print(len(sys.argv), len(os.environ.get('V', '')))"
    base = {"language": "python", "code": code}

    def ask(request, *flags):
        return mode.cay("run", *flags, "--request", "-", stdin=json.dumps(request).encode())

    for flags in ((), ("--strict",)):
        done = ask({**base, "args": ["x" * 131071, *["y" * 100000] * 15], "env": {"V": "z" * 131069}}, *flags)
        t.equal((done.status, done.out), (0, b"17 131069\n"), f"as much as fits {flags}", *done.describe())
        for field, request in (("args", {**base, "args": ["x" * 131072]}), ("env", {**base, "env": {"V": "x" * 131070}}),
                               ("command", {"command": ["echo", "x" * 131072]}), ("args", {**base, "args": ["x" * 100000] * 22})):
            done = ask(request, *flags)
            t.ok(done.status == 2 and done.out == b"" and done.err.startswith(f"cay: {field}: ".encode()) and b"the maximum is" in done.err,
                 f"{field} that is too long {flags}: exit status 2, with field and size", *done.describe())


def refused(t, mode):
    for flags, words in (
        (("--min-isolation", "vm"), "min_isolation"),
        (("--min-isolation", "gvisor"), "ocker"),  # whose engine is what gives it, and is not there
        (("--backend", "docker"), "docker"),
        (("--backend", "vm"), "vm"),
        (("--backend", "wasm"), "wasm"),
        (("--backend", "process"), "min_isolation"),
        (("--backend", "native", "--min-isolation", "vm"), "min_isolation"),
        (("--network", "full"), "network"),
        (("--network", "example.org"), "network"),
        (("--network", "none,example.org"), "network: 'example.org'"),
        (("--session", "s1"), "session"),
        (("--backend", "native", "--runtime", "runsc"), "runtime"),
        (("--detach",), "detach"),
    ):
        done = mode.cay("run", *flags, "-l", "python", "-e", RAN)
        t.ok(done.status == 125 and done.out == b"" and words in done.err.decode(),
             f"{' '.join(flags)}: refused with 125, and said why", *done.describe())
        r = mode.json("run", *flags, "-l", "python", "-e", RAN)
        t.result(r, f"{' '.join(flags)}: the result says so", "", cause="infrastructure", exit_code=125, success=False, language="python",
                 meta__resource_limits__timeout=30.0, meta__resource_limits__memory=512 << 20)
    limited = mode.json("run", "--backend", "vm", "--profile", "light", "--memory", "64m", "-l", "python", "-e", RAN)
    t.result(limited, "a refused run: the limits are those that it asked for", "", exit_code=125, meta__resource_limits__timeout=5.0,
             meta__resource_limits__memory=64 << 20, meta__resource_limits__disk=32 << 20, meta__resource_limits__pids=25)
    t.result(mode.json("run", "--backend", "vm", "-l", "go", "-e", RAN), "and those of its language", "", exit_code=125,
             meta__resource_limits__memory=100 << 20)
    (mode.cwd / "x.py").write_text(RAN)
    for words in (("-l", "py:3", "-e", RAN), ("x.py",)):
        r = mode.json("run", "--backend", "vm", *words)
        t.result(r, f"{words[0]}: the result names the language", "", exit_code=125, language="python")
    t.result(mode.json("run", "--image", "nope", "-l", "python", "-e", RAN), "an image that is not there", "", success=False, language="python")
    t.result(mode.json("exec", "--backend", "vm", "--", "true"), "a command has no language", "", exit_code=125, language=None)
    for flags in (("--network", "none"), ("--min-isolation", "none"), ("--min-isolation", "kernel"), ("--backend", "auto"),
                  ("--backend", "native"), ("--image", "host"), ("--no-server",), ("--strict",), ("--policy", "off")):
        r = mode.json("run", *flags, "-l", "python", "-e", RAN)
        t.result(r, f"{' '.join(flags)}: runs", "RAN\n", cause="ok", meta__runtime="native", meta__isolation__tier="kernel")


def test(t, mode):
    helps(t, mode)
    flags_of_run(t, mode)
    unknown(t, mode)
    other_programs_forms(t, mode)
    misuse_as_json(t, mode)
    misuse(t, mode)
    values(t, mode)
    long_words(t, mode)
    refused(t, mode)


caytest.main(test, modes=("user",))
