#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds [packages] of languages/*/modules.toml against Debian's index of files: each package there is, and has the module.

    tools/check-modules.py Contents-amd64.gz Contents-all.gz                      checks every row
    tools/check-modules.py Contents-amd64.gz Contents-all.gz LANGUAGE NAME...     prints rows for these modules
    tools/check-modules.py --fetch FOLDER       checks every row by the index in FOLDER, where it is brought first

`make lint` does the last; without a network, and without an index from an earlier time, it says that nothing was checked. Where several packages have a file, the one whose name is shortest is
taken, but none that is a test, a documentation or for debugging."""
import gzip
import re
import shutil
import sys
import tomllib
import urllib.request
from pathlib import Path

INDEX = "http://deb.debian.org/debian/dists/bookworm/main/"

LANGUAGES = Path(__file__).resolve().parents[1] / "languages"

# The file that a module is, as Debian's packages install it: with the module's name as {name}, :: and . as /.
FILES = {
    "python": ["usr/lib/python3/dist-packages/{path}.py", "usr/lib/python3/dist-packages/{path}/__init__.py",
               "usr/lib/python3/dist-packages/{path}.cpython-311-x86_64-linux-gnu.so",
               "usr/lib/python3/dist-packages/{path}/"],
    "perl": ["usr/share/perl5/{path}.pm", "usr/lib/x86_64-linux-gnu/perl5/5.36/{path}.pm"],
    "ruby": ["usr/lib/ruby/vendor_ruby/{path}.rb", "usr/share/rubygems-integration/all/gems/*/lib/{path}.rb",
             "usr/lib/x86_64-linux-gnu/rubygems-integration/3.1.0/gems/*/lib/{path}.rb",
             "usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0/{path}.so"],
    "r": ["usr/lib/R/site-library/{name}/DESCRIPTION", "usr/lib/R/library/{name}/DESCRIPTION"],
    "lua": ["usr/share/lua/5.4/{path}.lua", "usr/share/lua/5.4/{path}/init.lua", "usr/lib/x86_64-linux-gnu/lua/5.4/{path}.so"],
    "javascript": ["usr/share/nodejs/{name}/package.json", "usr/lib/x86_64-linux-gnu/nodejs/{name}/package.json"],
    "c": ["usr/include/{name}", "usr/include/x86_64-linux-gnu/{name}", "usr/include/{name}/"],
    "cpp": ["usr/include/{name}", "usr/include/x86_64-linux-gnu/{name}", "usr/include/{name}/"],
}
LEFT_OUT = re.compile(r"-(doc|dbg|dbgsym|tests?|examples?)$")


def forms_of(language, name):
    path = name.replace("::", "/")
    if language in ("python", "lua"):
        path = path.replace(".", "/")
    return [form.format(name=name, path=path) for form in FILES[language]]


def read_index(files, wanted, folders, globs):
    """{path: packages} of the paths wanted; of a folder, the packages that have something in it."""
    found = {}
    tops = tuple({re.split("[{*]", form)[0].encode() for forms in FILES.values() for form in forms})
    for file in files:
        with gzip.open(file, "rb") as lines:
            for raw in lines:
                if not raw.startswith(tops):
                    continue
                line = raw.decode(errors="replace")
                path, _, packages = line.rstrip("\n").rpartition(" ")
                path = path.rstrip()
                names = {package.rpartition("/")[2] for package in packages.split(",")}
                if path in wanted:
                    found.setdefault(path, set()).update(names)
                for at in (i + 1 for i, c in enumerate(path) if c == "/"):
                    if path[:at] in folders:
                        found.setdefault(path[:at], set()).update(names)
                if "rubygems-integration" in path:
                    plain = re.sub(r"/gems/[^/]*/lib/", "/gems/*/lib/", path)
                    if plain in globs:
                        found.setdefault(plain, set()).update(names)
    return found


def look_up(index, language, name):
    packages = set()
    for form in forms_of(language, name):
        packages |= index.get(form, set())
    return {package for package in packages if not LEFT_OUT.search(package)}


def fetch(folder):
    """The two files of the index; what a release holds does not change."""
    files = [folder / name for name in ("Contents-amd64.gz", "Contents-all.gz")]
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        if file.exists():
            continue
        part = file.with_suffix(".part")
        with urllib.request.urlopen(INDEX + file.name, timeout=30) as answer, open(part, "wb") as out:
            shutil.copyfileobj(answer, out)
        part.rename(file)
    return [str(file) for file in files]


def main(args):
    if args[:1] == ["--fetch"] and len(args) == 2:
        try:
            args = fetch(Path(args[1]))
        except OSError as error:
            print(f"check-modules: nothing was checked: Debian's index can't be had ({error})")
            return 0
    files, rest = args[:2], args[2:]
    if len(files) < 2:
        sys.exit(__doc__)
    rows = []
    if rest:
        rows = [(rest[0], name, None) for name in rest[1:]]
    else:
        for file in sorted(LANGUAGES.glob("*/modules.toml")):
            packages = tomllib.loads(file.read_text()).get("packages", {})
            rows += [(file.parent.name, name, package) for name, package in packages.items()]
    forms = {form for language, name, _ in rows for form in forms_of(language, name)}
    folders = {form for form in forms if form.endswith("/")}
    globs = {form for form in forms if "*" in form}
    index = read_index(files, forms - folders - globs, folders, globs)
    wrong = 0
    for language, name, package in rows:
        packages = look_up(index, language, name)
        if package is None and packages:
            best = sorted(packages, key=lambda p: (len(p), p))[0]
            print(f'{name if re.fullmatch("[A-Za-z0-9_-]+", name) else chr(34) + name + chr(34)} = "{best}"')
        elif package not in packages:
            print(f"{language}: {name}: {'in ' + ', '.join(sorted(packages)) if packages else 'in no package'}, not in {package}",
                  file=sys.stderr)
            wrong += 1
    if not rest:
        print(f"{len(rows)} modules, {wrong} wrong")
    return wrong > 0


sys.exit(main(sys.argv[1:]))
