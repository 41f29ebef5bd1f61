#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that begin in an interpreter which was started ahead: each behaves as one that was started for it alone, byte
for byte (CAY_TEST_LONG=1 or CAY_TEST_PROGRAMS=LANGUAGE: everyday programs too); two of one zygote share nothing but address layout and hash seed; and the wall around them is the same.

One process (tests/lib/ahead.c) runs everything, so that all runs of a language come from the same zygote. A request
with `strict` is started afresh: that is what the others are compared with."""
import ast
import base64
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

AHEAD = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent) / "tests" / "ahead"
EVERYDAY = caytest.ROOT / "tests" / "e2e" / "programs"
ENDINGS = caytest.PROGRAMS / "endings"
ONLY = list(filter(None, os.environ.get("CAY_TEST_PROGRAMS", "").split(",")))
LANGUAGES = ("python", "ruby", "javascript", "php")
# Nothing of the first has to do with how a run begins; the last looks at its /proc/self/cmdline, which is the zygote's.
LEFT_OUT = ("big data", "large output", "devices and proc")


SAMPLE = 7 if caytest.SANITIZED else 1  # no sanitizer is in what the zygotes are


class Ahead:
    """The process that keeps sandboxes ahead; ends with the block."""

    def __init__(self, mode, program=AHEAD, languages=LANGUAGES, before=(), **more):
        env = {**mode.env, "CAY_WARM": ",".join(languages), "CAY_SPARES": "1", "CAY_SPARES_MAX": "2", **more}
        self.proc = subprocess.Popen(
            [*before, program, mode.binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=mode.cwd,
            **({} if mode.uid is None else {"user": mode.uid, "group": mode.uid, "extra_groups": []}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.stdin.close()
        self.proc.wait(30)
        self.proc.stdout.close()

    def say(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()

    def run(self, language, code, **more):
        """The result of one run; it finds a spare unless it is strict."""
        if not more.get("strict"):
            self.say(f"wait {language}")
        return self.run_now(language, code, **more)

    def run_now(self, language, code, **more):
        self.say(json.dumps({"language": language, "code": code, **more}))
        return json.loads(self.proc.stdout.readline())

    def run_two(self, language, code):
        """The results of two at once, of which the second finds no spare."""
        self.say(f"wait {language}")
        self.say("two " + json.dumps({"language": language, "code": code}))
        return [json.loads(self.proc.stdout.readline()) for _ in range(2)]


def programs(language):
    files = [ENDINGS / f"{language}.txt"] + [EVERYDAY / f"{language}.txt"] * (caytest.LONG or bool(ONLY))
    for file in files:
        for part in file.read_text().split("=== ")[1:]:
            name, _, code = part.partition("\n")
            if name not in LEFT_OUT and (not ONLY or language in ONLY or f"{language}/{name}" in ONLY):
                yield name, code


def shown(r):
    """What a user sees of a run; numbers that differ from process to process are no difference."""
    text = [re.sub(r"0x[0-9a-f]{6,}|(?<=started )\d+|(?<=\(node:)\d+", "N", r[k]) for k in ("stdout", "stderr")]
    return text, r["exit_code"], r["signal"], r["verdict"]["cause"]


def run_twice(mode, language):
    """Each program in an interpreter made ahead, and in one of its own: (name, warm, cold)."""
    more = {"args": ["one", "two words", "ü"], "stdin": "first\nsecond\n", "env": {"GREETING": "hallo"}}
    with Ahead(mode, languages=[language]) as ahead:
        return [(name, ahead.run(language, code, **more), ahead.run(language, code, strict=True, **more))
                for name, code in list(programs(language))[::SAMPLE]]


def same(t, mode):
    for language, rows in zip(LANGUAGES, caytest.together([lambda x=x: run_twice(mode, x) for x in LANGUAGES])):
        for name, warm, cold in rows:
            t.equal(shown(warm), shown(cold), f"{language}: {name}")
        t.empty([(name, warm["meta"]["start"], cold["meta"]["start"]) for name, warm, cold in rows
                 if (warm["meta"]["start"], cold["meta"]["start"]) not in (("warm", "cold"), ("fork", "cold"))],
                f"{language}: one of each is warm, one cold")


# --- two runs of one zygote ---

# Each leaves what it can in its interpreter and around it, and says what it finds of another: the same text twice.
MARKS = {
    "python": """
import builtins, json, os, random, secrets, signal, sys, tempfile, uuid
found = [hasattr(builtins, "mark"), hasattr(json, "mark"), json.dumps({}), "MARK" in os.environ, os.getcwd(), oct(os.umask(0o777)),
         str(signal.getsignal(signal.SIGTERM)), "mark" in sys.path, sys.getrecursionlimit(), "mark" in sys.modules,
         [f for d in ("/tmp", "/dev/shm", "/sandbox") for f in os.listdir(d)], sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
         os.getpriority(os.PRIO_PROCESS, 0), "mark" in globals(), sys.stdout.line_buffering, sys.getswitchinterval()]
lots = [random.random(), random.SystemRandom().random(), secrets.token_hex(8), uuid.uuid4().hex, next(tempfile._get_candidate_names())]
mark = builtins.mark = json.mark = 1; json.dumps = lambda x: "forged"; os.environ["MARK"] = "1"; sys.path.append("mark")
signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.setrecursionlimit(5000); sys.modules["mark"] = sys; os.nice(3); sys.setswitchinterval(1)
os.umask(0); [open(d + "/mark", "w") for d in ("/tmp", "/dev/shm", "/sandbox")]; os.chdir("/tmp"); random.seed(1)
sys.stdout.write(json.JSONEncoder().encode([found, lots]))
""",
    "ruby": """
require "json"; require "securerandom"
found = [Object.const_defined?(:MARK), "x".respond_to?(:mark), [1].sum, ENV["MARK"], Dir.pwd, File.umask, trap("TERM", "IGNORE"),
         $LOAD_PATH.include?("mark"), $mark, %w[/tmp /dev/shm /sandbox].flat_map { |d| Dir.children(d) },
         Process.getpriority(Process::PRIO_PROCESS, 0), $stdout.sync, GC.stress, Thread.list.size, $VERBOSE]
lots = [rand, Random.new.rand, Random.rand(1 << 60), SecureRandom.hex(8), [*1..50].shuffle, Random.new_seed]
text = JSON.generate([found, lots])
MARK = 1; class String; def mark = 1; end; class Array; def sum = 0; end; ENV["MARK"] = "1"; $LOAD_PATH << "mark"; $mark = 1; srand 1
%w[/tmp /dev/shm /sandbox].each { |d| File.write("#{d}/mark", "") }; File.umask(0); Dir.chdir "/tmp"; Process.setpriority(Process::PRIO_PROCESS, 0, 3)
$stdout.write text
""",
    "javascript": """
const fs = require("fs"), c = require("crypto"), os = require("os")
const found = [globalThis.mark, [].mark, JSON.stringify({}), process.env.MARK, process.cwd(), process.umask(0), process.listenerCount("SIGTERM"),
  ["/tmp", "/dev/shm", "/sandbox"].flatMap((d) => fs.readdirSync(d)), os.getPriority(), fs.mark, process.exitCode, Object.keys(require.cache)]
const lots = [Math.random(), Math.random(), c.randomBytes(8).toString("hex"), c.randomUUID(), c.randomInt(2 ** 40)]
const text = JSON.stringify([found, lots])
globalThis.mark = 1; Array.prototype.mark = 1; JSON.stringify = () => "forged"; process.env.MARK = "1"; fs.mark = 1; process.exitCode = 0
for (const d of ["/tmp", "/dev/shm", "/sandbox"]) fs.writeFileSync(d + "/mark", ""); process.chdir("/tmp"); os.setPriority(3)
process.on("SIGTERM", () => {}); console.log(text); setImmediate(() => process.exit())
""",
    "php": """<?php
$found = [function_exists("mark"), defined("MARK"), getenv("MARK"), getcwd(), umask(0), ini_get("precision"), get_include_path(), isset($GLOBALS["mark"]),
  array_merge(...array_map("scandir", ["/tmp", "/dev/shm", "/sandbox"])), posix_getpgid(0) == getmypid(), pcntl_signal_get_handler(SIGTERM), pcntl_getpriority()];
$lots = [mt_rand(), rand(), random_int(0, PHP_INT_MAX), lcg_value(), uniqid("", true), bin2hex(random_bytes(8)), implode(" ", array_rand(range(1, 999), 9))];
$text = json_encode([$found, $lots]);
function mark() {} define("MARK", 1); putenv("MARK=1"); $mark = 1; ini_set("precision", "5"); set_include_path("/tmp"); pcntl_signal(SIGTERM, SIG_IGN); mt_srand(1); pcntl_setpriority(3);
foreach (["/tmp", "/dev/shm", "/sandbox"] as $d) touch("$d/mark"); chdir("/tmp"); echo $text;
""",
}


def apart(t, ahead, language):
    """Three of one zygote, after one another, and one that was started for itself."""
    runs = [ahead.run(language, MARKS[language]) for _ in range(3)]
    cold = ahead.run(language, MARKS[language], strict=True)
    t.equal([r["meta"]["start"] for r in (*runs, cold)], ["warm"] * 3 + ["cold"], f"{language}: three are warm, one is cold")
    t.equal([r["verdict"]["cause"] for r in runs], ["ok"] * 3, f"{language}: they ran", *[r["stderr"] for r in runs])
    said = [json.loads(r["stdout"] or "[[], []]") for r in (*runs, cold)]
    t.equal([found for found, _ in said], [said[3][0]] * 4, f"{language}: none finds anything of another")
    for i, values in enumerate(zip(*[lots for _, lots in said])):
        t.equal(len({str(v) for v in values}), 4, f"{language}: random values {i} differ", values)


# --- what a runtime looks for at its start ---

# Files of a job's that say how it is run; where the runtime looked for them before it had the job, it found none.
A = {"a.js": "module.exports = 'a'", "b.mjs": "export default 'b'", "c.json": "[1]"}
TYPE = {"package.json": '{"type": "module"}'}
USER_SITE = ".local/lib/python%d.%d/site-packages/" % sys.version_info[:2]
GEMS = ".local/share/gem/ruby/3.1.0/"
GEMSPEC = "Gem::Specification.new { |s| s.name = 'foo'; s.version = '1.0'; s.summary = 'x'; s.authors = ['x']; s.files = ['lib/foo.rb'] }"
COMES_WITH = {
    "javascript": (
        ("a module", "console.log(typeof require, typeof __dirname, this)", TYPE),
        ("no __dirname in a module", "console.log(__dirname)", TYPE),
        ("imports", "console.log(require('#a'), require.resolve('#a'))", {**A, "package.json": '{"imports": {"#a": "./a.js"}}'}),
        ("its own name", "console.log(require('me/x'))", {**A, "package.json": '{"name": "me", "exports": {"./x": "./a.js"}}'}),
        ("what is no JSON", "console.log(1)", {"package.json": "{"}),
        ("a package that says nothing", "console.log(typeof require); import('./a.js').then((m) => console.log(m))", {**A, "package.json": "{}"}),
        ("import()", "import('./b.mjs').then((m) => console.log(m)); import('./no.mjs').catch((e) => console.log(e.code))", A),
        ("import() in a module", "import b from './b.mjs'; import fs from 'fs'; console.log(b, fs.readdirSync('.').sort(), await import('./b.mjs'))", {**A, **TYPE}),
        ("JSON", "console.log(require('./c.json'), require('./c')); import('./c.json').catch((e) => console.log(e.code))", A),
        ("a package", "console.log(require('p'), require('p/y'), require.resolve('p'), module.paths); import('p').then((m) => console.log(m))",
         {"node_modules/p/package.json": '{"main": "x.js"}', "node_modules/p/x.js": "exports.x = 1", "node_modules/p/y.js": "exports.y = __filename"}),
        ("a package of a module's", "import { x } from 'p'; console.log(x)",
         {**TYPE, "node_modules/p/package.json": '{"type": "module", "exports": "./x.js"}', "node_modules/p/x.js": "export const x = 1"}),
        ("a module by what it says", "import b from './b.mjs'; console.log(b, import.meta.url, process.argv)", A),
        ("where it is", "console.log(process.cwd(), __filename, process.argv, require('fs').realpathSync('.'), require('path').resolve('x')); "
         "new (require('worker_threads').Worker)('console.log(process.cwd())', { eval: true })", {}),
        ("what is open", "const fs = require('fs'), fds = fs.readdirSync('/proc/self/fd').map((n) => { try { return n + ' ' + fs.readlinkSync('/proc/self/fd/' + n) } catch {} }); "
         "const info = [process.getActiveResourcesInfo(), process._getActiveHandles().length, process._getActiveRequests().length]; "
         "console.log(fds.join().replace(/\\[\\d+\\]/g, ''), info)", {}),
        ("what happens", "require('events').prototype.emit = function (e) { require('fs').writeSync(1, e + '\\n') }; setTimeout(() => {}, 20)", {}),
        ("what is left to do", "const h = require('async_hooks'), seen = []; const hook = h.createHook({ before: (i) => seen.push('before'), destroy: (i) => seen.push('destroy') }).enable(); "
         "setImmediate(() => { hook.disable(); console.log(seen) })", {}),
        ("its name", "const fs = require('fs'); console.log(fs.readFileSync('/proc/self/comm', 'utf8'), process.title)", {}),
        ("its own emit", "console.log(process.emit.length, process.emit.name, process.listenerCount('exit'))", {}),
    ),
    "php": (
        ("its globals", "<?php print_r(array_keys($GLOBALS)); print_r(array_keys(get_defined_vars())); function f() { return array_keys($GLOBALS); } print_r(f());", {}),
        ("$_SERVER by another name", "<?php echo $GLOBALS['_SERVER']['argv'][1]; $n = '_SERVER'; echo $$n['argc']; include 'x.php';",
         {"x.php": "<?php echo $$n['argv'][0], count($$n);"}, {"args": ["one"]}),
        ("its name", "<?php echo file_get_contents('/proc/self/comm');", {}),
        ("others by another name", "<?php foreach (['_ENV', '_REQUEST', '_COOKIE', 'argc', 'argv'] as $n) var_dump(isset($$n), isset($GLOBALS[$n]));", {}),
        ("the order of its globals", "<?php echo count($_ENV), count($_REQUEST), count($_SERVER) > 9; print_r(array_keys($GLOBALS));", {}),
        ("what is there", "<?php print_r(array_diff_key($_SERVER, ['REQUEST_TIME' => 1, 'REQUEST_TIME_FLOAT' => 1])); print_r($argv); print_r(getenv());", {}, {"args": ["a b"]}),
    ),
    "python": (
        ("a package of the user's", "import foo, sys, site; print(foo.x, foo.__file__, sys.path, site.ENABLE_USER_SITE)", {USER_SITE + "foo.py": "x = 1"}),
        ("usercustomize", "import sys; print('usercustomize' in sys.modules)", {USER_SITE + "usercustomize.py": "print('hallo')"}),
        ("what a package wants to be done", "import bar, sys; print(bar.x, sys.path, sys.argv, input())",
         {USER_SITE + "x.pth": "/sandbox/more\nimport sys; print(len(sys.path))\n", "more/bar.py": "x = 2"}, {"args": ["one"], "stdin": "line"}),
        ("its name", "print(open('/proc/self/comm').read(), open('/proc/self/task/%d/comm' % __import__('os').getpid()).read())", {}),
        ("other hidden files", "print(open('.env').read())", {".env": "x", ".local.py": "y"}),
        ("where packages would be", "import site, sys; print(site.getusersitepackages(), site.getsitepackages(), sys.path, sorted(sys.modules))", {"foo.py": ""}),
        ("signals", "import signal; print([signal.getsignal(n) for n in range(1, 32)], [l for l in open('/proc/self/status') if l.startswith('Sig')])", {USER_SITE + "x.py": ""}),
    ),
    "ruby": (
        ("where gems are", "p Gem.path, Gem.paths.path, Gem.user_dir, Gem.paths.home, Gem::Specification.dirs, Gem.loaded_specs.keys, $LOADED_FEATURES, $LOAD_PATH", {}),
        ("a gem of the user's", "require 'foo'; p Foo, Gem.loaded_specs['foo'].full_gem_path, ARGV, $stdin.gets",
         {GEMS + "specifications/foo-1.0.gemspec": GEMSPEC, GEMS + "gems/foo-1.0/lib/foo.rb": "Foo = 1"}, {"args": ["one"], "stdin": "line"}),
        ("its name", "puts File.read('/proc/self/comm'), $0, Process.argv0", {}),
        ("a gem elsewhere", "p Gem.user_dir, Gem.path[0]", {".gem/x": ""}),
        ("data elsewhere", "p Gem.user_dir, Gem.path[0]", {}, {"env": {"XDG_DATA_HOME": "/tmp/data"}}),
    ),
}


def comes_with(t, ahead):
    for language, rows in COMES_WITH.items():
        for name, code, files, *more in rows:
            warm, cold = (ahead.run(language, code, files=files, strict=strict, **dict(*more)) for strict in (False, True))
            t.equal((warm["meta"]["start"], cold["meta"]["start"]), ("warm", "cold"), f"{language}: {name}: one is warm, one cold")
            t.equal(shown(warm), shown(cold), f"{language}: {name}: the same from both")
            t.ok(len(cold["stdout"] + cold["stderr"]) > 1, f"{language}: {name}: and it is something")


# --- the wall ---

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
# Files, mounts, namespaces and the network, as far as a few calls tell: what the whole probes of these walk through
# depends on the namespaces and rules, which are compared here.
AROUND = """
import json, os, socket
def errno_of(f, *a):
    try: f(*a); return 0
    except OSError as e: return e.errno
W = os.O_WRONLY | os.O_CREAT
places = ["/x", "/usr/x", "/etc/x", "/dev/x", "/proc/sys/kernel/hostname", "/proc/self/oom_score_adj", "/sys/x", "/root/x", "/home/x", "/run/x"]
said = {"write": {p: errno_of(os.open, p, W) for p in places}, "own": {p: errno_of(os.open, p + "/x", W) for p in ("/tmp", "/sandbox", "/dev/shm")},
        "read": {p: errno_of(os.listdir, p) for p in ("/root", "/home", "/var", "/proc/1/fd", "/proc/1/root", "/sys", "/boot")},
        "etc": sorted(os.listdir("/etc")), "dev": sorted(os.listdir("/dev")), "names": socket.if_nameindex(),
        "mounts": sorted(l.split(" ", 3)[3] for l in open("/proc/self/mountinfo")), "routes": open("/proc/net/route").read(),
        "connect": {str(a): errno_of(socket.create_connection, a, 1) for a in (("127.0.0.1", 22), ("10.0.0.1", 80), ("1.1.1.1", 53))},
        "host": [socket.gethostname(), os.getpgid(0) == os.getpid()], "pid 1": errno_of(os.kill, 1, 0), "maps": open("/proc/self/uid_map").read(),
        "cgroup": open("/proc/self/cgroup").read(), "score": open("/proc/self/oom_score_adj").read(), "groups": os.getgroups(), "ids": os.getresuid() + os.getresgid()}
print(json.dumps(said)); print(json.dumps({n: os.readlink("/proc/self/ns/" + n) for n in os.listdir("/proc/self/ns")}))
"""
EXEC = """
import base64, os
open("x", "wb").write(base64.b64decode("%s")); os.chmod("x", 0o755); os.execv("/sandbox/x", ["/sandbox/x", *%r])
"""


def program(name, *args):
    return EXEC % (base64.b64encode((caytest.workdir() / name).read_bytes()).decode(), args)


def without_numbers(text):
    """Pids, inodes and ports differ from run to run."""
    return re.sub(r"\d{3,}|(?<=thread )\d+|\"pid\": \d+", "N", text)


def wall(t, ahead):
    """What the probes of the other promises find, in a run that was forked and in a cold one."""
    probes = {"identity.py": caytest.program_text("identity.py"), "around": AROUND, "fds": program("fds"), "mkns": program("mkns"), "sockets": program("sockets"), "calls": program("calls")}
    for name, code in probes.items():
        warm, cold = ahead.run("python", code), ahead.run("python", code, strict=True)
        t.equal((warm["meta"]["start"], cold["meta"]["start"]), ("warm", "cold"), f"{name}: one is warm, one cold")
        t.equal(without_numbers(warm["stdout"]), without_numbers(cold["stdout"]), f"{name}: the same from both",
                warm["stderr"][:300], cold["stderr"][:300])
        t.ok(len(warm["stdout"]) > 50, f"{name}: and it is something", warm["stdout"])
        t.equal(warm["meta"]["isolation"], cold["meta"]["isolation"], f"{name}: the same layers are reported")
    inside = json.loads(ahead.run("python", AROUND)["stdout"].splitlines()[1])
    own = {n: os.readlink(f"/proc/self/ns/{n}") for n in os.listdir("/proc/self/ns")}
    t.empty([n for n in ("mnt", "pid", "net", "ipc", "uts", "cgroup", "user") if inside[n] == own[n]], "no namespace is the host's")
    said = json.loads(ahead.run("python", probes["identity.py"])["stdout"])
    views = [*said["views"].values(), said["after"]]
    t.empty([v for v in views if any(int(v[k], 16) for k in SETS)], "no capability in any set")
    t.empty([v for v in views if (v["NoNewPrivs"], v["Seccomp"]) != ("1", "2")], "no_new_privs and a filter, everywhere")
    t.empty([k for k, v in said["tries"].items() if v == 0], "no call gives more rights")
    fill = "n = 0\ntry:\n    while True: open(f'f{n}', 'w').close(); n += 1\nexcept OSError: print(n)"
    for limits in ({"inodes": 100}, {"inodes": 100, "disk": "20m"}):
        warm, cold = ahead.run("python", fill, limits=limits), ahead.run("python", fill, limits=limits, strict=True)
        t.ok(warm["meta"]["start"] in ("warm", "fork") and warm["stdout"] == cold["stdout"], f"{limits}: as many files from both", warm["meta"]["start"], warm["stdout"], cold["stdout"])

# Takes all that there is of what the kernel counts for a user, and holds it while the other does.
COUNTED = """
import ctypes, os, time
libc, taken = ctypes.CDLL(None), {}
libc.pthread_sigmask(0, ctypes.byref(ctypes.c_uint64(1 << 39)), None)
taken["signals"] = sum(libc.sigqueue(os.getpid(), 40, None) == 0 for _ in range(2000))
taken["locked"] = sum(libc.shmctl(libc.shmget(0, 1 << 20, 0o1600), 11, None) == 0 for _ in range(80))
taken["inotify"] = sum(libc.inotify_init1(0) >= 0 for _ in range(64))
time.sleep(0.5)
print(taken)
"""


WATCHED = {
    "python": "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
              "print(sum(libc.inotify_init1(0) >= 0 for _ in range(64)), libc.inotify_init1(0) < 0 and ctypes.get_errno())",
    "javascript": "require('fs').watch('/tmp').close(); console.log('watches')",
}


def watched(t, mode):
    """inotify has one bound for a user: the zygotes', who is all tenants', gives none; a user's own gives each run a few."""
    with Ahead(mode, languages=["python", "javascript"]) as ahead:
        plain, strict = ahead.run("python", WATCHED["python"]), ahead.run("python", WATCHED["python"], strict=True)
        two = ahead.run_two("python", WATCHED["python"])
        node = ahead.run("javascript", WATCHED["javascript"])
    few, own = ("0 24\n", "16 24\n") if mode.is_root else ("4 24\n", "4 24\n")  # EMFILE
    t.ok(plain["meta"]["start"] in ("warm", "fork"), "inotify: the plain run was forked", plain["meta"]["start"])
    t.equal([r["stdout"] for r in (plain, *two)], [few] * 3, "inotify: what a forked run has of it, alone and beside another", plain["stderr"])
    t.equal(strict["stdout"], own, "inotify: what a strict run has of it", strict["stderr"])
    t.equal(node["stdout"], "watches\n", "inotify: Node watches a folder", node["stderr"])


def counted(t, mode):
    """The zygotes' user is one for all tenants, and so are the kernel's counts for him: no run takes from another's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (1500, hard))  # less than two runs take
    ahead = Ahead(mode, languages=["python"])
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (soft, hard))
    with ahead:
        alone, two = ahead.run("python", COUNTED), ahead.run_two("python", COUNTED)
    t.empty([r["meta"]["start"] for r in (alone, *two) if r["meta"]["start"] not in ("warm", "fork")], "counts: all three were forked")
    t.equal([r["stdout"] for r in two], [alone["stdout"]] * 2, "counts: two at once have as much each as one alone")
    taken = ast.literal_eval(alone["stdout"])
    t.equal(taken.pop("inotify"), 0, "counts: what has one bound for a user is not to be had")
    t.ok(all(0 < n < 1500 for n in taken.values()), "counts: the others are bounded", taken)


# --- what a zygote's programs have of its memory ---

# A text that was there before the program is written over, and looked for in the next one.
MEMORY = """
import ctypes, json, os, re, sys
areas = re.findall(r"^(\\w+)-(\\w+) rw-p .*/memfd:cay-zygote", open("/proc/self/maps").read(), re.M)
place = id(os.__doc__) + sys.getsizeof(os.__doc__) - 33
text = ctypes.string_at(place, 32)
ctypes.memmove(place, b"x" * 32, 32)
opened = 0
for name in areas:
    try: open("/proc/self/map_files/%s-%s" % name, "r+b"); opened += 1
    except OSError: pass
print(json.dumps([len(areas) > 0, text.decode() == "x" * 32, os.__doc__.endswith("x" * 32), opened]))
"""


def memory(t, ahead):
    """What it had made is mapped from files that all its programs share."""
    for which in ("first", "second"):
        r = ahead.run("python", MEMORY)
        t.equal((r["meta"]["start"], r["stdout"].strip()), ("warm", "[true, false, true, 0]"),
                f"the {which} writes to memory of the zygote's, and finds nothing there", r["stderr"][:300])


def finds(pid, mark):
    """Whether it is anywhere in what a process may write to."""
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                start, end = (int(x, 16) for x in line.split()[0].split("-"))
                if " rw" in line and end - start < 64 << 20:  # a sanitizer's own are larger
                    mem.seek(start)
                    if mark in mem.read(end - start):
                        return True
    except OSError:
        pass  # it is gone
    return False


def forgotten(t, ahead):
    """What a short run is given passes through the warden, from which all sandboxes are made, and does not stay there."""
    def held(mark, among=caytest.descendants):
        return [p.args for p in among(ahead.proc.pid) if b"cay-syntax" not in p.args and finds(p.pid, mark.encode())]

    words = [f"tide-{os.urandom(8).hex()}" for _ in range(5)]
    for strict, word in enumerate(words[:2]):
        r = ahead.run("python", f"print(1)  # {word}", env={"SECRET": word}, strict=bool(strict))
        t.equal((r["stdout"], r["meta"]["start"]), ("1\n", "cold" if strict else "warm"), "a run with a secret")
    ahead.say("wait python")
    ahead.say("two " + json.dumps({"language": "python", "code": f"print(1)  # {words[2]}"}))
    t.equal([json.loads(ahead.proc.stdout.readline())["stdout"] for _ in range(2)], ["1\n"] * 2, "and two at once")
    ahead.run_now("bash", "")
    ahead.run("bash", "")
    r = ahead.run_now("bash", f"echo 1  # {words[4]}", limits={"open_files": 4096})
    t.equal((r["stdout"], r["meta"]["start"]), ("1\n", "cold"), "one that no spare fits is made anew")
    ahead.say("two " + json.dumps({"language": "python", "code": f"import time; print({words[3]!r}, flush=True); time.sleep(30)", "timeout": 3}))
    t.ok(caytest.until(lambda: held(words[3], caytest.inside)), "what runs has it: it can be found")
    for _ in range(2):
        ahead.proc.stdout.readline()
    ahead.run("python", "")  # there are sandboxes that were made since
    for word in words:
        t.ok(caytest.until(lambda: not held(word), 10), "no process has it when it is over", held(word))


# --- modules that were loaded ahead ---

PRELOADED = """
import multiprocessing, os, pickle, random, sys, threading
class C:
    def __del__(self): print("del")
c = C()
print(sys.modules["__mp_main__"].C is C, threading.main_thread().native_id == os.getpid(), threading.main_thread().ident == threading.get_ident())
"""
KEY = "import multiprocessing; print(bytes(multiprocessing.current_process().authkey).hex())"


def preloaded(t, mode):
    """What they keep of the process that loaded them is the run's."""
    with Ahead(mode, languages=["python"], CAY_PRELOAD="multiprocessing,random,threading") as ahead:
        warm, cold = ahead.run("python", PRELOADED), ahead.run("python", PRELOADED, strict=True)
        keys = {ahead.run("python", KEY)["stdout"] for _ in range(2)}
    t.equal((len(keys), {len(key) for key in keys}), (2, {65}), "preload: each has a key of its own", keys)
    t.equal((warm["meta"]["start"], cold["meta"]["start"]), ("warm", "cold"), "preload: one is warm, one cold")
    t.equal(shown(warm), shown(cold), "preload: the same from both")
    t.ok(cold["stdout"].startswith("True True True\n"), "preload: and it is so", cold["stdout"], cold["stderr"][:300])


RANDOMS = """
names = 3.times.map { Dir::Tmpname.create("x") { } }
p names, ObjectSpace.each_object(Random).count, ObjectSpace.each_object(Array).count { |a| a.any?(Random) }
"""


def preloaded_ruby(t, mode):
    """What was made to draw from when a feature was loaded."""
    with Ahead(mode, languages=["ruby"], CAY_PRELOAD="ruby:tempfile") as ahead:
        runs = [ahead.run("ruby", RANDOMS) for _ in range(3)]
        cold = ahead.run("ruby", "require 'tempfile'" + RANDOMS, strict=True)
    t.equal([r["meta"]["start"] for r in (*runs, cold)], ["warm"] * 3 + ["cold"], "preload: three of Ruby are warm, one cold")
    said = [r["stdout"].splitlines() for r in (*runs, cold)]
    t.equal(len({lines[0] for lines in said}), 4, "preload: each has names of its own", said, runs[0]["stderr"])
    t.equal([lines[1:] for lines in said], [said[3][1:]] * 4, "preload: and nothing else is found")


def not_preloaded(t, mode):
    """What is not there, or ends who imports it, is left out: the rest is loaded, and no run sees a trace of it."""
    with Ahead(mode, languages=["python", "ruby"],
               CAY_PRELOAD="no_such_module,lib2to3.__main__,random,ruby:no/such_feature,ruby:set") as ahead:
        for language, code, want in (
                ("python", "import sys; print('random' in sys.modules, [n for n in dir(sys) if n.startswith('last_')])", "True []\n"),
                ("ruby", "p $LOADED_FEATURES.any? { |f| f.end_with?('/set.rb') }, $!", "true\nnil\n")):
            r = ahead.run(language, code)
            t.equal((r["meta"]["start"], r["stdout"]), ("warm", want), f"{language}: what can't be loaded ahead is left out", r["stderr"][:300])


# --- what a place that is used again could keep ---

# What the network namespace tells of those who were there before; without a socket, which would be seen.
SEEN = """
import json, os
files = {f: open("/proc/net/" + f).read() for f in ("dev", "ip6_flowlabel", "rt6_stats", "igmp", "igmp6", "unix", "tcp", "udp")}
for f in ("snmp", "snmp6"):
    files[f] = [l for l in open("/proc/net/" + f).read().splitlines() if l.split()[-1] != "0" and f == "snmp6" or l.startswith(("Ip: 1", "Ip: 2"))]
files["sockets"] = open("/proc/net/sockstat6").read()
print(json.dumps([os.readlink("/proc/self/ns/net"), files]))
"""
# Each leaves something that outlives its socket, or could, and sends nothing itself.
LEAVE = """
import os, socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
def tried(f, *a):
    try: f(*a); return 0
    except OSError as e: return e.errno
six, group = socket.inet_pton(socket.AF_INET6, "::1"), socket.inet_aton("239.1.2.3")
%s
os.write(1, str(rc).encode()); os._exit(0)
"""
LEFT = {
    "a flow label": "rc = tried(s.setsockopt, 41, 32, six + struct.pack('!I', 0xabcde) + struct.pack('BBHHHI', 0, 255, 1, 0, 60, 0))",
    "a route in use": "rc = tried(s.connect, ('::1', 9))",
    "a group": "rc = tried(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).setsockopt, 0, 35, group + bytes(4) + struct.pack('I', 1))",
    "an IPv6 group": "rc = tried(s.setsockopt, 41, 20, socket.inet_pton(socket.AF_INET6, 'ff02::1234') + struct.pack('I', 1))",
    "a name": "s = socket.socket(socket.AF_UNIX); rc = tried(s.bind, '\\0mark') or tried(s.listen)",
}
REFUSED = {"a flow label": "1", "a group": "19", "an IPv6 group": "19"}  # EPERM, ENODEV


HIDDEN = {
    "python": "import os\nprint([os.access('/proc/self/net/' + f, 4) for f in ('sockstat', 'protocols', 'softnet_stat', 'stat', 'dev')])",
    "javascript": "console.log(JSON.stringify(['sockstat', 'protocols', 'softnet_stat', 'stat', 'dev'].map(f => {"
                  " try { require('fs').accessSync('/proc/self/net/' + f, 4); return true } catch { return false } })))",
}


def hidden(t, ahead):
    """What /proc/net shows of the host is as little to be had in what is made ahead, the first time and the second."""
    for language, code in HIDDEN.items():
        seen = [json.loads(ahead.run(language, code)["stdout"].lower()) for _ in range(2)]
        t.equal(seen, [[False] * 4 + [True]] * 2, f"{language}: no number of the host's in /proc/net")


def never_used_again(t, ahead):
    """No network namespace is used twice, and there is nothing in one of what another run left."""
    places = [json.loads(ahead.run("python", SEEN)["stdout"]) for _ in range(8)]
    # SO_NETNS_COOKIE: the kernel's number of a network namespace, of which there is never a second (Linux 5.14).
    numbers = [ahead.run("python", "import socket; print(socket.socket().getsockopt(1, 71, 8).hex())")["stdout"] for _ in range(8)]
    t.equal(len(set(numbers)), 8, "each has a network namespace of its own")
    clean = json.loads(ahead.run("python", SEEN, strict=True)["stdout"])[1]
    for name, code in LEFT.items():
        t.equal([ahead.run("python", LEAVE % code)["stdout"] for _ in range(2)], [REFUSED.get(name, "0")] * 2, f"{name}: made, or refused")
        places += [json.loads(ahead.run("python", SEEN)["stdout"]) for _ in range(3)]
    t.empty([(place, f, seen[f]) for place, seen in places for f in seen if seen[f] != clean[f]], "and none finds a trace of another")


# Deeper than folders are kept open, with long names: what pid 1 needs to tell of it.
DEEP = """
import os
for i in range(90):
    os.mkdir("d" * 40); os.chdir("d" * 40)
    open("f", "w").write("x")
"""
EXEC_AROUND = """
cut -d' ' -f4-6 /proc/self/mountinfo | sort; cat /proc/self/oom_score_adj; ls /dev /etc /run; grep -E '^Cap|^No' /proc/self/status
for f in /x /run/x /etc/hosts /dev/x /proc/self/oom_score_adj; do (echo > $f) 2>&1; done; umask; hostname; ls /proc/self/fd | wc -l
"""


def others(t, mode):
    """Those that wait for their program are made in the same way."""
    with Ahead(mode, languages=["bash"]) as ahead:
        warm, cold = ahead.run("bash", EXEC_AROUND), ahead.run("bash", EXEC_AROUND, strict=True)
    t.equal((warm["meta"]["start"], cold["meta"]["start"]), ("spare", "cold"), "bash: one is a spare, one cold")
    t.equal(warm["stdout"], cold["stdout"], "bash: the same from both")
    t.equal(warm["meta"]["isolation"], cold["meta"]["isolation"], "bash: the same layers are reported")


# Ways to end, as a program can that runs before anybody has looked at it.
ENDS = {
    "plain": "print(1)",
    "a code": "import sys; print(2, flush=True); sys.exit(3)",
    "an exception": "print(undefined)",
    "a signal": "import os; os.kill(os.getpid(), 11)",
    "at once": "import os; os._exit(5)",
    "by its child": "import os\nif os.fork() == 0:\n    os.kill(os.getppid(), 9)\n    os._exit(7)\nos.wait()",
    "before its child": "import os, time\nif os.fork() == 0:\n    time.sleep(60); print('late', flush=True); os._exit(7)\nos._exit(6)",
    "in another program": "import os; os.execv('/bin/sh', ['sh', '-c', 'echo $$ >/dev/null; exit 8'])",
    "in a thread": "import os, threading\nt = threading.Thread(target=os._exit, args=(9,)); t.start(); t.join()",
    "of memory": "x = bytearray(1 << 31)",
    "after a look at pid 1": "import os\nfor f in 'fd', 'task/1/fd', 'map_files', 'ns':\n"
                             "    try: print(os.listdir('/proc/1/' + f))\n    except OSError as e: print(e.errno)",
}


def on_demand(t, mode):
    """Who finds no spare is forked, or made, while it is waited for."""
    with Ahead(mode, languages=["python"], CAY_SPARES_MAX="1") as ahead:
        for name, code in list(ENDS.items())[:: 3 if caytest.SANITIZED else 1]:
            # It is the moment that differs; of memory it ends long after, and with half a gigabyte to fill.
            times = 1 if name == "of memory" else 3
            pairs = [ahead.run_two("python", code) for _ in range(times)]
            cold = ahead.run("python", code, strict=True)
            t.equal([[shown(r) for r in pair] for pair in pairs], [[shown(cold)] * 2] * times, f"forked: it ends: {name}")
            t.equal([pair[1]["meta"]["start"] for pair in pairs], ["fork"] * times, f"forked: {name}: it is")
            t.equal([pair[1]["meta"]["isolation"] for pair in pairs], [cold["meta"]["isolation"]] * times, f"forked: {name}: with the same layers")
    with Ahead(mode, languages=["bash"], CAY_SPARES="0", CAY_SPARES_MAX="0") as ahead:
        runs = [ahead.run_now("bash", EXEC_AROUND) for _ in range(4)]
        cold = ahead.run("bash", EXEC_AROUND, strict=True)
        t.equal([r["meta"]["start"] for r in (*runs, cold)], ["cold"] * 5, "made: there was none")
        t.equal([(r["stdout"], r["meta"]["isolation"]) for r in runs], [(cold["stdout"], cold["meta"]["isolation"])] * 4, "made: the same as one by itself")
        code = "readlink /proc/self/ns/net; ls -A /tmp /sandbox /dev/shm | grep -v main; echo x >/tmp/mark; echo x >/dev/shm/mark; exec 3<>/dev/udp/127.0.0.1/9"
        runs = [ahead.run_now("bash", code) for _ in range(8)]
        t.equal({r["stdout"].split("\n", 1)[1] for r in runs}, {ahead.run("bash", code, strict=True)["stdout"].split("\n", 1)[1]}, "made: nothing is left of the one before")


LOCKS = '''
import fcntl
f = open("/tmp/f", "w+")
for i in range(3000):
    fcntl.lockf(f, fcntl.LOCK_UN if i % 2 else fcntl.LOCK_EX, 1)
    fcntl.flock(f, fcntl.LOCK_UN if i % 2 else fcntl.LOCK_EX)
n = 0
try:
    while n < 5000:
        fcntl.lockf(f, fcntl.LOCK_EX, 1, 2 * n)
        n += 1
except OSError as e:
    print(n, e.errno)
'''


# Each open file shows the locks that were set through it.
LOCKS_OF_MANY = '''
import fcntl
fs = [open("/tmp/f", "w+") for _ in range(20)]
n = 0
try:
    while n < 5000:
        fcntl.lockf(fs[n % 20], fcntl.LOCK_EX, 1, 2 * n)
        n += 1
except OSError as e:
    print(n, e.errno)
'''

# A flock stays as long as the file is open, which a mapping keeps it.
FLOCKS_MAPPED = '''
import ctypes, fcntl, mmap, os
fd = os.open("/tmp/f", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
n = 0
try:
    while n < 9000:
        fd = os.open("/tmp/f", os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_SH)
        libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        os.close(fd)
        n += 1
except OSError as e:
    print("many" if n > 3000 else n, e.errno)
'''

# What honest programs do with locks.
LOCKS_OF_HONEST = '''
import fcntl, os, sqlite3, sys
f = open("/tmp/inherited", "w")
fcntl.flock(f, fcntl.LOCK_EX)
go, went = os.pipe()
children = []
for _ in range(60):
    pid = os.fork()
    if pid == 0:
        os.close(went)
        os.read(go, 1)
        os._exit(0)
    children.append(pid)
db = sqlite3.connect("/tmp/db", isolation_level=None)
db.execute("create table t (x)")
for i in range(1500):
    db.execute("insert into t values (?)", (i,))
for i in range(5000):
    with open("/tmp/other", "w") as g:
        fcntl.flock(g, fcntl.LOCK_EX)
os.close(went)
for pid in children:
    os.waitpid(pid, 0)
print(db.execute("select count(*) from t").fetchone()[0])
'''


def locked(t, ahead):
    """Locks are counted however a program begins, and making many, one after another, is no fault."""
    for code, out, label in ((LOCKS_OF_MANY, "1023 37\n", "through many fds"), (FLOCKS_MAPPED, "many 37\n", "of mappings"),
                             (LOCKS_OF_HONEST, "1500\n", "of an honest program")):
        for strict in (False, True):
            r = ahead.run("python", code, strict=strict)
            t.equal(r["stdout"], out, f"locks {label}: counted", r["meta"]["start"], r["stderr"], r["verdict"])
    node = "console.log(require('child_process').execFileSync('python3', ['-c', %s]).toString().trim())" % json.dumps(LOCKS)
    runs = {"warm": ahead.run("python", LOCKS), "forked now": ahead.run_two("python", LOCKS)[1],
            "a spare, or cold": ahead.run("python", LOCKS, env={"PYTHONPATH": "/tmp"}),
            "cold": ahead.run("python", LOCKS, strict=True), "a child of node's": ahead.run("javascript", node),
            "collected": ahead.run("python", LOCKS, collect=["*"])}
    for label, r in runs.items():
        t.equal(r["stdout"], "1023 37\n", f"locks, {label}: 1023 and no more", r["meta"]["start"], r["stderr"], r["verdict"])


def locked_on_old(t, mode):
    """Linux 5.5 to 5.18 tells of locks too, though not of exits."""
    with Ahead(mode, languages=["python", "command"], before=[caytest.workdir() / "deny", "wait_killable"]) as ahead:
        for r in (ahead.run("python", LOCKS), ahead.run("python", LOCKS, env={"PYTHONPATH": "/tmp"}),
                  ahead.run_two("python", LOCKS)[1], ahead.run("python", LOCKS, strict=True)):
            t.equal(r["stdout"], "1023 37\n", "locks, before Linux 5.19: 1023 and no more", r["meta"]["start"], r["stderr"], r["verdict"])


def chosen(t, ahead):
    """Who has a say in how his interpreter starts gets one of his own."""
    rows = {
        "python": ({"PYTHONPATH": "/tmp"}, {"LD_PRELOAD": "libm.so.6"}, {"LC_ALL": "C"}, {"TZ": "UTC"}, {"MALLOC_PERTURB_": "1"}),
        "ruby": ({"RUBYOPT": "-W0"},),
        "javascript": ({"NODE_OPTIONS": "--no-warnings"},),
        "php": ({"PHPRC": "/tmp"},),
    }
    for language, list_of_env in rows.items():
        for env in list_of_env:
            r = ahead.run(language, "", env=env)
            t.ok(r["meta"]["start"] in ("cold", "spare") and r["verdict"]["cause"] == "ok", f"{language}: {env}: not warm", r["meta"])
        t.equal(ahead.run(language, "", strict=True)["meta"]["start"], "cold", f"{language}: strict is cold")
        t.equal(ahead.run(language, "", env={"X": "1"})["meta"]["start"], "warm", f"{language}: another variable is none of these")
    r = ahead.run("javascript", "console.log(process.execArgv[0])", limits={"memory": "256m"})
    t.equal((r["meta"]["start"], r["stdout"]), ("cold", "--max-old-space-size=247\n"), "another memory limit: a Node for it")
    r = ahead.run("python", "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))", limits={"open_files": 2000})
    t.equal(r["stdout"], "(2000, 2000)\n", "a limit above the usual one is had")


TOUCH = """
import os
for change in (lambda: os.chmod("/proc/self/exe", 0o6777), lambda: os.utime("/proc/self/exe", (1, 1))):
    try:
        print("done", change())
    except OSError as e:
        print(e.strerror)
"""


# Ends while signals come in, again and again, by the call itself: it never returns. 99 is one that did.
STORM = {
    "python": """
import ctypes, os, signal
libc, seen = ctypes.CDLL(None), {}
signal.signal(signal.SIGALRM, lambda *_: None)
for i in range(200):
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_REAL, 5e-5, 5e-5)
        libc.syscall(EXIT_GROUP, 7)
        while True: libc.syscall(EXIT_GROUP, 99)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    seen[code] = seen.get(code, 0) + 1
print(seen, flush=True)
signal.setitimer(signal.ITIMER_REAL, 5e-5, 5e-5)
libc.syscall(EXIT_GROUP, 7)
libc.syscall(EXIT_GROUP, 99)
""",
    "perl": """
use Time::HiRes qw(setitimer ITIMER_REAL);
my %seen; $| = 1; $SIG{ALRM} = sub {};
sub leave { setitimer(ITIMER_REAL, 5e-5, 5e-5); syscall(EXIT_GROUP, 7); syscall(EXIT_GROUP, 99) while 1 }
for (1..200) { my $pid = fork() or leave(); waitpid($pid, 0); $seen{$? >> 8}++ }
print "{", join(", ", map { "$_: $seen{$_}" } sort keys %seen), "}\\n";
leave();
""",
}
EXIT_GROUP = {"x86_64": "231", "aarch64": "94"}


def storm(t, mode):
    """Where somebody is told of a program's exit, it is not held where a signal could bring it back."""
    with Ahead(mode, languages=list(STORM)) as ahead:
        for language, code in STORM.items():
            code = code.replace("EXIT_GROUP", EXIT_GROUP[os.uname().machine])
            for strict in (False, True):
                r = ahead.run(language, code, strict=strict)
                t.equal((r["stdout"], r["exit_code"]), ("{7: 200}\n", 7), f"{language}, {r['meta']['start']}: no exit comes back", r["stderr"][:300])


# As they are for everybody, whatever the server's own are.
LIMITS = {
    "python": "print(open('/proc/self/limits').read())",
    "javascript": "console.log(require('fs').readFileSync('/proc/self/limits', 'utf8'))",
    "perl": "open(my $f, '<', '/proc/self/limits'); print <$f>",
}


def limits(t, mode):
    odd = {"FSIZE": 1 << 30, **({} if caytest.SANITIZED else {"AS": 1 << 40}), "CPU": 100000, "RSS": 1 << 30, "STACK": 16 << 20, 15: 1000000}  # RLIMIT_RTTIME
    had = {getattr(resource, f"RLIMIT_{name}", name): resource.getrlimit(getattr(resource, f"RLIMIT_{name}", name)) for name in odd}
    for value, (which, (_, hard)) in zip(odd.values(), had.items()):
        resource.setrlimit(which, (value, hard))
    ahead = Ahead(mode, languages=list(LIMITS))
    for which, value in had.items():
        resource.setrlimit(which, value)
    with ahead:
        seen = [(language, strict, ahead.run(language, code, strict=strict)) for language, code in LIMITS.items() for strict in (False, True)]
    for language, strict, r in seen:
        rows = {line[:26].strip(): line[26:].split()[:2] for line in r["stdout"].splitlines()[1:] if line}
        name = f"{language}, {r['meta']['start']}"
        t.equal(len(rows), 16, f"{name}: there are sixteen limits", r["stdout"], r["stderr"][:300])
        t.equal({k: rows.get(k) for k in CALLERS}, CALLERS, f"{name}: none is the server's")


CALLERS = {"Max file size": ["unlimited"] * 2, "Max address space": ["unlimited"] * 2, "Max cpu time": ["unlimited"] * 2,
           "Max resident set": ["unlimited"] * 2, "Max stack size": ["8388608", "unlimited"], "Max nice priority": ["0"] * 2,
           "Max realtime priority": ["0"] * 2, "Max realtime timeout": ["unlimited"] * 2, "Max core file size": ["0"] * 2}


def own_files(t, mode):
    """A user's own build: his programs are his uid, and no zygote's file is within their reach."""
    folder = caytest.workdir() / "own"
    folder.mkdir()
    for file in (AHEAD, caytest.CAY, *(caytest.CAY.parent / name for name in ("cay-full", "cay-zygote-python"))):
        shutil.copy2(file, folder)
    for path in (folder, *folder.iterdir()):
        os.chown(path, mode.uid, mode.uid)
    mode.binary = folder / "cay"
    with Ahead(mode, folder / "ahead") as ahead:
        r = ahead.run("python", TOUCH)
    t.ok(r["stdout"] and "done" not in r["stdout"], "a program can't change the file that it runs", r["meta"]["start"], r["stdout"])
    st = (folder / "cay-zygote-python").stat()
    t.equal((st.st_mode & 0o7777, st.st_mtime > 1), (0o755, True), "and has not")


def test(t, mode):
    if not AHEAD.exists():
        t.skip("zygotes", "there is no tests/ahead in this build", "zygotes")
        return
    if mode.uid is not None and mode.command("test", "-x", AHEAD.parent.parent / "cay-zygote-python").status != 0:
        t.skip("zygotes", "this user can't reach the build folder", "zygotes")
        return
    with Ahead(mode) as ahead:
        for language in LANGUAGES:
            apart(t, ahead, language)
        comes_with(t, ahead)
        wall(t, ahead)
        memory(t, ahead)
        locked(t, ahead)
        if mode.is_root:
            forgotten(t, ahead)
            hidden(t, ahead)
            never_used_again(t, ahead)
            r = ahead.run("python", DEEP, collect=["/sandbox/**"])
            t.equal((r["meta"]["start"], r["verdict"]["cause"], len(r["files"])), ("warm", "ok", 91), "a deep tree is collected from a warm run", r["stderr"])
            chosen(t, ahead)
    locked_on_old(t, mode)
    others(t, mode)
    on_demand(t, mode)
    storm(t, mode)
    limits(t, mode)
    watched(t, mode)
    if mode.is_root:
        counted(t, mode)
        preloaded(t, mode)
        preloaded_ruby(t, mode)
        not_preloaded(t, mode)
        same(t, mode)
    else:
        own_files(t, mode)


caytest.main(test, modes=("root", "deleg"), programs=("fds", "mkns", "sockets", "calls", "deny"))
