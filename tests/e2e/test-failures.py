#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Why a run failed: `error` of the result is right for programs in every language, for each limit, and for programs of
several files; `cay explain` and its report say the same; a terminal gets a short word of it, a pipe none.

programs/errors/table.tsv has the programs. Each language's first few are run here, all of them with CAY_TEST_LONG=1;
the unit test reads what all of them wrote once (programs/errors/record.py)."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

FOLDER = Path(__file__).resolve().parent / "programs" / "errors"
EACH = 2  # programs of a language


def rows():
    count = {}
    for line in (FOLDER / "table.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, *want = line.split("\t")
        language = name.split("/")[0]
        count[language] = count.get(language, 0) + 1
        if caytest.LONG or count[language] <= EACH:
            yield language, name, want


def wrong_with(error, want):
    """What differs from the table's row; "-" stands for anything."""
    kind, line, category, part = want
    if not error:
        return ["there is no error"]
    got = (("type", error["type"], kind), ("line", str(error["line"]), line), ("category", error["category"], category))
    wrong = [f"{name} is {is_!r}, not {ought!r}" for name, is_, ought in got if ought not in ("-", is_)]
    if part != "-" and part not in (error["suggestion"] or ""):
        wrong.append(f"suggestion is {error['suggestion']!r}, without {part!r}")
    return wrong


def test_table(t, mode):
    there = {x["name"]: x.get("path") for x in json.loads(mode.cay("languages", "--json").out)}
    todo = []
    for language, name, want in rows():
        if there.get(language):
            todo.append((name, want))
        else:
            t.skip(name, f"{language} is not installed", language)
    results = caytest.together([lambda name=name: mode.json("run", FOLDER / name) for name, _ in todo], workers=2)
    for (name, want), r in zip(todo, results):
        wrong = list(r.problems) + wrong_with(r.get("error"), want)
        t.ok(not wrong, name, *wrong, *r.describe())


LIMITS = (
    ("timeout", ("--timeout", "0.3"), "while True: pass", "Timeout", "timeout", "raise timeout"),
    ("output", ("--output-cap", "10k"), "while True: print('a' * 100000)", "OutputLimit", "output", "raise output_cap"),
    ("disk", ("--disk", "1m"), "open('x', 'w').write('a' * (8 << 20))", "OSError", "disk", "raise disk"),
    ("memory", ("--memory", "64m"), "x = b'a' * (1 << 30)", "OutOfMemory", "memory", "raise memory"),
    ("network", (), "import socket\nsocket.create_connection(('192.0.2.1', 80))", "OSError", "network", "network is off"),
    ("a signal", (), "import os\nos.kill(os.getpid(), 11)", "SIGSEGV", "memory", "pointer"),
    ("an exit code", (), "import sys\nsys.exit(3)", None, "exit", None),
)


def test_limits(t, mode):
    for name, flags, code, kind, category, part in LIMITS:
        if name == "memory" and not mode.has_cgroup:
            continue  # there it may be the runtime that sees it first
        r = mode.python(code, *flags)
        t.result(r, f"{name}: its error", error__type=kind, error__category=category)
        if part:
            t.matches(r.get("error.suggestion"), part, f"{name}: what to do", *r.describe())
    t.equal(mode.python("print(1)").get("error"), None, "a run that did not fail has none")


FENCED = (("python", "print(1)"), ("bash", "echo 1"), ("javascript", "console.log(1)"), ("ruby", "puts 1"))


def test_fence(t, mode):
    """Code in a Markdown fence: the error names it, with the flag or the field, and so does the check."""
    there = {x["name"]: x.get("path") for x in json.loads(mode.cay("languages", "--json").out)}
    for language, code in FENCED:
        if not there.get(language):
            t.skip(f"fence: {language}", f"{language} is not installed", language)
            continue
        text = f"```{language}\n{code}\n```\n"
        r = mode.json("run", "-l", language, "-e", text)
        if r.cause != "ok":  # a template of JavaScript's, commands of Bash's: some make sense of it
            t.matches(r.get("error.suggestion"), "Markdown fence.*--strip-fence", f"fence: the error names it: {language}", *r.describe())
        told = [w for w in r.get("meta.warnings") if "fence" in w or w.startswith("policy")]
        t.equal(len(told), 1, f"fence: it is told once: {language}", *told)
        t.result(mode.json("run", "-l", language, "-e", text, "--strip-fence"), f"fence: taken off: {language}", stdout="1\n", cause="ok")
        done = mode.cay("check", "-l", language, "-c", text)
        t.ok(done.status == 126 and b"Markdown fence" in done.out and b"--strip-fence" in done.out and b"does not parse" not in done.out,
             f"fence: the check names it: {language}", *done.describe())
        done = mode.cay("check", "--strip-fence", "-", stdin=text)
        t.ok(done.status == 0 and done.out == b"(stdin): nothing found\n", f"fence: and checks what is inside: {language}", *done.describe())


def test_installers(t, mode):
    """A package manager fails at once where there is no network, and one line says why: it does not try until the time is over."""
    if not shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin"):
        t.skip("npm", "npm is not installed", "npm")
        return
    for name, args in (("a command", ("exec", "--timeout", "120", "--", "npm", "install", "left-pad")),
                       ("of a script", ("run", "-l", "bash", "--timeout", "120", "-e", "npm install left-pad"))):
        r = mode.json(*args)
        t.ok(r.cause in ("network", "exit"), f"npm fails by itself: {name}", *r.describe())
        t.matches(r.get("error.suggestion"), "npm can't install here", f"npm: what to do: {name}", *r.describe())


def test_host_etc(t, mode):
    """What Debian keeps in /etc for libraries is there for whatever program loads them: a command, and what a script starts."""
    if mode.uid is not None:
        return
    folder = caytest.workdir() / "etc"
    script = f"""set -e; mkdir -p {folder}; mount -t tmpfs tmpfs {folder}; cp -a /etc/. {folder}; echo backend: Agg > {folder}/matplotlibrc
        mount --bind {folder} /etc; exec "$@\""""
    inside = "cat /etc/matplotlibrc; test -e /etc/ssl/openssl.cnf"
    for name, args in (("a command", ("exec", "--no-server", "--", "sh", "-c", inside)), ("from a script", ("run", "--no-server", "-l", "bash", "-e", f"sh -c '{inside}'"))):
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", mode.binary, *args], capture_output=True, cwd=mode.cwd, env=mode.env)
        t.ok(done.returncode == 0 and done.stdout == b"backend: Agg\n", f"/etc/matplotlibrc: {name}", done)
    folder.rmdir()


def test_files(t, mode):
    helper = caytest.workdir() / "helper.py"
    helper.write_text("import json\n\n\ndef load(text):\n    return json.loads(text)\n")
    r = mode.python("import helper\nhelper.load('{')", "--file", f"helper.py={helper}")
    error = r.get("error") or {}
    t.result(r, "in another file of the request", error__type="JSONDecodeError", error__file="helper.py", error__line=5,
             error__full_type="json.decoder.JSONDecodeError")
    t.equal([f["user"] for f in error.get("frames", [])][:2], [True, True], "the user's own frames")
    t.ok(any(not f["user"] for f in error.get("frames", [])), "the library's apart")
    t.equal([c["text"] for c in error.get("context", []) if c["error"]], ["    return json.loads(text)"], "its line marked")
    r = mode.json("run", "-l", "python", "-", stdin="x = 1\nprint(y)\n")
    t.result(r, "code from stdin", error__type="NameError", error__file="main.py", error__line=2)
    r = mode.json("exec", "--", "ls", "/nowhere")
    t.result(r, "a command", error__type="No such file or directory", error__category="io")


def test_hints(t, mode):
    """What a hint names is there: a file beside the code, a module of the language, a package of Debian's index."""
    folder = caytest.workdir() / "hints"
    (folder / "pkg").mkdir(parents=True)
    (folder / "helper.py").write_text("x = 1\n")
    (folder / "main.py").write_text("import helper\nprint(helper.x)\n")
    (folder / "data.py").write_text("print(open('numbers.csv').read())\n")
    (folder / "numbers.csv").write_text("1,2\n")
    (folder / "sub.py").write_text("import pkg.part\n")
    os.chmod(folder, 0o755)
    beside = "helper.py is beside main.py: pass it with --file helper.py, or run with --workspace ."
    r = mode.json("run", "main.py", cwd=folder)
    t.result(r, "a module beside the code", error__suggestion=beside)
    for flags in (("--file", "helper.py"), ("--workspace", ".")):
        done = mode.cay("run", *flags, "main.py", cwd=folder)
        t.equal((done.status, done.out), (0, b"1\n"), f"and {flags[0]} does it", *done.describe())
    r = mode.json("run", "hints/main.py", cwd=folder.parent)
    t.result(r, "from another folder", error__suggestion=beside.replace("--file helper.py", "--file helper.py=hints/helper.py")
             .replace("--workspace .", "--workspace hints"))
    done = mode.cay("run", "--file", "helper.py=hints/helper.py", "hints/main.py", cwd=folder.parent)
    t.equal(done.out, b"1\n", "and that does it", *done.describe())
    r = mode.json("run", "-l", "python", "-e", "import helper", cwd=folder)
    t.result(r, "code without a file", error__suggestion="helper.py is in this folder: pass it with --file helper.py")
    r = mode.json("run", "data.py", cwd=folder)
    t.ok((r.get("error.suggestion") or "").startswith("numbers.csv is beside data.py: "), "data beside the code", *r.describe())
    r = mode.json("run", "sub.py", cwd=folder)
    t.result(r, "a folder beside the code", error__suggestion="pkg/ is beside sub.py: run with --workspace .")
    r = mode.json("run", "--workspace", "pkg", "main.py", cwd=folder)
    t.ok("beside" not in (r.get("error.suggestion") or ""), "with a workspace the program sees what it is meant to see", *r.describe())
    r = mode.python("import nobody_has_this_module")
    t.ok("no package is known for nobody_has_this_module" in (r.get("error.suggestion") or ""), "no package is made up", *r.describe())
    r = mode.json("run", "-l", "bash", "-e", "echo 'error: externally-managed-environment' >&2; exit 1")
    t.ok((r.get("error.suggestion") or "").startswith("pip can't install here: a sandbox has no network"), "pip inside", *r.describe())
    for language, text in (("bash", "main.sh: line 1: pip: command not found\n"), ("zsh", "main.zsh:1: command not found: npm\n")):
        done = mode.cay("explain", "-l", language, "-", stdin=text.encode())
        t.ok(b"can't install here: a sandbox has no network" in done.out, f"{language}: an installer that the host does not have", *done.describe())


def test_library_settings(t, mode):
    """What Debian keeps in /etc for libraries is inside where the host has it: fontconfig says nothing, and has the host's fonts."""
    there = [name for name in ("fonts", "ImageMagick-6", "ImageMagick-7", "matplotlibrc", "ssl/certs") if os.path.exists("/etc/" + name)]
    code = "import os, sys\nprint([n for n in sys.argv[1:] if os.path.exists('/etc/' + n) and os.access('/etc/' + n, os.R_OK)])"
    r = mode.json("run", "-l", "python", "-e", code, "--", *there)
    t.result(r, "of the host's /etc, what libraries read", f"{there}\n")
    r = mode.json("exec", "--", "python3", "-c", code, *there)
    t.result(r, "and where no language was named", f"{there}\n")
    if not os.path.exists("/usr/bin/fc-list"):
        return t.skip("fontconfig", "fc-list is not installed")
    fonts = sorted(os.popen("fc-list : file").read().split())
    r = mode.json("run", "-l", "bash", "-e", "fc-list : file | sort")
    t.ok(r.get("stderr") == "" and sorted(r.get("stdout").split()) == fonts, "the fonts are the host's, and nothing complains", *r.describe())


def test_explain(t, mode):
    r = mode.python("counter = 1\nprint(countre)  # `````")
    id = r.get("id")
    done = mode.cay("explain", id)
    for part in ("NameError: name 'countre' is not defined", "in main.py:2:7", ">     2 | print(countre)", "did you mean counter?"):
        t.ok(part in done.out.decode(), f"explain says {part}", *done.describe())
    t.equal(json.loads(mode.cay("explain", id, "--json").out), r.get("error"), "explain --json is the result's error")
    report = mode.cay("explain", id, "--report").out.decode()
    for part in ("# NameError", "## Verdict", "## Error", "## stderr", "## Limits in force", "``````\n", "cay show " + id[:8]):
        t.ok(part in report, f"the report has {part!r}", report)
    done = mode.cay("explain", "-", stdin=json.dumps(r.data))
    t.ok(b"did you mean counter?" in done.out, "a saved result", *done.describe())
    program = FOLDER / "python" / "type.py"
    text = (FOLDER / "python" / "type.py.err").read_text()
    done = mode.cay("explain", "-l", "python", "--code", program, "-", stdin=text)
    t.ok(b"TypeError" in done.out and b">     3 |     total = total + x" in done.out, "a text with a trace", *done.describe())
    t.equal(mode.cay("explain", "-l", "python", "-", stdin="all is well\n").out, b"no error was found in it\n", "a text without")
    t.equal(mode.cay("explain", "-", stdin="all is well\n").status, 2, "a text of no language is refused")
    t.equal(mode.cay("explain", "ffffffffffffffff").status, 127, "an id that is not there")
    t.equal(mode.cay("explain").status, 2, "nothing to explain")
    for args in (("no-such-file",), (".",), ("--code", "no-such-file", "-")):
        done = mode.cay("explain", "-l", "python", *args, stdin="all is well\n")
        t.ok(done.status == 2 and done.out == b"", f"explain {' '.join(args)}: a file that can't be read is misuse, as of run and check",
             *done.describe())
    good = mode.python("print(1)")
    t.equal(mode.cay("explain", good.get("id")).out, b"it did not fail\n", "a run that did not fail")
    never = mode.cay("run", "--json", "-l", "python", "-e", "secret_word_xyz = 1\n1/0\n", env={**os.environ, "SANDBOX_STORE_CODE": "never"})
    kept = mode.cay("show", json.loads(never.out)["id"], "--json").out
    t.ok(b"secret_word_xyz" in never.out and b"secret_word_xyz" not in kept, "no lines of code in a record that may hold none", kept)


def test_terminal(t, mode):
    shown = mode.terminal("run", "-l", "python", "-e", "print(prnt)")
    t.ok("\x1b[36m\u275a\x1b[0m cay: NameError in main.py:1\n\x1b[36m\u275a\x1b[0m cay: hint: did you mean print?\n".encode() in shown, "a word on a terminal", shown)
    done = mode.cay("run", "-l", "python", "-e", "print(prnt)")
    t.ok(b"cay:" not in done.err, "none in a pipe", *done.describe())


def test(t, mode):
    test_table(t, mode)
    test_limits(t, mode)
    test_fence(t, mode)
    test_installers(t, mode)
    test_host_etc(t, mode)
    test_files(t, mode)
    test_hints(t, mode)
    test_library_settings(t, mode)
    test_explain(t, mode)
    test_terminal(t, mode)


caytest.main(test, modes=("root",))
