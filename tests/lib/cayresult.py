# SPDX-License-Identifier: Apache-2.0
"""cay's result as section 1 of the contract has it: every field, its type, the closed set of causes, and what must agree.

    data, problems = parse_report(raw_bytes)      the one JSON object, and what is wrong with the bytes
    problems += schema_problems(data)             everything in which it differs from the contract

`Result` does both for a finished `cay run --json` and is what tests work with."""

import base64
import contextlib
import json
import re

CAUSES = frozenset(
    "ok exit signal wall_timeout cpu_timeout memory pids disk output syscall network policy compile cancelled "
    "infrastructure".split()
)
TIERS = ("none", "kernel", "gvisor", "vm")

_NONE = type(None)
_NUMBER = (int, float)
_FIELDS = {
    "id": str, "success": bool, "exit_code": int, "signal": (int, _NONE), "stdout": str, "stderr": str,
    "execution_time": _NUMBER, "timeout": bool, "error_message": (str, _NONE), "container_id": (str, _NONE),
    "language": (str, _NONE), "timestamp": str, "verdict": dict, "error": (dict, _NONE), "results": list,
    "files": list, "meta": dict,
    "verdict.cause": str, "verdict.limit_name": (str, _NONE), "verdict.limit": (*_NUMBER, _NONE),
    "verdict.measured": (*_NUMBER, _NONE), "verdict.unit": (str, _NONE), "verdict.remedy": (str, _NONE),
    "meta.runtime": (str, _NONE), "meta.language_version": (str, _NONE), "meta.start": (str, _NONE), "meta.truncated": bool,
    "meta.blocked_imports": list, "meta.warnings": list, "meta.resource_limits": dict, "meta.usage": dict,
    "meta.timing": dict, "meta.isolation": dict,
    "meta.resource_limits.timeout": _NUMBER, "meta.resource_limits.max_output": int,
    "meta.resource_limits.memory": int, "meta.resource_limits.cpus": _NUMBER, "meta.resource_limits.pids": int,
    "meta.resource_limits.disk": int,
    "meta.usage.cpu_time": (*_NUMBER, _NONE), "meta.usage.memory_peak": (int, _NONE),
    "meta.usage.pids_peak": (int, _NONE), "meta.usage.stdout_bytes": int, "meta.usage.stderr_bytes": int,
    "meta.timing.queue": (*_NUMBER, _NONE), "meta.timing.setup": (*_NUMBER, _NONE),
    "meta.timing.compile": (*_NUMBER, _NONE), "meta.timing.run": (*_NUMBER, _NONE),
    "meta.timing.teardown": (*_NUMBER, _NONE),
    "meta.isolation.tier": str, "meta.isolation.layers": list,
}
_ERROR_FIELDS = {
    "type": (str, _NONE), "category": str, "message": str, "file": (str, _NONE), "line": (int, _NONE),
    "column": (int, _NONE), "frames": list, "context": list, "suggestion": (str, _NONE), "doc": (str, _NONE),
}
_MISSING = object()


def _typed(value, types):
    types = types if isinstance(types, tuple) else (types,)
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types)


def _dig(data, path):
    for part in path.split("."):
        if not isinstance(data, dict) or part not in data:
            return _MISSING
        data = data[part]
    return data


def schema_problems(data):
    """Everything in which a result object differs from section 1 of the contract, as a list of sentences."""
    bad = []
    if not isinstance(data, dict):
        return ["the result is not an object"]
    for path, types in _FIELDS.items():
        value = _dig(data, path)
        if value is _MISSING:
            bad.append(f"{path} is missing")
        elif not _typed(value, types):
            bad.append(f"{path} has the type {type(value).__name__}")
    if bad:
        return bad

    verdict, meta = data["verdict"], data["meta"]
    cause = verdict["cause"]
    if cause not in CAUSES:
        bad.append(f"verdict.cause {cause!r} is not one of the contract's")
    if data["success"] != (cause == "ok"):
        bad.append(f"success is {data['success']} with the cause {cause}")
    if cause == "ok" and data["exit_code"] != 0:
        bad.append(f"exit_code {data['exit_code']} with the cause ok")
    if cause != "ok" and not data["error_message"]:
        bad.append(f"no error_message with the cause {cause}")
    is_late = cause in ("wall_timeout", "cpu_timeout") or data["verdict"]["limit_name"] == "compile_timeout"
    if data["timeout"] != is_late:
        bad.append(f"timeout is {data['timeout']} with the cause {cause}")
    if cause in ("wall_timeout", "cpu_timeout") and data["exit_code"] != 124:
        bad.append(f"exit_code {data['exit_code']} with the cause {cause}")
    if cause in ("memory", "output") and data["exit_code"] != 137:
        bad.append(f"exit_code {data['exit_code']} with the cause {cause}")
    if cause == "signal" and (data["signal"] is None or data["exit_code"] != 128 + data["signal"]):
        bad.append(f"exit_code {data['exit_code']}, signal {data['signal']} with the cause signal")
    if cause == "exit" and (data["signal"] is not None or data["exit_code"] == 0):
        bad.append(f"exit_code {data['exit_code']}, signal {data['signal']} with the cause exit")
    if cause in ("wall_timeout", "cpu_timeout", "memory", "pids", "disk", "output"):
        for key in ("limit_name", "limit", "unit", "remedy"):
            if verdict[key] in (None, ""):
                bad.append(f"verdict.{key} is empty with the cause {cause}")
    if meta["runtime"] is None and cause not in ("infrastructure", "policy"):
        bad.append(f"meta.runtime is null with the cause {cause}")
    if not data["id"] and cause != "infrastructure":
        bad.append("id is empty")
    if data["execution_time"] < 0:
        bad.append("execution_time is negative")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", data["timestamp"]):
        bad.append(f"timestamp {data['timestamp']!r} has another form")
    if data["error"] is not None:
        for key, types in _ERROR_FIELDS.items():
            if not _typed(data["error"].get(key, _MISSING), types):
                bad.append(f"error.{key} is missing or of another type")
    for i, one in enumerate(data["results"]):
        if not isinstance(one, dict) or not isinstance(one.get("mime"), dict):
            bad.append(f"results[{i}] has no mime object")
    for i, one in enumerate(data["files"]):
        if not (isinstance(one, dict) and isinstance(one.get("path"), str) and isinstance(one.get("size"), int)):
            bad.append(f"files[{i}] has no path or size")
    for stream in ("stdout", "stderr"):
        exact = data.get(stream + "_base64")
        if exact is None:
            continue
        try:
            decoded = base64.b64decode(exact, validate=True)
        except (ValueError, TypeError):
            bad.append(f"{stream}_base64 is not base64")
            continue
        with contextlib.suppress(UnicodeDecodeError):
            decoded.decode()
            bad.append(f"{stream}_base64 is given for valid UTF-8")
        if "\ufffd" not in data[stream]:
            bad.append(f"{stream} shows no U+FFFD beside {stream}_base64")
    if meta["isolation"]["tier"] not in TIERS:
        bad.append(f"tier {meta['isolation']['tier']!r} is unknown")
    layers = meta["isolation"]["layers"]
    if not all(isinstance(x, str) and x for x in layers) or len(set(map(str, layers))) != len(layers):
        bad.append(f"layers are not distinct names: {layers!r}")
    for key in ("warnings", "blocked_imports"):
        if not all(isinstance(x, (str, dict)) for x in meta[key]):
            bad.append(f"meta.{key} holds something else than words")
    return bad


def _no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("the same key twice")
    return dict(pairs)


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


def parse_report(raw):
    """The one JSON object in `raw`, and what is wrong with the bytes themselves."""
    bad = []
    try:
        text = raw.decode()
    except UnicodeDecodeError as e:
        return None, [f"the report is not UTF-8: {e}"]
    control = sorted({hex(ord(c)) for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) <= 0x9F})
    if control:
        bad.append(f"the report holds raw control characters: {control[:8]}")
    try:
        data = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except ValueError as e:
        return None, bad + [f"the report is not one JSON object: {e}"]
    return data, bad


class Result:
    """The parsed answer of `cay run --json` or `cay exec --json`: `data`, `done` (the raw command) and `problems`."""

    def __init__(self, done):
        self.done = done
        self.data, self.problems = parse_report(done.out)
        if self.data is not None:
            self.problems += schema_problems(self.data)
            if self.get("exit_code") != done.status:
                self.problems.append(f"cay exited {done.status}, the result says {self.get('exit_code')}")
        if done.timed_out:
            self.problems.append("cay did not end in time")

    def get(self, path, default=None):
        value = _dig(self.data, path)
        return default if value is _MISSING else value

    @property
    def cause(self):
        return self.get("verdict.cause")

    @property
    def stdout(self):
        return self.get("stdout", "")

    @property
    def layers(self):
        return self.get("meta.isolation.layers", [])

    def reported(self):
        """The JSON object that the program itself printed as its last line, or {}."""
        lines = self.stdout.strip().splitlines()
        with contextlib.suppress(ValueError, IndexError):
            value = json.loads(lines[-1])
            return value if isinstance(value, dict) else {}
        return {}

    def describe(self):
        lines = self.done.describe()
        if self.data is not None:
            lines[2] = f"program's stdout {self.stdout[:300]!r}, stderr {str(self.get('stderr'))[:500]!r}"
            lines.append(f"verdict {self.get('verdict')!r} exit_code {self.get('exit_code')!r} "
                         f"signal {self.get('signal')!r} error_message {str(self.get('error_message'))[:200]!r}")
        return lines
