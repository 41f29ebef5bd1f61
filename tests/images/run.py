#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images built from Debian packages: `make test-images`. Not part of `make test`: it needs a mirror, and minutes.

With CAY_TEST_LONG=1 every definition is built, and each language's hello is run in its own image; else python-node only."""
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caystate
import caytest

MB = 1000 * 1000
BUILD_S = 1800


def names(mode, *flags):
    return {row["name"]: row for row in json.loads(mode.cay("image", "list", "--json", *flags).out)}


def hello(t, mode, image, language):
    folder = caytest.ROOT / "languages" / language
    source = next(f for f in folder.iterdir() if f.stem == "hello" and f.suffix != ".out")
    r = mode.json("run", "--image", image, "--timeout", "60", "-l", language, source)
    t.result(r, f"{language} runs in {image}", cause="ok", stdout=(folder / "hello.out").read_text())


def build(t, mode, name):
    done = mode.cay("image", "build", name, timeout=BUILD_S)
    if not t.ok(done.status == 0 and b"running apt-get update" in done.err, f"{name} is built, and tells what goes on", *done.describe(), done.err[-2000:]):
        return None
    row = names(mode)[name]
    t.diag(f"{name}: {row['size'] / MB:.0f} MB, {row['files']} files, {len(row['packages'])} packages, {done.seconds:.0f} s")
    return row


def test_root(t, mode):
    folder = caystate.private_records(mode, size="6g", part="images")
    os.chmod(folder, 0o755)
    with mode.live("image", "build", "bash") as live:
        t.ok(caytest.until(lambda: any(folder.glob(".new-*/scratch/*/var")), 60, 0.1), "a build is under way")
        live.signal(signal.SIGINT)
        t.equal(live.wait(60), 130, "Ctrl-C ends it")
    t.equal(os.listdir(folder), [], "and nothing is left of it")
    t.empty([p for p in caytest.descendants() if "mmdebstrap" in str(p)], "nor of its processes")

    row = build(t, mode, "python-node")
    if row:
        t.ok(row["size"] < 500 * MB, "python-node is below 500 MB", row["size"])
        t.ok(any(p.startswith("python3-pytest ") for p in row["packages"]), "its packages are listed", row["packages"][:5])
        for language in ("python", "javascript", "bash"):
            hello(t, mode, "python-node", language)
        code = "def test():\n    import numpy, pandas, requests, yaml, bs4, jinja2, jsonschema, hypothesis\n    assert numpy.arange(3).sum() == 3\n"
        (mode.cwd / "test_it.py").write_text(code)
        r = mode.json("exec", "--timeout", "120", "--image", "python-node", "--file", "test_it.py", "--", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
        t.ok(r.cause == "ok" and "1 passed" in r.get("stdout"), "pytest, and the libraries", *r.describe())
        mode.cay("image", "remove", "python-node")
    for name in sorted(names(mode, "--available")) if caytest.LONG else ():
        if name == "python-node" or not build(t, mode, name):
            continue
        hello(t, mode, name, name)
        mode.cay("image", "remove", name)
    caystate.unmount_records(folder)


def test_engine(t, mode):
    """A container engine gets it too, and runs it."""
    try:
        import caydocker
        why = caydocker.missing()
    except ImportError:
        why = "there is no caydocker"
    if why:
        t.skip("a container engine", why, "docker")
        return
    folder = caystate.private_records(mode, size="2g", part="images")
    os.chmod(folder, 0o755)
    root = mode.cwd / "root.tar"
    with caydocker.Engine() as engine:
        caydocker.make_root(str(root), with_c=False)
        env = {"DOCKER_HOST": engine.host}
        done = mode.cay("image", "import", "--engine", "docker", "--tag", "cay-test/mine:v1", root, "mine", env=env, timeout=300)
        t.ok(done.status == 0, "an image is handed to an engine", *done.describe())
        done = mode.command("docker", "run", "--rm", "--network", "none", "--read-only", "--user", "sandbox", "cay-test/mine:v1", "python3", "-c",
                            "import os; print(os.getuid())", env=env, timeout=120)
        t.ok(done.out == b"1000\n", "which runs it", *done.describe())
        done = mode.cay("image", "import", "--engine", "docker", "--tag", "No Name", root, "mine", env=env, timeout=300)
        t.ok(done.status == 125 and b"engine says" in done.err, "what it says against a name is told", *done.describe())
    caystate.unmount_records(folder)


def test_user(t, mode):
    """Whoever has subordinate uids can build; who has none is told the way."""
    done = mode.cay("image", "build", "bash", timeout=BUILD_S)
    if done.status == 0:
        hello(t, mode, "bash", "bash")
    else:
        t.ok(done.status == 125 and re.search(rb"mmdebstrap failed: .+\n.*sudo cay image build", done.err), "the remedy is told", *done.describe())
    t.equal([n for n in os.listdir(mode.home / ".local/state/cay/images") if n.startswith(".")], [], "nothing is left")


def test(t, mode):
    if mode.is_root:
        test_engine(t, mode)
    (test_root if mode.is_root else test_user)(t, mode)


caytest.main(test)
