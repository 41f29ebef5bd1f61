# SPDX-License-Identifier: Apache-2.0
"""expect.py OUT ERR RC EXPR...: holds a `cay --json` result against Python expressions.

OUT and ERR are files with what cay wrote, RC is its exit status. Prints a line for each expression
that does not hold and exits with 1. Short names for the expressions: r the result, rc, cause,
verdict, meta, layers (a set), warnings (one string, lower case), peak (bytes), out (stdout).
"""
import json
import sys

MIB = 1 << 20


def main():
    out_path, err_path, rc = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(out_path, "rb") as f:
        raw = f.read()
    with open(err_path, "rb") as f:
        err = f.read().decode("utf-8", "replace")
    try:
        r = json.loads(raw)
        verdict, meta = r["verdict"] or {}, r["meta"]
        names = {
            "r": r, "rc": rc, "err": err, "json": json, "MIB": MIB,
            "verdict": verdict, "cause": verdict.get("cause"), "meta": meta, "out": r["stdout"],
            "layers": set(meta["isolation"]["layers"]),
            "warnings": json.dumps(meta["warnings"]).lower(),
            "peak": (meta.get("usage") or {}).get("memory_peak") or 0,
        }
    except (ValueError, KeyError, TypeError) as e:
        print(f"no result (exit {rc}): {type(e).__name__} {e}")
        print(f"stdout: {raw[:400]!r}")
        print(f"stderr: {err[:400]!r}")
        return 1
    bad = 0
    for expr in sys.argv[4:]:
        try:
            if eval(expr, dict(names)):
                continue
            print(f"false: {expr}")
        except Exception as e:
            print(f"{type(e).__name__} {e}: {expr}")
        bad = 1
    if bad:
        print(f"exit {rc}, verdict {json.dumps(verdict)}, error_message {r.get('error_message')!r}")
        print(f"layers {sorted(names['layers'])}, warnings {meta['warnings']}, usage {meta.get('usage')}")
        print(f"stdout {r['stdout'][-300:]!r}")
        print(f"stderr {r['stderr'][-300:]!r}, cay's own: {err[-300:]!r}")
    return bad


sys.exit(main())
