# SPDX-License-Identifier: MIT
# The PTX front end and interpreter. Included by the Makefile of this folder, which defines O
# (absolute build directory), CFLAGS and the pattern rule for ordinary objects.
#
# Handlers are compiled by clang when it is there: its loops over 32 lanes are 2-3 times faster
# than those of gcc 12. Each variant of the instruction set is one compilation of the same files.

.DEFAULT_GOAL := all
SG_EXEC_DIR := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))

SG_EXEC_C := \
	base/grow.c \
	exec/access.c \
	exec/block.c \
	exec/cta.c \
	exec/fetch.c \
	exec/heap.c \
	exec/pool.c \
	exec/printf.c \
	exec/profile.c \
	exec/together.c \
	exec/types.c \
	exec/verify.c \
	exec/verify_units.c \
	exec/warp.c \
	jit/avx2/compare.c \
	jit/avx2/fork.c \
	jit/avx2/lower.c \
	jit/avx2/masks.c \
	jit/avx2/move.c \
	jit/avx2/registers.c \
	jit/avx2/width.c \
	jit/avx2/windows.c \
	jit/code_memory.c \
	jit/compile.c \
	jit/flow.c \
	jit/memory/global_checks.c \
	jit/liveness.c \
	jit/matrix_ops.c \
	jit/memory/memory_ops.c \
	jit/memory/global_loads.c \
	jit/memory/affine.c \
	jit/memory/affine_code.c \
	jit/memory/sums.c \
	jit/ops.c \
	jit/ops_approx.c \
	jit/ops_compare.c \
	jit/ops_float.c \
	jit/ops_half.c \
	jit/registers.c \
	jit/schedule.c \
	jit/table.c \
	jit/memory/shared_ops.c \
	jit/memory/small_stores.c \
	jit/memory/windows.c \
	memory/grace.c \
	ptx/body.c \
	ptx/calls.c \
	ptx/canonical.c \
	ptx/code.c \
	ptx/cubin.c \
	ptx/declarations.c \
	ptx/emit.c \
	ptx/flow.c \
	ptx/forms.c \
	ptx/header.c \
	ptx/hoist/hoist.c \
	ptx/hoist/low_bits.c \
	ptx/hoist/uniform.c \
	ptx/constant.c \
	ptx/initialisers.c \
	ptx/kernel.c \
	ptx/lex.c \
	ptx/link.c \
	ptx/module.c \
	ptx/operands.c \
	ptx/scope.c \
	ptx/source.c \
	ptx/select/bulk.c \
	ptx/select/cdp.c \
	ptx/select/control.c \
	ptx/select/float.c \
	ptx/select/graph.c \
	ptx/select/integer.c \
	ptx/select/mbarrier.c \
	ptx/select/move.c \
	ptx/select/space.c \
	ptx/select/memory.c \
	ptx/select/mma.c \
	ptx/select/pair.c \
	ptx/select/texture.c \
	ptx/select/video.c \
	ptx/select/warp.c
# handlers compiled once
SG_EXEC_OPS := \
	exec/ops/atom.c \
	exec/ops/bulk.c \
	exec/cdp/launch.c \
	exec/cdp/memory.c \
	exec/cdp/query.c \
	exec/ops/cluster.c \
	exec/ops/control.c \
	exec/ops/convert.c \
	exec/ops/graph.c \
	exec/ops/mma_rare.c \
	exec/table/registry.c \
	exec/ops/rare.c \
	exec/ops/surface.c \
	exec/ops/texture.c \
	exec/ops/warp.c
# handlers compiled per instruction set
SG_EXEC_ISA_OPS := \
	exec/ops/float.c \
	exec/ops/half.c \
	exec/ops/integer.c \
	exec/ops/matrix.c \
	exec/ops/memory.c \
	exec/ops/mma.c

SG_EXEC_MACHINE := $(shell uname -m)
SG_EXEC_ISAS := base
ifeq ($(SG_EXEC_MACHINE),x86_64)
SG_EXEC_ISAS += avx2 avx512
SG_EXEC_CFLAGS := -DSG_HAVE_AVX2 -DSG_HAVE_AVX512
else
SG_EXEC_CFLAGS :=
endif
SG_EXEC_ISA_avx2 := -mavx2 -mfma -mf16c -mbmi -mbmi2
SG_EXEC_ISA_avx512 := $(SG_EXEC_ISA_avx2) -mavx512f -mavx512vl -mavx512bw -mavx512dq \
	-mprefer-vector-width=512

SG_EXEC_CC ?= $(shell command -v clang 2>/dev/null || echo $(CC))
# Floating point as written: no contraction, no errno; slots are read as several types.
SG_EXEC_OPFLAGS := -O2 -std=gnu11 -fPIC -fvisibility=hidden $(WARNINGS) \
	-fno-strict-aliasing -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv -pthread $(HARDEN_PROBE) $(HARDEN_CET_NATIVE) -I$(SG_EXEC_DIR)
ifneq ($(findstring clang,$(SG_EXEC_CC)),)
SG_EXEC_OPFLAGS += -Wno-pass-failed
else
SG_EXEC_OPFLAGS += -O3
endif

# The variants are objects of their own: sg_exec_ops_int_avx2.o comes from exec/ops/integer.c.
SG_EXEC_SRCS := $(SG_EXEC_C) $(SG_EXEC_OPS) \
	$(foreach i,$(SG_EXEC_ISAS),$(SG_EXEC_ISA_OPS:%.c=%_$(i).c))
SG_EXEC_OBJS := $(SG_EXEC_SRCS:%.c=$(O)/%.o) $(O)/lib/btree/btree.o

$(SG_EXEC_OPS:%.c=$(O)/%.o): $(O)/%.o: $(SG_EXEC_DIR)/%.c
	@mkdir -p $(@D)
	$(SG_EXEC_CC) $(SG_EXEC_OPFLAGS) $(SG_EXEC_CFLAGS) -MMD -MP -c -o $@ $<

define sg_exec_isa_rule
$(SG_EXEC_ISA_OPS:%.c=$(O)/%_$(1).o): $(O)/%_$(1).o: $(SG_EXEC_DIR)/%.c
	@mkdir -p $$(@D)
	$$(SG_EXEC_CC) $$(SG_EXEC_OPFLAGS) $$(SG_EXEC_CFLAGS) $$(SG_EXEC_ISA_$(1)) -DSG_ISA=$(1) \
		-MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(SG_EXEC_ISAS),$(eval $(call sg_exec_isa_rule,$(i))))

# ---- tests, and the tool that lists what a PTX file needs ----

# Sources of test programs; each program lies in $(O) under the last part of its name.
SG_EXEC_TESTS := \
	exec/call_test \
	exec/cdp_test \
	exec/fault_test \
	exec/format_test \
	exec/heap_test \
	exec/nvcc_test \
	exec/order_test \
	exec/profile_test \
	exec/residue_test \
	exec/rows_test \
	exec/run_test \
	exec/sync_test \
	exec/verify_test \
	exec/ops/bulk_test \
	exec/ops/cluster_test \
	exec/ops/ldst_test \
	exec/ops/matrix_test \
	exec/ops/mma_rare_test \
	exec/ops/op_float_test \
	exec/ops/op_test \
	jit/code_memory_test \
	jit/complete_test \
	jit/native_test \
	jit/pressure_test \
	jit/memory/affine_test \
	jit/memory/halves_test \
	jit/memory/windows_test \
	jit/memory/sums_test \
	ptx/canonical_test \
	ptx/class_test \
	ptx/constant_test \
	ptx/lex_test \
	ptx/sizes_test \
	ptx/cubin_test \
	ptx/fuzz_test \
	ptx/link_test \
	ptx/place_test \
	ptx/hoist/low_bits_test \
	ptx/scope_test \
	ptx/size_test \
	ptx/source_test \
	ptx/work_test
# Links to them that use another instruction set (t_variant): the plain ones test native code.
SG_EXEC_ISA_TESTS := verify_native_test cluster_avx512_test fault_avx512_test run_avx512_test ldst_base_test ldst_avx2_test \
	$(foreach i,base avx2 avx512,op_$(i)_test op_float_$(i)_test canonical_$(i)_test) \
	$(foreach t,op op_float canonical run rows fault cluster ldst matrix windows halves sums affine native pressure,$(t)_native_avx2_test) \
	$(foreach t,op op_float canonical halves native,$(t)_native_avx512_test)
SG_EXEC_TEST_NAMES := $(sort $(notdir $(SG_EXEC_TESTS)) $(SG_EXEC_ISA_TESTS))
SG_EXEC_NVCC := $(wildcard $(CUDA_HOME)/bin/nvcc)
SG_EXEC_TEST_ARCHS := 75 80 90
SG_EXEC_TEST_PTX := $(if $(SG_EXEC_NVCC),$(SG_EXEC_TEST_ARCHS:%=$(O)/basic_%.ptx) \
	$(O)/matrix_80.ptx)
SG_SASS_TEST_CUBIN := $(if $(SG_EXEC_NVCC),$(foreach a,75 80 90 120,$(O)/meta_$(a).cubin))

$(O)/exec/ops/op_test.o $(O)/exec/ops/op_float_test.o: SG_CFLAGS += -frounding-math -ffp-contract=off
$(O)/jit/code_memory_test.o $(O)/jit/complete_test.o $(O)/jit/native_test.o $(O)/jit/pressure_test.o $(O)/jit/memory/windows_test.o $(O)/jit/memory/halves_test.o $(O)/jit/memory/sums_test.o $(O)/jit/memory/affine_test.o: SG_CFLAGS += $(SG_EXEC_CFLAGS)

define sg_exec_test_rule
$(O)/$(notdir $(1)): $(O)/$(1).o $(O)/exec/exec_test.o $(SG_EXEC_OBJS)
	$$(CC) -o $$@ $$(LDFLAGS) $$^ -lm -pthread
endef
$(foreach t,$(SG_EXEC_TESTS),$(eval $(call sg_exec_test_rule,$(t))))

$(O)/op_base_test $(O)/op_avx2_test $(O)/op_avx512_test: $(O)/op_test
	ln -sf op_test $@
$(O)/op_float_base_test $(O)/op_float_avx2_test $(O)/op_float_avx512_test: $(O)/op_float_test
	ln -sf op_float_test $@
$(O)/canonical_base_test $(O)/canonical_avx2_test $(O)/canonical_avx512_test: $(O)/canonical_test
	ln -sf canonical_test $@
$(O)/run_avx512_test: $(O)/run_test
	ln -sf run_test $@
$(O)/fault_avx512_test: $(O)/fault_test
	ln -sf fault_test $@
$(O)/%_native_avx2_test: $(O)/%_test
	ln -sf $*_test $@
$(O)/%_native_avx512_test: $(O)/%_test
	ln -sf $*_test $@
$(O)/verify_test: LDFLAGS += -Wl,--wrap=sg_code_verify
$(O)/verify_test: $(addprefix $(O)/exec/,damage_test.o guard_test.o)
$(O)/complete_test: $(O)/exec/guard_test.o
$(O)/verify_native_test: $(O)/verify_test
	ln -sf verify_test $@
$(O)/cluster_avx512_test: $(O)/cluster_test
	ln -sf cluster_test $@
$(O)/ldst_avx2_test $(O)/ldst_base_test: $(O)/ldst_test
	ln -sf ldst_test $@
$(O)/exec/ops/ldst_test.o: SG_CFLAGS += -DSG_SPELLINGS='"$(SG_EXEC_DIR)/tests-ptx/spellings.txt"'

$(O)/nvcc_test: | $(SG_EXEC_TEST_PTX)
$(O)/basic_%.ptx: $(SG_EXEC_DIR)/tests-ptx/basic.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/cubin_test: | $(SG_SASS_TEST_CUBIN)
$(O)/meta_%.cubin: $(SG_EXEC_DIR)/tests-ptx/meta.cu | $(O)
	$(SG_EXEC_NVCC) -cubin -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/call_test: | $(if $(SG_EXEC_NVCC),$(O)/recursion_80.ptx)
$(O)/bulk_test: | $(if $(SG_EXEC_NVCC),$(O)/hopper_90.ptx)
$(O)/hopper_%.ptx: $(SG_EXEC_DIR)/tests-ptx/hopper.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -std=c++17 -Wno-deprecated-gpu-targets -diag-suppress 20054 \
		-arch=sm_$* -o $@ $<
$(O)/cluster_test: | $(if $(SG_EXEC_NVCC),$(O)/hopper_90.ptx)
$(O)/mma_rare_test: | $(if $(SG_EXEC_NVCC),$(O)/rare_90.ptx)
$(O)/rare_%.ptx: $(SG_EXEC_DIR)/tests-ptx/rare.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/recursion_%.ptx: $(SG_EXEC_DIR)/tests-ptx/recursion.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/matrix_%.ptx: $(SG_EXEC_DIR)/tests-ptx/matrix.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<

.PHONY: sg_ptxrun
sg_ptxrun: $(O)/sg_ptxrun
$(O)/sg_ptxrun: $(O)/ptx/ptxrun.o $(SG_EXEC_OBJS)
	$(CC) -o $@ $(LDFLAGS) $^ -lm -pthread

# Front end and interpreter for programs of tests/, which bring sg_mem_check() and sg_mem_generation.
.PHONY: sg_exec_archive
sg_exec_archive: $(O)/libsg-exec.a
# q and not r: files of two folders may have the same name.
$(O)/libsg-exec.a: $(SG_EXEC_OBJS)
	rm -f $@
	ar qcs $@ $^
