# The one way in. All paths are relative, so the folder may have any name.
PYTHON ?= python3
BIN := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq

.PHONY: demo test check wheel clean
.DELETE_ON_ERROR:

demo: .venv/demo.stamp          ## the whole chain with no hardware
	@$(BIN)/edge-infer demo

test: .venv/dev.stamp .venv/debian.stamp    ## every test
	@$(BIN)/python -m pytest

check: .venv/dev.stamp          ## lint, types, import directions
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports setup.cfg

wheel: .venv/dev.stamp          ## dist/*.whl
	@rm -rf build
	@$(BIN)/python -m build --wheel --outdir dist . >/dev/null && ls dist

clean:
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("edge-infer needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(APT) update && $(APT) install -y --no-install-recommends python3-venv; }
	@echo "making .venv ..."
	@$(PYTHON) -m venv .venv

# A stamp is older than what it depends on: a changed setup.cfg installs again.
.venv/demo.stamp: .venv/bin/python setup.cfg
	@echo "installing edge-infer into .venv (a minute on the first run) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

.venv/dev.stamp: .venv/bin/python setup.cfg
	@echo "installing edge-infer and its test tools into .venv (a minute on the first run) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/demo.stamp

# mosquitto is the tests' broker, GStreamer's RTSP server their network camera, systemd checks the unit
DEBIAN := systemd openssl mosquitto mosquitto-clients gir1.2-gst-rtsp-server-1.0 python3-gi \
	$(addprefix gstreamer1.0-plugins-,base good bad ugly)
MISSING = $(filter-out $(shell dpkg-query -Wf '$${db:Status-Status}/$${Package}\n' 2>/dev/null | sed -n 's,^installed/,,p'),$(DEBIAN))

.venv/debian.stamp: Makefile .venv/bin/python
	@[ -z "$(MISSING)" ] || { echo "installing $(MISSING) ..." && $(APT) update && $(APT) install -y --no-install-recommends $(MISSING); }
	@touch $@
