#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the guides show is what happens: every ```console block of these pages is run, a folder for each page and a
shell for each section, and has to print what stands there. "…" stands for any text, and on a line of its own for any lines."""
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import cayserve
import caystate
import caytest

PAGES = ("README.md", "SANDBOX.md", "docs/getting-started.md", "docs/examples.md", "docs/restricted-shell.md")
# Not for a test to do: it would build into, or install onto, the machine it runs on.
NOT_RUN = re.compile(r"(sudo|make|git clone|cd cay)\b")
BUILD = Path(os.environ.get("CAY_BUILD") or caytest.CAY.parent)


def commands(page):
    """(section, [(line number, command, expected output), …]) for each section of a page that has any."""
    found, section, inside = {}, "", False
    for number, line in enumerate((caytest.ROOT / page).read_text().splitlines(), 1):
        steps = found.setdefault(section, [])
        if line.startswith("```"):
            inside = line == "```console"
        elif not inside and line.startswith("#"):
            section = line.strip("# ")
        elif inside and line.startswith("$ "):
            steps.append([number, line[2:], ""])
        elif inside and line.startswith(">") and steps and not steps[-1][2]:
            steps[-1][1] += "\n" + line[2:]
        elif inside:
            assert steps, f"{page}:{number}: output before any command"
            steps[-1][2] += line + "\n"
    return [(section, steps) for section, steps in found.items() if steps]


def pattern(expected):
    lines = expected.splitlines(keepends=True)
    return "".join("(?:.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*") for line in lines)


def prepare(mode, folder):
    """A folder to work in, cay on the PATH and as build/cay, and libcay of this build as pkg-config would find it installed."""
    for sub in ("here", "here/build", "bin", "out"):
        (folder / sub).mkdir()
    for path in (folder, *folder.iterdir()):
        path.chmod(0o777)
    for link in ("here/build/cay", "bin/cay"):
        (folder / link).symlink_to(mode.binary)
    (folder / "bin/cay.pc").write_text(
        "Name: cay\nDescription: this build's\nVersion: 0\n"
        f"Cflags: -I{caytest.ROOT}/include -I{BUILD}/include\nLibs: -L{BUILD}/src -lcay\n")
    return {"PATH": f"{folder}/bin:/usr/local/bin:/usr/bin:/bin", "PKG_CONFIG_PATH": f"{folder}/bin",
            "LD_LIBRARY_PATH": f"{BUILD}/src", "CAY_HELPER": str(mode.binary)}


def run_section(t, mode, folder, env, page, section, steps):
    """All commands in one shell, so that $? and variables go on; each one's output into a file of its own."""
    script = "status=0\n"
    for number, command, _ in steps:
        if not NOT_RUN.match(command):
            script += f"(exit $status)\n{{ {command}\n}} >{folder}/out/{number} 2>&1\nstatus=$?\n"
    done = mode.command("bash", "-c", script, cwd=folder / "here", env=env, timeout=120)
    for number, command, expected in steps:
        out = folder / "out" / str(number)
        got = out.read_text(errors="replace") if out.exists() else ""
        if not NOT_RUN.match(command):
            t.ok(re.fullmatch(pattern(expected), got), f"{page}:{number} {section}: {command.splitlines()[0][:60]}",
                 f"got  {got!r}", f"want {expected!r}", *done.describe())


def can_link(mode):
    return not os.environ.get("CAY_SANITIZED") and mode.command("test", "-r", BUILD / "src/libcay.so").status == 0


def snippets(page, section, language):
    """The ```LANGUAGE blocks of a section, one behind the other: each goes on from the ones before."""
    text = (caytest.ROOT / page).read_text()
    text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def shown_clients(t, mode, env):
    """What docs/server.md shows of clients: a result, a stream, a stream that is taken up again."""
    want = ["ok 42", "", "out 0", "out 1", "out 2", "end ok", "all ['0', '1', '2']"]
    for program, language, suffix in ((sys.executable, "python", ".py"), ("node", "javascript", ".mjs")):
        blocks = snippets("docs/server.md", "From a program", language)
        t.equal(len(blocks), 3, f"docs/server.md has three snippets in {language}")
        if not shutil.which(program):
            t.skip(f"docs/server.md: {language}", f"{program} is not installed", program)
            continue
        path = Path(mode.cwd) / f"snippet{suffix}"
        path.write_text("".join(blocks))
        done = mode.command(program, path, env=env, timeout=60)
        lines = [line.replace("[ '", "['").replace("' ]", "']").replace(", '']", "]") for line in done.out.decode().splitlines()]
        t.equal(lines, want, f"docs/server.md: {language}: a result, a stream, taken up again", *done.describe())


def readme_clients(t, mode, server):
    """What the README shows of clients."""
    for program, language, suffix in ((sys.executable, "python", ".py"), ("node", "javascript", ".mjs")):
        blocks = snippets("README.md", "As a server", language)
        t.equal(len(blocks), 1, f"README.md has one snippet in {language}")
        if not shutil.which(program):
            t.skip(f"README.md: {language}", f"{program} is not installed", program)
            continue
        path = Path(mode.cwd) / f"readme{suffix}"
        path.write_text("".join(blocks).replace("127.0.0.1:7300", f"127.0.0.1:{server.port}"))
        done = mode.command(program, path, env={"TOKEN": cayserve.TOKEN}, timeout=60)
        t.equal(done.out, b"42\n\n", f"README.md: {language}", *done.describe())


def clients(t, mode):
    """The clients of examples/ against a server: both tell the same."""
    if not mode.has_cgroup:
        return  # a server requires it
    with cayserve.Server(mode) as server:
        env = {"CAY_URL": f"http://127.0.0.1:{server.port}", "CAY_TOKEN": cayserve.TOKEN}
        shown_clients(t, mode, env)
        readme_clients(t, mode, server)
        for program, name in ((sys.executable, "client.py"), ("node", "client.mjs")):
            if not shutil.which(program):
                t.skip(f"examples/{name}", f"{program} is not installed", program)
                continue
            done = mode.command(program, caytest.ROOT / "examples" / name, env=env, timeout=60)
            lines = [line.replace("[ '", "['").replace("' ]", "']") for line in done.out.decode().splitlines()]
            t.equal(lines, ["plain: ok 42", "stream: 0", "stream: 1", "stream: 2", "stream: ok", "again: ['0', '1', '2']"],
                    f"examples/{name}: plain, streaming, taken up again", *done.describe())


def test(t, mode):
    total = 0
    clients(t, mode)
    caystate.private_records(mode)  # "last" is this script's own
    for page in PAGES:
        with tempfile.TemporaryDirectory(dir=caytest.workdir()) as name:
            env = prepare(mode, Path(name))
            for section, steps in commands(page):
                total += len(steps)
                if any("pkg-config" in command for _, command, _ in steps) and not can_link(mode):
                    t.skip(f"{page} {section}", "this build's libcay is not for an ordinary compiler, or user", "embed")
                    continue
                run_section(t, mode, Path(name), env, page, section, steps)
    t.ok(total > 50, "the pages were found", total)


caytest.main(test, modes=("root", "user"))
