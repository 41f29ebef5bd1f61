#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of `cay serve` that needs nothing but Python's own library: a result, events as they happen, and a stream
that is taken up again where it was lost.

    CAY_URL=http://127.0.0.1:7300 CAY_TOKEN=$(cat ~/.local/state/cay/token) python3 client.py
"""
import json
import os
import urllib.request

URL = os.environ.get("CAY_URL", "http://127.0.0.1:7300")
TOKEN = os.environ["CAY_TOKEN"]


def call(method, path, body=None, **headers):
    request = urllib.request.Request(URL + path, method=method, data=body and json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {TOKEN}")
    request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    return urllib.request.urlopen(request)


def events(answer):
    """One event a line: {"seq", "event", "time", …}; the last one holds the result."""
    for line in answer:
        yield json.loads(line)


# A result, when it is there.
result = json.load(call("POST", "/v1/execute", {"language": "python", "code": "print(6 * 7)"}))
print("plain:", result["verdict"]["cause"], result["stdout"].strip())

# Events, as they happen.
code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.1)"
for event in events(call("POST", "/v1/execute", {"language": "python", "code": code}, Accept="application/x-ndjson")):
    if event["event"] == "stdout":
        print("stream:", event["data"].strip())
    elif event["event"] == "finished":
        print("stream:", event["result"]["verdict"]["cause"])

# A run that goes on without us. We look, lose the connection, and go on behind the last event that we saw.
started = json.load(call("POST", "/v1/execute", {"language": "python", "code": code, "detach": True}))
path, seen, text = f"/v1/executions/{started['id']}/events", 0, ""
with call("GET", path, Accept="application/x-ndjson") as answer:
    for event in events(answer):
        seen = event["seq"]
        if event["event"] == "stdout":
            text += event["data"]
            break  # lost
for event in events(call("GET", path, Accept="application/x-ndjson", Last_Event_ID=str(seen))):
    if event["event"] == "stdout":
        text += event["data"]
print("again:", text.split())
