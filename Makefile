# SPDX-License-Identifier: MIT
#
# The one entrance: `make help` lists the targets. Each folder has a Makefile of its own, which this
# one calls with O=<where to build>; nothing is written outside build/.

# Make and the shell split or expand such names everywhere below.
ifneq ($(shell printf %s '$(subst ','"'"',$(CURDIR))' | LC_ALL=C tr -d 'A-Za-z0-9/._+@,~=^-' | tr -d '\200-\377'),)
$(error The path of this folder has a blank or a special character in it, which the build cannot use: move the folder)
endif
ifneq ($(words $(MAKEFILE_LIST)),1)
$(error The path of this folder has a blank in it, which the build cannot use: move the folder)
endif
# Every folder's Makefile has its place by O=; a value from outside would reach them all.
ifeq ($(MAKELEVEL),0)
ifneq ($(O),)
$(error O= is not supported here: everything is built in build/; for another place use a copy of the sources)
endif
endif

TOP := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
BUILD := $(TOP)/build
SCRIPTS := $(TOP)/scripts
JOBS := $(or $(JOBS),$(shell nproc))

export VGPU_BUILD := $(BUILD)
# One clock for all progress lines of a run.
VGPU_T0 := $(or $(VGPU_T0),$(shell date +%s))
export VGPU_T0

# Absent before the first `prepare`; everything that uses it runs after that, in a make of its own.
-include $(BUILD)/config.mk
export VGPU_GUEST_KERNEL ?= $(CONFIG_VGPU_GUEST_KERNEL)
export VGPU_QEMU_SUITE ?= $(CONFIG_VGPU_QEMU_SUITE)

# Package lists of our own, where setup.sh found that the machine has none (scripts/lib.sh).
CACHE := $(or $(VGPU_CACHE),$(or $(XDG_CACHE_HOME),$(or $(HOME),$(BUILD))/.cache)/vgpu-cuda)
ifneq ($(wildcard $(CACHE)/apt/apt.conf),)
export APT_CONFIG := $(CACHE)/apt/apt.conf
endif

# Where the toolkit is or will be: `prepare` fetches it, and each folder what it needs beyond (scripts/cuda.mk).
CUDA_HOME := $(shell $(SCRIPTS)/find-cuda.sh --where)
export CUDA_HOME

STEP := $(SCRIPTS)/step.sh
NEXT := $(MAKE) --no-print-directory -C $(TOP)
# sub FOLDER, GOALS: make in a folder, with its place under build/.
sub = $(NEXT) -C $(TOP)/$(1) O=$(call place,$(1)) CUDA_HOME=$(CUDA_HOME) $(args-$(1)) -j$(JOBS) $(2)
place = $(BUILD)/$(or $(place-$(1)),$(1))
place-qemu-device := qemu
place-demo := demo/programs
place-kernel/vgpu_drv := kernel
args-kernel/vgpu_drv := KDIR=$(BUILD)/guest/headers
# Before the first `prepare` there is no configuration: the default.
args-userspace/libcuda := CONFIG_VGPU_LIBCUDA_INTEGRITY=$(or $(CONFIG_VGPU_LIBCUDA_INTEGRITY),$(if \
	$(wildcard $(BUILD)/config.mk),n,y))

# Folders with something to build, in an order in which each finds what it needs.
HOST_PARTS := protocol lib $(if $(CONFIG_VGPU_SOFTGPU),host/softgpu) host/backend userspace/libcuda \
	userspace/libnvidia-ml userspace/vgpu
GUEST_PARTS := guest $(if $(CONFIG_VGPU_CUDA),kernel/vgpu_drv) \
	$(if $(CONFIG_VGPU_QEMU_DEVICE),qemu-device)
# The suites of tests/; hardware last: it packs what others have built.
SUITES := $(patsubst $(TOP)/%/Makefile,%,$(sort $(wildcard $(TOP)/tests/*/Makefile $(TOP)/tests/*/*/Makefile)))
# These run beside the others, one after the other: each keeps about one processor busy and shares no file that is built.
BESIDE := $(if $(CONFIG_VGPU_CUDA),kernel/vgpu_drv kernel-lint) \
	$(if $(CONFIG_VGPU_QEMU_DEVICE),qemu-device qemu-object qemu-10) tests/system/compilers tests/system/sequences \
	tests/ptx/fuzz tests/system/boot
# The last ones run three at a time: they wait more than they compute.
TOGETHER := tests/system/faults tests/system/regress tests/hardware userspace/vgpu
CROSS_TESTS := demo $(filter-out $(BESIDE) $(TOGETHER),$(SUITES)) --together $(filter $(SUITES) $(HOST_PARTS),$(TOGETHER))

.DEFAULT_GOAL := all

##@ Using it
.PHONY: help demo demo-llm demo-ollama ollama
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(TOP)/Makefile
	@printf '\nOne test: make check T=conform/stream_*, T=host/backend/process_test, T=doctor (a whole suite); several words run in turn.\n'
	@printf 'Settings: CUDA_HOME=DIR, VGPU_CACHE=DIR (downloads), JOBS=N, VGPU_VERBOSE=1 (all output), GPU=soft|nvidia|auto (demo)\n'

# Without a toolkit what was built before is run as it is.
demo: ## build everything, boot a guest and run the demo programs in it
	@if [ -e $(BUILD)/.built ] && ! $(SCRIPTS)/find-cuda.sh > /dev/null 2>&1; then \
		echo "no CUDA Toolkit: nothing is built, what is in $(BUILD) is run"; \
	else $(NEXT) prepare && $(NEXT) stage-build; fi
	@$(TOP)/demo/run.sh $(if $(GPU),--gpu $(GPU)) $(BUILD)

demo-llm: prepare ## a language model answers in a guest; ggml's CPU backend on the host checks it
	@$(NEXT) stage-build
	@$(STEP) llm "making a language model" $(call sub,tests/apps/llm,all)
	@$(TOP)/tests/apps/llm/demo.sh $(if $(GPU),--gpu $(GPU)) $(BUILD)

demo-ollama: prepare ## Ollama in a guest, asked from the host through a port of it
	@$(NEXT) stage-build
	@$(NEXT) ollama
	@$(call sub,tests/apps/ollama,demo)

ollama: prepare ## fetch and build Ollama, once for all clones: what tests/apps/ollama and demo-ollama run
	@$(STEP) ollama-all "building Ollama" $(call sub,tests/apps/ollama,all)

##@ Building
.PHONY: all guest menuconfig defconfig clean distclean
all: prepare ## build everything
	@$(NEXT) stage-build

guest: ## fetch the guest's kernel, pack its initramfs
	@$(STEP) guest-kernel "fetching the guest kernel" $(SCRIPTS)/guest-kernel.sh $(BUILD)/guest
	@$(STEP) guest-init "building the guest's init" $(call sub,userspace/vgpu,all)
	@$(STEP) initramfs "packing the initramfs" $(SCRIPTS)/initramfs.sh \
		$(BUILD)/userspace/vgpu/guest-init $(BUILD)/guest

menuconfig: ## choose parts and options
	@$(SCRIPTS)/setup.sh demo
	@$(SCRIPTS)/kconfig.py menuconfig

defconfig: ## start .config from the committed default
	@$(SCRIPTS)/kconfig.py defconfig

# What was downloaded, or is downloaded again and unpacked otherwise: all else in build/ was built.
DOWNLOADS := npm guest/root guest/release guest/.complete guest/vmlinux guest/headers guest/vmlinuz \
	$(foreach q,qemu qemu-10,$(addprefix $(q)/,src share meson .suite)) llama/src kernel/kunit/src
clean: ## remove what was built; downloads stay
	@[ ! -d $(BUILD) ] || find $(BUILD) -depth -mindepth 1 \
		$(foreach d,$(DOWNLOADS),! -path $(BUILD)/$(d) ! -path '$(BUILD)/$(d)/*') \
		\( ! -type d -o -empty \) -delete

distclean: ## remove build/ and .config
	rm -rf $(BUILD) $(TOP)/.config

##@ Installing
.PHONY: install uninstall
# PREFIX=DIR (/usr/local), DESTDIR=DIR, PARTS="backend tools ..." (packaging/install.sh). Needs no toolkit.
INSTALL = BUILD=$(BUILD) DESTDIR='$(DESTDIR)' PREFIX='$(or $(PREFIX),/usr/local)' $(TOP)/packaging/install.sh
install: ## install what was built: PREFIX=/usr/local, DESTDIR=, PARTS= (default: all)
	@$(INSTALL) $(PARTS)

uninstall: ## remove what `make install` with the same settings has installed
	@$(INSTALL) --uninstall $(PARTS)

.PHONY: deb check-packages check-own-guest check-units check-docker
# From a copy below build/: dpkg-buildpackage writes beside the sources.
deb: ## Debian packages of what was built, in build/deb (installs debhelper and dh-dkms where they are missing)
	@$(SCRIPTS)/setup.sh deb
	@[ -x $(BUILD)/qemu/vgpu-qemu ] || $(NEXT) qemu-object || echo "vgpu-qemu is packaged without the distribution's QEMU"
	@$(STEP) deb "making Debian packages" $(TOP)/packaging/deb.sh $(BUILD)

check-own-guest: ## the commands of docs/own-guest.md, from debootstrap to a CUDA program in a guest (needs root; minutes)
	@$(SCRIPTS)/setup.sh deb own test
	@[ -d $(BUILD)/deb ] || $(NEXT) deb
	@$(TOP)/packaging/kubernetes_test.py $(BUILD)/packaging/kubernetes; rc=$$?; \
		$(TOP)/packaging/own_guest_test.py $(BUILD) && exit $$rc

check-units: prepare-test ## the systemd units under a systemd of their own, in namespaces: users, sockets, restart, every option (needs root; VGPU_UNITS=vm: in QEMU)
	@$(NEXT) stage-build
	@$(call sub,tests/perf,$(BUILD)/tests/perf/tenant)
	@$(TOP)/packaging/units_test.sh $(BUILD)/packaging

check-docker: prepare-test ## Docker with the GPU in a Debian 13 root (needs root)
	@$(NEXT) stage-build
	@$(TOP)/packaging/docker_test.sh $(BUILD)/packaging

check-packages: prepare-test ## install, upgrade and remove the packages in a Debian root; lintian; the module by DKMS (needs root)
	@$(NEXT) stage-build
	@$(NEXT) qemu-object || echo "vgpu-qemu is tested without the distribution's QEMU"
	@$(TOP)/packaging/packages_test.sh $(BUILD)/packaging

##@ Checking
# With these each warning of a compiler is an error (scripts/warnings.mk); a build for use does not stop at one.
check test all-clients bench-check bench-guest lint fuzz san coverage: export VGPU_WERROR = 1

.PHONY: check test test-all all-clients bench bench-check bench-guest bench-scale bench-peers lint compdb gpu gpu-kit fuzz san coverage faults debug-guest newer-guest regress prove census mutate repeat results
check: prepare-test ## unit tests, conformance over the socket: minutes, no guest; T=SUITE[/PATTERN]: one suite or test
	@set -e; for part in $(HOST_PARTS); do $(NEXT) $$part; done
ifeq ($(T),)
	@VGPU_TEST_NO_GUEST=1 $(TOP)/tests/runner/run-checks.sh --jobs 2 userspace/vgpu protocol host/backend host/softgpu \
		userspace/libnvidia-ml conformance lib userspace/libcuda
else
	@$(TOP)/tests/runner/one.py $(BUILD) $(CUDA_HOME) '$(T)'
endif

test: prepare-test ## all tests; the last line says N passed, M failed, K skipped
	@$(NEXT) stage-build
	@$(NEXT) stage-test

test-all: ## make test and all that it leaves out, with a table in build/test-all.md: hours, needs root (PARTS="NAME ...")
	@$(SCRIPTS)/test-all.sh $(PARTS)

all-clients: prepare-test ## programs of other people, also the large ones: hours, and gigabytes once
	@$(NEXT) stage-build
	@rc=0; for suite in $(ALL_CLIENTS); do $(call sub,$$suite,all-clients) || rc=1; done; exit $$rc
# The suites that have the target.
ALL_CLIENTS := $(shell cd $(TOP) && grep -ls '^all-clients:' tests/*/Makefile tests/*/*/Makefile | sed 's,/Makefile$$,,')

bench: prepare ## measure; writes build/bench.json, .svg, and prints a table; WITH=BUILD: beside another build of it
	@$(NEXT) stage-build
	@$(if $(WITH),$(call sub,tests/perf,all) && $(TOP)/tests/perf/compare.py --build $(BUILD) --with '$(WITH)' \
		--cuda $(CUDA_HOME) --rounds $(or $(ROUNDS),5),$(call sub,tests/perf,run))

bench-check: prepare ## counters of the bench (round trips, bytes copied, ...) against committed limits; what hardening costs
	@set -e; for part in $(HOST_PARTS); do $(NEXT) $$part; done
	@$(call sub,tests/perf,bench-check)

bench-guest: prepare ## the same counters in a guest, and exits to the device, ioctls, interrupts: none in the steady state (ACCEL=kvm|tcg)
	@$(NEXT) stage-build
	@$(call sub,tests/perf,bench-guest $(if $(ACCEL),ACCEL=$(ACCEL)))

bench-scale: prepare ## what an operation costs with 1,000 to 100,000 live objects; fails where it grows (KINDS="events ...")
	@set -e; for part in $(HOST_PARTS); do $(NEXT) $$part; done
	@$(call sub,tests/perf,bench-scale $(if $(KINDS),KINDS='$(KINDS)'))

PEERS_ARGS = LUPINE='$(abspath $(LUPINE))' SMOLVM='$(abspath $(SMOLVM))'
bench-peers: prepare ## other projects that forward CUDA beside ours, the same software GPU: LUPINE=DIR SMOLVM=DIR (built checkouts), ROUNDS=N, CROWDED=1
	@$(call sub,tests/perf,peers-paths $(PEERS_ARGS))
	@set -e; for part in $(HOST_PARTS); do $(NEXT) $$part; done
	@$(call sub,tests/perf,bench-peers $(PEERS_ARGS) ROUNDS='$(ROUNDS)' CROWDED='$(CROWDED)')

# The parts in scripts/layers.txt: their objects are checked.
LAYERED := lib host/softgpu host/backend userspace/libcuda
lint: prepare-test ## style, layers, licence lines, generated files, kernel rules
	@$(SCRIPTS)/setup.sh lint || true # of Debian 12: without it the script says what it did not check
	@set -e; for part in $(LAYERED); do $(NEXT) $$part; done
	@$(STEP) ptxrun "building the tools of the software GPU" $(call sub,host/softgpu,sg_ptxrun)
	@$(SCRIPTS)/lint.sh --built
	@$(STEP) guest-kernel "fetching the guest kernel" $(SCRIPTS)/guest-kernel.sh $(BUILD)/guest
	@$(NEXT) check-kernel-lint

compdb: prepare ## compile_commands.json for editors, from what make would run; device and driver: when they are built
	@$(SCRIPTS)/compdb.py $(TOP)/compile_commands.json $(CUDA_HOME) $(BUILD) $(HOST_PARTS) \
		$(filter-out tests/apps/%,$(SUITES))

gpu: ## on a machine with an NVIDIA GPU: the kit's stages and replay with it; writes docs/results/nvidia
	@if $(TOP)/tests/hardware/gpu.sh --driver; then $(NEXT) gpu-kit && $(call sub,tests/system/replay,all) && \
		$(TOP)/tests/hardware/gpu.sh $(BUILD); fi

gpu-kit: prepare-test ## one folder with all that is run on a machine with a GPU: build/tests/hardware/kit
	@$(NEXT) stage-build
	@$(STEP) kit-conform "building the conformance suite" $(call sub,tests/conformance/driver,all)
	@$(STEP) kit-walk "building the walk" $(call sub,tests/conformance/entrypoints,all)
	@$(STEP) kit-bench "building the bench" $(call sub,tests/perf,all)
	-@$(STEP) kit-llm "building the language model" $(call sub,tests/apps/llm,all)
	@$(call sub,tests/hardware,kit)

fuzz: prepare-test ## malformed rings, records, images and PTX, longer than in make test (FUZZ_TIME=SECONDS)
	@$(NEXT) stage-build
	@$(call sub,tests/system/faults,fuzz)
	@$(call sub,tests/ptx/fuzz,fuzz)
	@$(call sub,tests/system/sequences,fuzz)

# Minutes for the build, less for the suite; SAN=thread is the other one. CASES: of tests/conformance/driver.
# In an argument of $(or) a comma would end it.
COMMA := ,
san: prepare-test ## the conformance suite with sanitizers: SAN=address,undefined or SAN=thread, with streams busy meanwhile (CASES='graph_* ...')
	@JOBS=$(JOBS) $(SCRIPTS)/san.sh $(BUILD) $(CUDA_HOME) $(or $(SAN),address$(COMMA)undefined) $(CASES)

results: prepare-test ## measure again, at one commit, what the pages of docs/results say: an hour or two (PAGES="llm cublas": these)
	@$(NEXT) stage-build
	@$(SCRIPTS)/results.py --build $(BUILD) run $(PAGES)

coverage: prepare-test ## what tests reach, by folder: build/coverage/coverage.md, as docs/results/coverage.md (ALL=1: further suites)
	@$(NEXT) stage-build
	@$(call sub,tests/conformance/driver,all)
	@$(call sub,tests/system/inject,all)
	@JOBS=$(JOBS) $(SCRIPTS)/coverage.sh $(BUILD) $(CUDA_HOME) $(if $(ALL),all)

faults: prepare-test ## the 39 faults that the system must survive, each beside a victim (CYCLES=F, ROW=N)
	@$(NEXT) stage-build
	@$(call sub,tests/conformance/driver,all)
	@$(call sub,tests/system/faults,rows)

debug-guest: prepare-test ## the guest driver under a kernel with KASAN or KCSAN, lockdep, kmemleak: random ioctls, a hostile process (CHECKER=kasan|kcsan SEEDS=N HOSTILE=SECONDS)
	@$(NEXT) stage-build
	@$(call sub,tests/system/boot,debug)

newer-guest: prepare-test ## the guest's tests with the kernel of Debian's backports; syncobjs of virtio-gpu (VGPU_NEWER_SUITE=SUITE)
	@$(NEXT) stage-build
	@$(call sub,tests/system/boot,newer)

regress: prepare-test ## each hole that was found, by the test that fails without its mend (HOLE=NAME)
	@$(NEXT) stage-build
	@$(call sub,tests/system/regress,run)

repeat: prepare-test ## each suite N times while the processors are busy; a table in build/repeat.md (N=40 T=SUITE[/PATTERN])
	@set -e; for part in $(HOST_PARTS); do $(NEXT) $$part; done
	@set -f; $(TOP)/tests/runner/repeat.py --times $(or $(N),40) --out $(BUILD)/repeat.md $(T)

# Built first: what the suites run and do not build themselves.
mutate: prepare-test ## small faults in a copy, one at a time: do the tests notice? (N=20 SEED=1 PART=a,b JOBS=N AGAIN=1)
	@$(NEXT) stage-build
	@set -e; for suite in conformance/driver conformance/entrypoints ptx/random system/doctor; do $(call sub,tests/$$suite,all); done
	@$(TOP)/tests/runner/mutate/mutate.py --top $(TOP) --out $(BUILD)/mutate --cuda $(CUDA_HOME) --n $(or $(N),20) \
		--seed $(or $(SEED),1) $(if $(PART),--part '$(PART)') --jobs $(JOBS) $(if $(AGAIN),--again)

prove: prepare-test ## proofs by CBMC: bounds of memory accesses, the verifier's parts, ring, table of handles, all decoders (CALLS='NAME ...': these)
	@$(SCRIPTS)/cbmc.sh > /dev/null
	@$(SCRIPTS)/prove.sh $(BUILD)/prove softgpu '$(call sub,host/softgpu,prove)' backend '$(call sub,host/backend,prove)' \
	  protocol '$(call sub,protocol,prove CALLS="$(CALLS)")'

census: prepare ## decode the PTX of the toolkit's libraries and of ggml; writes docs/results/ptx-census.md
	@$(call sub,tests/ptx/census,table)

# Packages, toolkit and configuration: before anything that reads them.
.PHONY: prepare prepare-test stage-build stage-test
prepare:
	@$(SCRIPTS)/find-cuda.sh --check > /dev/null
	@$(SCRIPTS)/setup.sh demo
	@$(SCRIPTS)/find-cuda.sh > /dev/null
	@$(SCRIPTS)/kconfig.py sync $(BUILD)

prepare-test:
	@$(SCRIPTS)/find-cuda.sh --check > /dev/null
	@$(SCRIPTS)/setup.sh demo test
	@$(SCRIPTS)/find-cuda.sh > /dev/null
	@$(SCRIPTS)/kconfig.py sync $(BUILD)

# One after the other: each uses all processors, and the progress lines stay in order.
stage-build:
	@set -e; for part in $(HOST_PARTS) $(GUEST_PARTS) demo-programs packaging; do $(NEXT) $$part; done
	@touch $(BUILD)/.built

# First what several suites build.
stage-test:
	@$(STEP) conform "building the conformance suite" $(call sub,tests/conformance/driver,all)
	@$(STEP) fault-programs "building the programs of the faults" $(call sub,tests/system/faults,all)
	@$(TOP)/tests/runner/run-checks.sh --beside '$(BESIDE)' scripts $(filter-out $(TOGETHER),$(HOST_PARTS)) packaging \
		$(filter-out guest $(BESIDE),$(GUEST_PARTS)) $(CROSS_TESTS)

# A check of one part that is asked for alone: packages, toolkit and configuration first, as for all of them, and then
# a make that reads the configuration. run-checks.sh, whose make has done that, gets the second half.
ifeq ($(MAKELEVEL),0)
check-%: prepare-test
	@$(NEXT) $@
else
check-%:
	@$(call sub,$(subst .,/,$*),check)

# The part of the conformance suite that `make check` runs.
check-conformance:
	@$(call sub,tests/conformance/driver,check-socket)

# The kernel's own rules, with the kernel source that the driver's check has fetched.
check-kernel-lint:
	@MAKEFLAGS= $(TOP)/kernel/vgpu_drv/lint.sh $(BUILD)/guest/headers $(BUILD)/kernel/lint

check-qemu-object:
	@$(call sub,qemu-device,check-object SUITES=trixie)

# The device's objects in the other supported QEMU.
check-qemu-10:
	@$(call sub,qemu-device,check-10)
endif

# The device for the distribution's unmodified QEMU; vgpu-qemu preloads it there.
.PHONY: qemu-object
OBJECT_SUITES := $(filter-out $(VGPU_QEMU_SUITE),trixie bookworm-backports)
qemu-object: qemu-device
	@$(STEP) qemu-object "building the device for the distribution's QEMU" $(call sub,qemu-device,object SUITES="$(OBJECT_SUITES)")

.PHONY: protocol lib host/softgpu host/backend userspace/libcuda userspace/libnvidia-ml userspace/vgpu \
	qemu-device kernel/vgpu_drv demo-programs packaging
protocol lib host/softgpu host/backend userspace/libcuda userspace/libnvidia-ml userspace/vgpu \
qemu-device:
	@$(STEP) $(subst /,-,$@) "building $(or $(text-$@),$@)" $(call sub,$@,all)
text-qemu-device := QEMU with the vgpu-cuda device
text-host/softgpu := the software GPU
text-host/backend := the backend
text-userspace/libcuda := the guest's libcuda
text-userspace/libnvidia-ml := the guest's libnvidia-ml
text-userspace/vgpu := the vgpu command

# What `vgpu guest-bundle` packs.
packaging:
	@$(STEP) packaging "laying out the guest's files" $(call sub,packaging,all)

# `make demo` runs them.
demo-programs:
	@$(STEP) $@ "building the demo programs" $(call sub,demo,all)

# Kbuild takes O= in another sense: the folder's Makefile sorts that out.
kernel/vgpu_drv:
	@$(STEP) guest-kernel "fetching the guest kernel" $(SCRIPTS)/guest-kernel.sh $(BUILD)/guest
	@$(STEP) kernel-vgpu_drv "building the guest driver" $(call sub,$@,module)
