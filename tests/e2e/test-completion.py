#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Completions: their shells can read them, and they hold every command and every option that the help has."""
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caytest

CHECKS = {"bash": ("bash", "-n"), "zsh": ("zsh", "-n"), "fish": ("fish", "--no-execute")}


def words_of_help(mode):
    text = mode.cay("help", "run").out.decode()
    options = set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z-]+)", text))
    commands = set(re.findall(r"(?m)^  ([a-z]+) ", mode.cay("help").out.decode().split("Examples:")[0]))
    return options, commands


def completed(mode, script, *words):
    """What bash offers for the last of these words."""
    code = f"source {script}\nCOMP_WORDS=({' '.join(repr(w) for w in words)})\nCOMP_CWORD={len(words) - 1}\n_cay 2>/dev/null\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    return mode.command("bash", "-c", code).out.decode().split()


def test(t, mode):
    options, commands = words_of_help(mode)
    t.ok(len(options) > 30 and {"timeout", "json", "file"} <= options and {"run", "exec", "config"} <= commands, "the help has words",
         options, commands)
    for shell, check in CHECKS.items():
        done = mode.cay("completion", shell)
        t.ok(done.status == 0 and done.err == b"" and done.out.endswith(b"\n"), f"completion {shell}", *done.describe())
        text = done.out.decode()
        script = mode.cwd / f"completion.{shell}"
        script.write_text(text)
        if shutil.which(check[0]):
            checked = mode.command(*check, script)
            t.ok(checked.status == 0 and checked.err == b"", f"{shell} can read it", *checked.describe())
        else:
            t.skip(f"{shell} can read it", f"{shell} is not installed", shell)
        missing = [o for o in sorted(options) if not re.search(rf"(--|-l ){re.escape(o)}(?![\w-])", text)]
        t.empty(missing, f"{shell}: every option of run")
        t.empty([c for c in sorted(commands) if not re.search(rf"\b{c}\b", text)], f"{shell}: every command")
    script = mode.cwd / "completion.bash"
    t.ok({"run", "exec"} <= set(completed(mode, script, "cay", "")), "bash: commands are offered")
    t.equal(completed(mode, script, "cay", "image", "ex"), ["export"], "bash: what can be done with images")
    t.equal(completed(mode, script, str(mode.binary), "image", "build", "python-"), ["python-node"], "bash: what can be built")
    t.equal(completed(mode, script, str(mode.binary), "run", "--image", "hos"), ["host"], "bash: images")
    t.equal(completed(mode, script, "cay", "ru"), ["run"], "bash: a command is completed")
    t.ok("--timeout=" in completed(mode, script, "cay", "run", "--ti"), "bash: an option is completed",
         completed(mode, script, "cay", "run", "--ti"))
    (mode.cwd / "program.py").write_text("")
    t.ok("program.py" in completed(mode, script, "cay", "run", "prog"), "bash: so is a file")
    (mode.cwd / "progdir").mkdir(exist_ok=True)
    t.equal(completed(mode, script, "cay", "run", "--workspace", "prog"), ["progdir"], "bash: folders alone after --workspace")
    t.equal(completed(mode, script, str(mode.binary), "run", "--profile", "ha"), ["hardened"], "bash: profiles")
    (mode.cwd / "cay.toml").write_text("[profiles.hasty]\ntimeout = 1\n")
    config = mode.home / ".config/cay"
    config.mkdir(parents=True)
    (mode.cwd / "cay.toml").rename(config / "cay.toml")
    t.equal(completed(mode, script, str(mode.binary), "run", "--profile", "ha"), ["hasty", "hardened"], "bash: those of the configuration too")
    shutil.rmtree(mode.home / ".config")
    # As readline quotes what it puts on the line: interactive, by TAB.
    typed = mode.command("bash", "--norc", "-i", "-c", f"source {script}; complete -p cay")
    t.ok(b"filenames" not in typed.out, "bash: an option is no file name, so its = is not quoted", *typed.describe())
    cay = str(mode.binary)
    languages = {line.split()[0] for line in mode.cay("languages").out.decode().splitlines()[1:]}
    for words in (("-l", ""), ("--language", ""), ("--language", "=")):
        t.equal(set(completed(mode, script, cay, "run", *words)), languages, f"bash: languages after {' '.join(words)}")
    t.equal(completed(mode, script, cay, "run", "--language", "=", "pyth"), ["python"], "bash: a language is completed")
    mode.cay("run", "-l", "bash", "-e", "true")
    for command in ("show", "apply", "discard"):  # which ones: others may be running theirs
        words = completed(mode, script, cay, command, "")
        t.ok(words[0] == "last" and len(words) > 1 and all(re.fullmatch("[0-9a-f]{8}", w) for w in words[1:]), f"bash: ids after {command}", words)
    t.equal(completed(mode, script, cay, "show", "la"), ["last"], "bash: an id is completed")
    t.equal(completed(mode, script, cay, "run", "--backend", "nat"), ["native"], "bash: so is one of few words")
    for option in ("--watch", "--file", "--env-file", "--request"):
        t.ok("program.py" in completed(mode, script, cay, "run", option, "prog"), f"bash: a file after {option}")
    t.equal(completed(mode, script, cay, "run", "--timeout", ""), [], "bash: nothing where nobody knows")
    t.equal(completed(mode, script, cay, "help", "exe"), ["exec"], "bash: help takes a command")
    t.equal(completed(mode, script, cay, "completion", "z"), ["zsh"], "bash: completion takes a shell")
    t.equal(completed(mode, script, cay, "languages", "--j"), ["--json"], "bash: another command's option is completed")
    t.equal(completed(mode, script, cay, "languages", "--tim"), [], "bash: by its own options")
    for command in sorted(commands):
        text = mode.cay("help", command).out.decode().partition("Examples:\n")[2]
        t.ok(len(re.findall(r"(?m)^  .*\bcay\b", text)) >= 2, f"help {command}: at least two examples", text)


caytest.main(test, modes=("user",))
