# Every target installs what it lacks, and only that. On a machine with its own copy of torch or its own
# package index, say so: make build TORCH=torch==2.9.1, and pip's own settings.
.PHONY: help build run test bench lint format sanitize clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build:  ## .venv/bin/equipoise, and `import equipoise` in .venv
	@scripts/setup.sh compiler wheel

run:  ## train a small model on 2 ranks, unbalanced and balanced, and write a report
	@scripts/setup.sh compiler wheel
	@scripts/run.sh

test:  ## all tests: the core with its slow checks on, then Python, the command line, the layers
	@scripts/setup.sh compiler gtest wheel pytest solver
	@scripts/test.sh

bench:  ## build the benchmarks and run those of the core
	@scripts/setup.sh compiler bench wheel solver
	@scripts/bench.sh

lint:  ## format, lint, sizes, layers
	@scripts/setup.sh compiler gtest tidy ruff
	@scripts/lint.sh

format:  ## rewrite the sources as lint wants them
	@scripts/setup.sh tidy ruff
	@scripts/format.sh

sanitize:  ## tests of the core under ASan and UBSan
	@scripts/setup.sh compiler gtest
	@scripts/ctest.sh sanitize

clean:  ## remove build and .venv
	rm -rf build .venv
