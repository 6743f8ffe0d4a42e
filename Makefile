# SPDX-License-Identifier: MIT
#
# The one entrance: `make help` lists the targets. Each folder has a Makefile of its own, which this
# one calls with O=<where to build>; nothing is written outside build/.

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
ifneq ($(wildcard $(BUILD)/cache/apt/apt.conf),)
export APT_CONFIG := $(BUILD)/cache/apt/apt.conf
endif

CUDA_HOME := $(shell $(SCRIPTS)/find-cuda.sh 2> /dev/null || echo $${CUDA_HOME:-/usr/local/cuda})
export CUDA_HOME

STEP := $(SCRIPTS)/step.sh
NEXT := $(MAKE) --no-print-directory
# sub FOLDER, GOALS: make in a folder, with its place under build/.
sub = $(NEXT) -C $(TOP)/$(1) O=$(call place,$(1)) CUDA_HOME=$(CUDA_HOME) $(args-$(1)) -j$(JOBS) $(2)
place = $(BUILD)/$(or $(place-$(1)),$(1))
place-qemu-device := qemu
place-kernel/vgpu_drv := kernel
args-kernel/vgpu_drv := KDIR=$(BUILD)/guest/headers
args-userspace/libcuda := CONFIG_VGPU_LIBCUDA_INTEGRITY=$(or $(CONFIG_VGPU_LIBCUDA_INTEGRITY),n)

# Folders with something to build, in an order in which each finds what it needs.
HOST_PARTS := protocol $(if $(CONFIG_VGPU_SOFTGPU),host/softgpu) host/backend userspace/libcuda \
	userspace/libnvidia-ml userspace/vgpu
GUEST_PARTS := guest $(if $(CONFIG_VGPU_CUDA),kernel/vgpu_drv) \
	$(if $(CONFIG_VGPU_QEMU_DEVICE),qemu-device)
CROSS_TESTS := $(filter-out tests/lib, \
	$(patsubst $(TOP)/%/Makefile,%,$(wildcard $(TOP)/tests/*/Makefile)))

.DEFAULT_GOAL := all

##@ Using it
.PHONY: help demo demo-llm
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(TOP)/Makefile
	@printf '\nSettings: CUDA_HOME=DIR, JOBS=N, VGPU_VERBOSE=1 (all output), GPU=soft|nvidia|auto (demo)\n'

demo: prepare ## build everything, boot a guest and run the demo programs in it
	@$(NEXT) stage-build
	@$(TOP)/tests/demo/run.sh $(if $(GPU),--gpu $(GPU)) $(BUILD)

demo-llm: prepare ## a language model answers in a guest; ggml's CPU backend on the host checks it
	@$(NEXT) stage-build
	@$(STEP) llm "making a language model" $(call sub,tests/llm,all)
	@$(TOP)/tests/llm/demo.sh $(if $(GPU),--gpu $(GPU)) $(BUILD)

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

clean: ## remove what was built; downloads stay
	rm -rf $(addprefix $(BUILD)/,host userspace tests protocol demo demo-host llama log bench.json \
		kernel/module kernel/selftest kernel/lint kernel/vgpu_drv.ko kernel/kunit/um \
		config.h config.mk guest/initrd.cpio qemu/obj qemu/bin qemu/.stamp)

distclean: ## remove build/ and .config
	rm -rf $(BUILD) $(TOP)/.config

##@ Checking
.PHONY: test bench lint gpu fuzz census
test: prepare-test ## all tests; the last line says N passed, M failed, K skipped
	@$(NEXT) stage-build
	@$(NEXT) stage-test

bench: prepare ## measure; writes build/bench.json and prints a table
	@$(NEXT) stage-build
	@$(call sub,tests/bench,run)

lint: prepare-test ## style, layers, licence lines, generated files, kernel rules
	@$(SCRIPTS)/lint.sh
	@$(STEP) guest-kernel "fetching the guest kernel" $(SCRIPTS)/guest-kernel.sh $(BUILD)/guest
	@$(NEXT) check-kernel-lint

gpu: ## on a machine with an NVIDIA GPU: demo, conformance and bench with it
	@$(TOP)/tests/gpu/run

fuzz: prepare-test ## malformed rings, records, images and PTX, longer than in make test (FUZZ_TIME=SECONDS)
	@$(NEXT) stage-build
	@$(call sub,tests/faults,fuzz)
	@$(call sub,tests/fuzz,fuzz)

census: prepare ## decode the PTX of the toolkit's libraries and of ggml; writes docs/results/ptx-census.md
	@$(call sub,tests/census,table)

# Packages, toolkit and configuration: before anything that reads them.
.PHONY: prepare prepare-test stage-build stage-test
prepare:
	@$(SCRIPTS)/find-cuda.sh > /dev/null
	@$(SCRIPTS)/setup.sh demo
	@$(SCRIPTS)/kconfig.py sync $(BUILD)

prepare-test:
	@$(SCRIPTS)/find-cuda.sh > /dev/null
	@$(SCRIPTS)/setup.sh demo test
	@$(SCRIPTS)/kconfig.py sync $(BUILD)

# One after the other: each uses all processors, and the progress lines stay in order.
stage-build:
	@set -e; for part in $(HOST_PARTS) $(GUEST_PARTS) tests/demo; do $(NEXT) $$part; done

stage-test:
	@$(TOP)/tests/lib/run-checks.sh scripts $(HOST_PARTS) $(filter-out guest,$(GUEST_PARTS)) \
		$(if $(CONFIG_VGPU_CUDA),kernel-lint) $(if $(CONFIG_VGPU_QEMU_DEVICE),qemu-10) $(CROSS_TESTS)

# run-checks.sh asks for one folder's check.
check-%:
	@$(call sub,$(subst .,/,$*),check)

# The kernel's own rules, with the kernel source that the driver's check has fetched.
check-kernel-lint:
	@MAKEFLAGS= $(TOP)/kernel/vgpu_drv/lint.sh $(BUILD)/guest/headers $(BUILD)/kernel/lint

# The device's objects in the other supported QEMU.
check-qemu-10:
	@$(call sub,qemu-device,check-10)

.PHONY: protocol host/softgpu host/backend userspace/libcuda userspace/libnvidia-ml userspace/vgpu \
	qemu-device kernel/vgpu_drv tests/demo
protocol host/softgpu host/backend userspace/libcuda userspace/libnvidia-ml userspace/vgpu \
qemu-device tests/demo:
	@$(STEP) $(subst /,-,$@) "building $(or $(text-$@),$@)" $(call sub,$@,all)
text-qemu-device := QEMU with the vgpu-cuda device
text-host/softgpu := the software GPU
text-host/backend := the backend
text-userspace/libcuda := the guest's libcuda
text-userspace/libnvidia-ml := the guest's libnvidia-ml
text-userspace/vgpu := the vgpu command
text-tests/demo := the demo programs

# Kbuild takes O= in another sense: the folder's Makefile sorts that out.
kernel/vgpu_drv:
	@$(STEP) guest-kernel "fetching the guest kernel" $(SCRIPTS)/guest-kernel.sh $(BUILD)/guest
	@$(STEP) kernel-vgpu_drv "building the guest driver" $(call sub,$@,module)
