#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`make install`: what goes where, what it says, and what it says where it may not write."""
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest
from caytest import until

SOURCE, BUILD = Path(os.environ["CAY_SOURCE"]), Path(os.environ["CAY_BUILD"])
COMMANDS = re.findall(r"^    (?:CMD|FULL)\((\w+),", (SOURCE / "src/cli/commands.h").read_text(), re.M)


# An apt-get that has nothing to do with this host's packages. Its first install fails, as one does by lists that
# are too old; each step says how far it is, and waits until the test has seen that.
APT = """#!/bin/sh
case "$*" in
*update*) echo "dlstatus:1:40.5:Retrieving the lists"; read -r go <"$FOLDER/go"; : >"$FOLDER/updated" ;;
*) [ -e "$FOLDER/updated" ] || exit 100
   echo "pmstatus:gcc:75.25:Unpacking gcc"; read -r go <"$FOLDER/go" ;;
esac
"""


def packages(t, mode):
    folder = mode.cwd / "apt"
    folder.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-query", "#!/bin/sh\nexit 1\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    os.mkfifo(folder / "go")
    master, slave = os.openpty()
    env = {**mode.env, "PATH": f"{folder}:{mode.env['PATH']}", "FOLDER": str(folder)}
    seen = b""

    def is_shown(words):
        nonlocal seen
        os.set_blocking(master, False)
        try:
            seen += os.read(master, 65536)
        except BlockingIOError:
            pass
        return words in seen

    with subprocess.Popen([SOURCE / "tools/install-packages.sh", "build"], stdin=slave, stdout=slave, stderr=slave, env=env) as at:
        for words in (b" 40 % Retrieving the lists", b" 75 % Unpacking gcc"):
            shown = until(lambda: is_shown(words) or at.poll() is not None, 60) and words in seen
            if not t.ok(shown, f"packages: {words.decode().strip()}, while it goes on", seen):
                at.kill()
                break
            (folder / "go").write_text("go\n")
        t.equal(at.wait(), 0, "packages: installed", seen)
    os.close(master)
    os.close(slave)


def demo(t, mode):
    done = mode.command(SOURCE / "tools/run-demo.sh")
    t.ok(done.status == 0 and b"sum of squares        285" in done.out and b"make deps" in done.out.splitlines()[-1],
         "make run: the demo's last line says what more languages need", *done.describe())


# In a mount namespace: an /etc and a /usr/local of its own. Grammars are not fetched for it.
PLAIN = """
mount --make-rprivate / && mount -t tmpfs none "$1" && mkdir "$1/etc" "$1/local" && cp -a /etc/. "$1/etc" &&
mount --bind "$1/etc" /etc && mount --bind "$1/local" /usr/local || exit 77
CAY_NO_INSTALL=1 "$2" "$3" || exit
/sbin/ldconfig -p | grep 'libcay\\.so'
PKG_CONFIG_PATH= pkg-config --variable=libdir cay
"""


def plain(t, mode):
    """Without DESTDIR: ld.so and pkg-config find the library with nothing told to them."""
    (mode.cwd / "plain").mkdir()
    done = mode.command("/usr/bin/unshare", "-m", "/bin/sh", "-c", PLAIN, "sh", mode.cwd / "plain", SOURCE / "tools/install.sh", BUILD,
                        timeout=300)
    if done.status == 77:
        t.skip("install: without DESTDIR", "native: no mount namespace")
        return
    t.ok(re.search(rb"libcay\.so\.\d.* => /usr/local/lib/", done.out), "ld.so has heard of the library: ldconfig was run", *done.describe())
    t.ok(done.status == 0 and done.out.rstrip().endswith(b"/usr/local/lib"), "pkg-config finds it", *done.describe())


def test(t, mode):
    if os.environ.get("CAY_SANITIZED"):
        t.skip("install", "sanitizers: what is installed is not built with them")
        return
    tool = SOURCE / "tools/install.sh"
    if mode.uid is not None:
        done = mode.command(tool, BUILD)
        t.ok(done.status == 1 and b"sudo make install" in done.err and b"PREFIX=" in done.err and b"Traceback" not in done.err,
             "without the right to write: what to do, in words", *done.describe())
        return
    root = mode.cwd / "root"
    done = mode.command(tool, BUILD, root)
    t.ok(done.status == 0 and b"cay doctor" in done.out and str(root).encode() in done.out, "says what went where, and what next", *done.describe())
    prefix = root / "usr/local"
    names = {path.name for path in prefix.rglob("*")}
    for name in ("cay", "cay-full", "libcay.so", "cay.pc", "run.h", "cay.toml.5", "cay.service", "cay-user.service"):
        t.ok(name in names, f"{name} is there")
    for name in COMMANDS:
        t.ok(f"cay-{name}.1" in names, f"a man page for {name}")
    for unit in ("cay.service", "cay-user.service"):
        text = (prefix / "share/cay" / unit).read_text()
        t.ok("ExecStart=/usr/local/bin/cay serve" in text and "@" not in text, f"{unit} starts what was installed", text)
    done = mode.command(prefix / "bin/cay", "version")
    t.ok(done.status == 0 and done.out.startswith(b"cay "), "and it runs", *done.describe())
    libdir = "/" + str(next(prefix.rglob("libcay.so")).parent.relative_to(root))
    looked_in = mode.command("/sbin/ldconfig", "-v", "-N", "-X").out.decode().split(":")
    t.ok(libdir in [folder.split("\n")[-1] for folder in looked_in], f"{libdir} is a folder that ld.so looks in", looked_in)
    asked = mode.command("pkg-config", "--variable", "pc_path", "pkg-config")
    t.ok(f"{libdir}/pkgconfig" in asked.out.decode().strip().split(":"), "and pkg-config", *asked.describe())
    plain(t, mode)
    packages(t, mode)
    demo(t, mode)


caytest.main(test, modes=("root", "user"))
