#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The restricted shell: what was named is there and works, everything else is absent, and nothing that the program brings
along or writes becomes a program. Each try to get around it has a control: the same in an ordinary run succeeds."""
import ctypes
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

LOADER = "/lib64/ld-linux-x86-64.so.2" if os.uname().machine == "x86_64" else "/lib/ld-linux-aarch64.so.1"
PR_GET_MDWE = 66


def bash(mode, allow, code, *flags, **options):
    words = () if allow is None else ("--shell-allow", allow)
    return mode.json("run", "-l", "bash", *words, *flags, "-e", code, **options)


def what_is_there(t, mode):
    r = bash(mode, "cat,ls,wc,awk", "ls /usr/bin; cat main.sh | wc -l; echo a b | awk '{print $2}'")
    t.result(r, "what was named is there and works", "awk\nbash\ncat\nls\nwc\n0\nb\n", cause="ok")
    r = bash(mode, "cat", "cat /dev/null; ls")
    t.result(r, "what was not is not found", "", exit_code=127)
    t.ok("ls: command not found" in (r.get("stderr") or ""), "and the shell says so in its own words", (r.get("stderr") or ""))
    # By path, by another PATH, and through the links that lead to the same folder.
    code = "for p in /usr/bin /bin /sbin /usr/sbin /usr/local/bin /usr/games /opt; do for c in ls python3 sh perl mount; do" \
           ' [ -e $p/$c ] && echo "$p/$c"; done; done; PATH=/usr/libexec:/usr/lib/git-core:/usr/lib/klibc/bin; git; echo $?'
    t.result(bash(mode, "cat", code), "nor by a path", "127\n", cause="ok")
    names = sorted({n for d in ("/usr/bin", "/usr/sbin") for n in os.listdir(d)} - {"bash", "cat"})
    code = "while read -r n; do p=$(type -P \"$n\") && echo $p; done; :"
    t.result(bash(mode, "cat", code, stdin="\n".join(names) + "\n"), "of all commands of this host, none but those", "",
             cause="ok")
    t.result(bash(mode, "", "echo /usr/bin/*; x=$((6*7)); echo $x"), "an empty list leaves the shell alone",
             "/usr/bin/bash\n42\n", cause="ok")


def executables(t, mode):
    """Every file that could be started, or handed to the loader, is one that was named, or a library."""
    code = r"find / -path /proc -prune -o -type f -perm /111 -print | while read -r f; do case $f in" \
           r" /usr/bin/bash|/usr/bin/find|/usr/lib*/*.so*|/usr/share/*) ;; *) echo $f;; esac; done"
    t.result(bash(mode, "find", code), "no other file could be started", "", cause="ok")
    r = bash(mode, "cat", "cat /proc/self/mounts")
    for place in ("/usr/share", "/tmp", "/sandbox", "/dev/shm"):
        options = [line.split()[3].split(",") for line in (r.get("stdout") or "").splitlines() if line.split()[1] == place]
        t.ok(options and "noexec" in options[0], f"{place} is noexec", (r.get("stdout") or ""))
    r = bash(mode, "cat,ls", "ls /usr/lib /usr/lib/*-linux-gnu")
    t.ok(not {"git-core", "python3", "gcc", "klibc"} & set((r.get("stdout") or "").split()), "nor are the folders of others there",
         (r.get("stdout") or ""))


def escapes(t, mode, library):
    """The program brings a dynamic program (id), a library, and a script, and tries every way to run them."""
    files = ("--file", f"id={shutil.which('id')}", "--file", f"evil.so={library}",
             "--file", f"script={caytest.workdir() / 'script'}")
    rows = (
        ("a file of its own", "./id -u >/dev/null && echo RAN"),
        ("the loader on a file of its own", f"{LOADER} ./id -u >/dev/null && echo RAN"),
        ("a copy in /tmp", "cat id >/tmp/x; chmod 755 /tmp/x; /tmp/x -u >/dev/null && echo RAN"),
        ("a copy in /dev/shm", "cat id >/dev/shm/x; chmod 755 /dev/shm/x; /dev/shm/x -u >/dev/null && echo RAN"),
        ("an open file", "exec 3<id; /proc/self/fd/3 -u >/dev/null && echo RAN"),
        ("the loader on an open file", f"exec 3<id; {LOADER} /proc/self/fd/3 -u >/dev/null && echo RAN"),
        ("a library as a builtin", "enable -f ./evil.so evil 2>/dev/null; :"),
        ("a library by LD_PRELOAD", "LD_PRELOAD=/sandbox/evil.so cat /dev/null"),
        ("a library by the loader", f"{LOADER} --preload /sandbox/evil.so /usr/bin/cat /dev/null"),
        ("a script", "./script"),
    )
    for name, code in rows:
        code = "chmod 755 id script; " + code + "; :"
        r = bash(mode, None, code, *files)
        t.ok("RAN" in (r.get("stdout") or ""), f"{name}: runs in an ordinary run", *r.describe())
        r = bash(mode, "cat,chmod", code, *files)
        t.result(r, f"{name}: does not", "", cause="ok")
        t.ok((r.get("stderr") or "") or "builtin" in name, f"{name}: and is told so", *r.describe())
    # The caller's own folders are no way in either.
    folder = mode.cwd / "project"
    folder.mkdir(exist_ok=True)
    shutil.copy(shutil.which("id"), folder / "id")
    if mode.uid is not None:
        os.chown(folder, mode.uid, mode.uid)
        os.chown(folder / "id", mode.uid, mode.uid)
    for flags, place in (("--workspace", folder), "/workspace"), (("--ro", f"{folder}=/data"), "/data"):
        code = f"{place}/id -u >/dev/null && echo RAN; {LOADER} {place}/id -u >/dev/null && echo RAN; cat {place}/id >/dev/null"
        t.result(bash(mode, None, code, *flags), f"a file of {place}: runs in an ordinary run", "RAN\nRAN\n", cause="ok")
        t.result(bash(mode, "cat", code, *flags), f"a file of {place}: does not", "", cause="ok")
    t.result(bash(mode, "cat", "bash script; . ./script", *files), "a script by the shell does", "RAN\nRAN\n", cause="ok")
    t.result(bash(mode, "cat", "(exec -a sh /proc/self/exe -c 'ls'); echo $?"), "the shell by /proc/self/exe has no more",
             "127\n", cause="ok")
    code = "python3 -c 'import mmap\ntry:\n mmap.mmap(-1, 4096, prot=7)\n print(\"RAN\")\nexcept OSError: print(\"no\")'"
    if ctypes.CDLL(None).prctl(PR_GET_MDWE, 0, 0, 0, 0) >= 0:
        t.result(bash(mode, None, code), "memory to write code into: in an ordinary run", "RAN\n", cause="ok")
        t.result(bash(mode, "python3", code), "memory to write code into: not here", "no\n", cause="ok")
    else:
        t.skip("memory to write code into", "this kernel is older than 6.3", "mdwe")


def refusals(t, mode):
    for allow, status, words in (
        ("cta", 127, ("'cta' is not installed", "did you mean cat?")),
        ("/bin/ls", 2, ("'/bin/ls' is not the name", "no paths")),
        ("../bin/ls", 2, ("is not the name",)),
        ("cat,ls -l", 2, ("'ls -l' is not the name",)),
        ("gunzip", 2, ("is a script that",)),
        ("node", 125, ("machine code",)),
        (",".join(["sha256sum"] * 150), 125, ("more than 1023 bytes",)),
    ):
        done = mode.cay("run", "-l", "bash", "--shell-allow", allow, "-e", "echo RAN")
        t.ok(done.status == status and done.out == b"" and all(w in done.err.decode() for w in words),
             f"{allow[:20]}: refused and said why", *done.describe())
    for args in (("run", "--shell-allow", "ls", "-l", "python", "-e", "print('RAN')"),
                 ("exec", "--shell-allow", "ls", "--", "bash", "-c", "echo RAN"),
                 ("run", "--profile", "restricted", "-l", "python", "-e", "print('RAN')")):
        done = mode.cay(*args)
        t.ok(done.status == 2 and done.out == b"" and b"bash and zsh" in done.err, f"{args[0]} {args[1]} {args[2]}: not for others",
             *done.describe())
    done = mode.cay("run", "--backend", "process", "--min-isolation", "none", "--shell-allow", "ls", "-l", "bash", "-e", "echo RAN",
                    env={"SECURITY_ENABLE_SANDBOX": "false"})
    t.ok(done.status == 125 and b"shell_allow" in done.err and done.out == b"", "not without isolation", *done.describe())


def profile(t, mode):
    code = "seq 5 | sort -r | paste -sd+; echo a1 | grep -P '\\d'; find /usr/bin -type f -name 'b*' | sort | head -3; python3; echo $?"
    r = mode.json("run", "--profile", "restricted", "-l", "bash", "-e", code)
    t.result(r, "the profile has what scripts need", "5+4+3+2+1\na1\n/usr/bin/base32\n/usr/bin/base64\n/usr/bin/basename\n127\n",
             cause="ok", meta__resource_limits__pids=25, meta__resource_limits__memory=256 << 20)
    done = mode.cay("run", "--plan", "--shell-allow", "cat,cd", "-l", "bash", "-e", ":")
    plan = json.loads(done.out) if done.status == 0 else {}
    binds = {op["path"] for op in plan.get("root", []) if op["op"] == "bind" and op["path"].startswith("/usr/bin/")}
    t.equal(plan.get("shell_allow"), "cat,cd", "--plan names them", *done.describe())
    t.equal(binds, {"/usr/bin/bash", "/usr/bin/cat"}, "--plan shows the root")


def zsh(t, mode):
    known = {row["name"]: row["path"] for row in json.loads(mode.cay("languages", "--json").out)}
    if not known.get("zsh"):
        t.skip("zsh", "it is not installed, or no language yet", "zsh")
        return
    r = mode.json("run", "-l", "zsh", "--shell-allow", "cat", "-e", "print /usr/bin/*; zmodload zsh/datetime && print ok; ls")
    t.result(r, "zsh too", "/usr/bin/cat /usr/bin/zsh\nok\n", exit_code=127)
    r = mode.json("run", "-l", "zsh", "--shell-allow", "cat", "-e", "zmodload zsh/files; mkdir x; [[ -e x ]] && print RAN; :")
    t.result(r, "zsh: nor by a module that has commands built in", "", cause="ok")


def test(t, mode):
    work = caytest.workdir()
    library = work / "evil.so"
    if not library.exists():
        (work / "evil.c").write_text('#include <unistd.h>\n__attribute__((constructor)) static void f(void)'
                                     '{ if (write(1, "RAN\\n", 4) < 0) _exit(1); }\n')
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, work / "evil.c"], check=True)
        (work / "script").write_text("#!/bin/bash\necho RAN\n")
    what_is_there(t, mode)
    executables(t, mode)
    escapes(t, mode, library)
    refusals(t, mode)
    profile(t, mode)
    zsh(t, mode)


caytest.main(test, modes=("root", "user"))
