# SPDX-License-Identifier: Apache-2.0
#
# The front door of the build; meson and ninja do the work. Text behind "##" is the help.
.DEFAULT_GOAL := build
.PHONY: build run check test coverage test-v2 test-docker test-images bench load install lint fuzz fuzz-server deps clean help

PREFIX ?=
FUZZ_SECONDS ?= 60
LOAD ?=

build: ## build the command as build/cay, which runs in place (the default)
	@tools/install-packages.sh --check build
	@tools/configure.sh build
	@ninja -C build

run: ## install what is needed, build, and run some Python in a sandbox
	@tools/install-packages.sh build run:python3
	@tools/configure.sh build
	@ninja -C build --quiet
	@tools/run-demo.sh

check: ## the fast loop: units, fuzz corpora, quick lint, and a little of the other tests
	@tools/install-packages.sh build run:python3 test
	@tools/configure.sh build -Dtests=true
	@ninja -C build --quiet
	@meson test -C build --no-rebuild --quiet --num-processes 4 --suite unit --suite fuzz --suite check --suite smoke

test: ## install what is needed, build, and run all tests
	@tools/install-packages.sh build run test
	@tools/install-esbuild.sh
	@tools/install-grammars.sh
	@tests/run-tests.sh

coverage: ## the share of lines that units, end-to-end and hostile tests reach, by folder
	@tools/install-packages.sh build run test
	@tools/install-esbuild.sh
	@tools/install-grammars.sh
	@tools/configure.sh build-coverage -Dtests=true -Db_coverage=true -Dbuildtype=debug
	@ninja -C build-coverage --quiet
	@tools/coverage.py build-coverage

test-v2: ## run the whole suite in an emulated machine with cgroup v2
	@tools/install-packages.sh build run test
	@tools/configure.sh build
	@ninja -C build --quiet
	@tests/v2/run-guest.sh --full

test-images: ## build images from Debian packages, and run code in them (takes minutes)
	@tools/install-packages.sh build image
	@tools/configure.sh build
	@ninja -C build --quiet
	@tests/images/run.py

test-docker: ## the docker backend at length: all hostile programs; 200 runs, a third of them killed
	@tools/install-packages.sh build run test engine
	@tools/configure.sh build -Dtests=true && ninja -C build --quiet
	@CAY=$(CURDIR)/build/cay CAY_SOURCE=$(CURDIR) CAY_BUILD=$(CURDIR)/build CAY_DOCKER_LONG=1 /usr/bin/python3 -B tests/e2e/test-docker.py

bench: ## measure, and compare with running bare and with others
	@tools/install-packages.sh build run bench
	@tools/configure.sh build
	@ninja -C build --quiet all bench-programs
	@bench/run.sh

load: ## 200 clients at once, a tenth of them hostile (LOAD="--seconds 120 --clients 200", or "--runs 10000")
	@tools/install-packages.sh build run
	@tools/configure.sh build
	@ninja -C build --quiet all bench-programs
	@build/bench/cay-load --cay build/cay $(LOAD)

install: ## install (PREFIX=/usr/local, DESTDIR=)
	@tools/install-packages.sh --check build
	@tools/configure.sh build $(if $(PREFIX),-Dprefix=$(PREFIX))
	@ninja -C build --quiet
	@tools/install.sh build $(if $(DESTDIR),$(abspath $(DESTDIR)))

lint: ## check layout, layers and symbols, and run the static analysers
	@tools/install-packages.sh build lint
	@tools/configure.sh build
	@ninja -C build --quiet
	@tools/lint.sh build

fuzz: ## fuzz each parser for FUZZ_SECONDS (60)
	@tools/install-packages.sh build fuzz
	@tools/run-fuzz.sh $(FUZZ_SECONDS)

fuzz-server: ## random clients and hostile requests against a server with sanitizers, FUZZ_SECONDS (60)
	@tools/install-packages.sh build run test
	@tools/fuzz-server.sh $(FUZZ_SECONDS)

deps: ## install the packages that all of these need
	@tools/install-packages.sh build run image test engine lint fuzz bench
	@tools/install-esbuild.sh
	@tools/install-grammars.sh

clean: ## remove what was built
	rm -rf build build-asan build-clang build-coverage build-fuzz

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile
