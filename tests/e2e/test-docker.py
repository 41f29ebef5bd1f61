#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The docker backend on a real engine: the conformance suite, and what only a container engine has."""
import importlib.util
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import caydocker
import caytest


def load(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    spec = importlib.util.spec_from_file_location("conformance", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test(t, mode):
    why = caydocker.missing()
    if why:
        t.skip("docker", why, "docker")
        return
    conformance = load("test-conformance.py")
    with caydocker.Engine() as engine:
        engine.make_image()
        mode.env.update(DOCKER_HOST=engine.host, SECURITY_DOCKER_IMAGE=caydocker.IMAGE)
        conformance.conform(t, mode, "docker")


if __name__ == "__main__":
    caytest.main(test, modes=("root",))
