# SPDX-License-Identifier: MIT
# The PTX front end and interpreter. Included by the Makefile of this folder, which defines O
# (absolute build directory), CFLAGS and the pattern rule for ordinary objects.
#
# Handlers are compiled by clang when it is there: its loops over 32 lanes are 2-3 times faster
# than those of gcc 12. Each variant of the instruction set is one compilation of the same files.

.DEFAULT_GOAL := all
SG_EXEC_DIR := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))

SG_EXEC_C := \
	base/sg_grow.c \
	exec/sg_access.c \
	exec/sg_block.c \
	exec/sg_cta.c \
	exec/sg_fetch.c \
	exec/sg_heap.c \
	exec/sg_pool.c \
	exec/sg_printf.c \
	exec/sg_profile.c \
	exec/sg_together.c \
	exec/sg_types.c \
	exec/sg_verify.c \
	exec/sg_verify_units.c \
	exec/sg_warp.c \
	jit/avx2/sg_avx2_compare.c \
	jit/avx2/sg_avx2_fork.c \
	jit/avx2/sg_avx2_lower.c \
	jit/avx2/sg_avx2_masks.c \
	jit/avx2/sg_avx2_move.c \
	jit/avx2/sg_avx2_operands.c \
	jit/avx2/sg_avx2_registers.c \
	jit/avx2/sg_avx2_width.c \
	jit/avx2/sg_avx2_windows.c \
	jit/sg_jit_base.c \
	jit/sg_jit_block.c \
	jit/sg_jit_code_memory.c \
	jit/sg_jit_compile.c \
	jit/sg_jit_flow.c \
	jit/memory/sg_jit_access.c \
	jit/memory/sg_jit_global_checks.c \
	jit/sg_jit_late.c \
	jit/sg_jit_liveness.c \
	jit/sg_jit_matrix_ops.c \
	jit/memory/sg_jit_memory_ops.c \
	jit/memory/sg_jit_global_loads.c \
	jit/memory/sg_jit_affine.c \
	jit/memory/sg_jit_affine_code.c \
	jit/memory/sg_jit_sums.c \
	jit/memory/sg_jit_sum_ops.c \
	jit/sg_jit_ops.c \
	jit/sg_jit_ops_approx.c \
	jit/sg_jit_ops_compare.c \
	jit/sg_jit_ops_float.c \
	jit/sg_jit_ops_half.c \
	jit/sg_jit_registers.c \
	jit/sg_jit_schedule.c \
	jit/sg_jit_settled.c \
	jit/sg_jit_stubs.c \
	jit/sg_jit_table.c \
	jit/memory/sg_jit_shared_ops.c \
	jit/memory/sg_jit_small_stores.c \
	jit/memory/sg_jit_windows.c \
	memory/sg_grace.c \
	memory/sg_tensor_map.c \
	ptx/sg_ptx_body.c \
	ptx/sg_ptx_calls.c \
	ptx/sg_ptx_canonical.c \
	ptx/sg_ptx_code.c \
	ptx/sg_ptx_cubin.c \
	ptx/sg_ptx_declarations.c \
	ptx/sg_ptx_emit.c \
	ptx/sg_ptx_flow.c \
	ptx/sg_ptx_forms.c \
	ptx/sg_ptx_header.c \
	ptx/hoist/sg_ptx_hoist.c \
	ptx/hoist/sg_ptx_low_bits.c \
	ptx/hoist/sg_ptx_hoist_operands.c \
	ptx/hoist/sg_ptx_uniform.c \
	ptx/sg_ptx_constant.c \
	ptx/sg_ptx_initialisers.c \
	ptx/sg_ptx_kernel.c \
	ptx/sg_ptx_lex.c \
	ptx/sg_ptx_link.c \
	ptx/sg_ptx_module.c \
	ptx/sg_ptx_operands.c \
	ptx/sg_ptx_scope.c \
	ptx/sg_ptx_source.c \
	ptx/select/sg_select_access.c \
	ptx/select/sg_select_arguments.c \
	ptx/select/sg_select_atom.c \
	ptx/select/sg_select_bulk.c \
	ptx/select/sg_select_cdp.c \
	ptx/select/sg_select_control.c \
	ptx/select/sg_select_families.c \
	ptx/select/sg_select_float.c \
	ptx/select/sg_select_graph.c \
	ptx/select/sg_select_integer.c \
	ptx/select/sg_select_mbarrier.c \
	ptx/select/sg_select_move.c \
	ptx/select/sg_select_space.c \
	ptx/select/sg_select_memory.c \
	ptx/select/matrix/sg_select_mma.c \
	ptx/select/matrix/sg_select_mma_operands.c \
	ptx/select/matrix/sg_select_mma_wide.c \
	ptx/select/sg_select_pair.c \
	ptx/select/matrix/sg_select_tcgen05.c \
	ptx/select/sg_select_tensor.c \
	ptx/select/sg_select_texture.c \
	ptx/select/sg_select_video.c \
	ptx/select/sg_select_warp.c \
	ptx/select/matrix/sg_select_wgmma.c
# handlers compiled once
SG_EXEC_OPS := \
	exec/ops/sg_op_atom.c \
	exec/ops/sg_op_bulk.c \
	exec/cdp/sg_cdp_children.c \
	exec/cdp/sg_cdp_launch.c \
	exec/cdp/sg_cdp_memory.c \
	exec/cdp/sg_cdp_query.c \
	exec/cdp/sg_cdp_tree.c \
	exec/ops/sg_op_cluster.c \
	exec/ops/sg_op_control.c \
	exec/ops/sg_op_convert.c \
	exec/ops/sg_op_graph.c \
	exec/ops/sg_op_mma_rare.c \
	exec/table/sg_registry.c \
	exec/ops/sg_op_rare.c \
	exec/ops/sg_op_surface.c \
	exec/tensor/sg_box.c \
	exec/tensor/sg_op_tensor.c \
	exec/tcgen05/sg_tcgen05_memory.c \
	exec/ops/sg_op_texture.c \
	exec/ops/sg_op_warp.c
# handlers compiled per instruction set
SG_EXEC_ISA_OPS := \
	exec/ops/sg_op_float.c \
	exec/ops/sg_op_half.c \
	exec/ops/sg_op_integer.c \
	exec/ops/sg_op_matrix.c \
	exec/ops/sg_op_memory.c \
	exec/ops/sg_op_mma.c \
	exec/tcgen05/sg_tcgen05_product.c \
	exec/wgmma/sg_wgmma.c

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

# The variants are objects of their own: sg_exec_ops_int_avx2.o comes from exec/ops/sg_op_integer.c.
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
	exec/ops/cancel_test \
	exec/ops/cluster_test \
	exec/ops/ldst_test \
	exec/ops/matrix_test \
	exec/ops/mma_rare_test \
	exec/ops/mma_wide_test \
	exec/ops/op_float_test \
	exec/ops/op_test \
	exec/wgmma/wgmma_match_test \
	exec/tcgen05/product_test \
	exec/tcgen05/tcgen05_test \
	exec/wgmma/wgmma_test \
	exec/tensor/tensor_test \
	jit/code_memory_test \
	jit/complete_test \
	jit/late_test \
	jit/native_test \
	jit/natives_test \
	jit/pressure_test \
	jit/memory/affine_test \
	jit/memory/halves_test \
	jit/memory/windows_test \
	jit/memory/settled_test \
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
	ptx/selected_test \
	ptx/size_test \
	ptx/source_test \
	ptx/work_test
# Links to them that use another instruction set (t_variant): the plain ones test native code.
SG_EXEC_ISA_TESTS := verify_native_test cancel_avx512_test cluster_avx512_test fault_avx512_test run_avx512_test ldst_base_test ldst_avx2_test \
	$(foreach i,base avx2 avx512,op_$(i)_test op_float_$(i)_test canonical_$(i)_test wgmma_$(i)_test wgmma_match_$(i)_test product_$(i)_test) \
	$(foreach t,op op_float canonical run rows fault cancel cluster ldst matrix windows halves sums settled affine native pressure late,$(t)_native_avx2_test) \
	$(foreach t,op op_float canonical halves native,$(t)_native_avx512_test)
SG_EXEC_TEST_NAMES := $(sort $(notdir $(SG_EXEC_TESTS)) $(SG_EXEC_ISA_TESTS))
SG_EXEC_NVCC := $(wildcard $(CUDA_HOME)/bin/nvcc)
SG_EXEC_TEST_ARCHS := 75 80 90
SG_EXEC_TEST_PTX := $(if $(SG_EXEC_NVCC),$(SG_EXEC_TEST_ARCHS:%=$(O)/basic_%.ptx) \
	$(O)/matrix_80.ptx)
SG_SASS_TEST_CUBIN := $(if $(SG_EXEC_NVCC),$(foreach a,75 80 90 120,$(O)/meta_$(a).cubin))

$(O)/exec/ops/op_test.o $(O)/exec/ops/op_float_test.o: SG_CFLAGS += -frounding-math -ffp-contract=off
$(O)/jit/code_memory_test.o $(O)/jit/complete_test.o $(O)/jit/late_test.o $(O)/jit/native_test.o $(O)/jit/natives_test.o $(O)/jit/pressure_test.o $(O)/jit/memory/windows_test.o $(O)/jit/memory/halves_test.o $(O)/jit/memory/settled_test.o $(O)/jit/memory/sums_test.o $(O)/jit/memory/affine_test.o: SG_CFLAGS += $(SG_EXEC_CFLAGS)

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
$(O)/product_base_test $(O)/product_avx2_test $(O)/product_avx512_test: $(O)/product_test
	ln -sf product_test $@
$(O)/wgmma_base_test $(O)/wgmma_avx2_test $(O)/wgmma_avx512_test: $(O)/wgmma_test
	ln -sf wgmma_test $@
$(O)/wgmma_match_base_test $(O)/wgmma_match_avx2_test $(O)/wgmma_match_avx512_test: $(O)/wgmma_match_test
	ln -sf wgmma_match_test $@
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
$(O)/cancel_avx512_test: $(O)/cancel_test
	ln -sf cancel_test $@
$(O)/ldst_avx2_test $(O)/ldst_base_test: $(O)/ldst_test
	ln -sf ldst_test $@
$(O)/selected_test: LDFLAGS += -Wl,--wrap=sg_op_row
$(O)/ptx/selected_test.o: SG_CFLAGS += -DSG_OPERATIONS='"$(SG_EXEC_DIR)/tests-ptx/operations.txt"'
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
$(O)/wgmma_test: | $(if $(SG_EXEC_NVCC),$(O)/warpgroup_90a.ptx)
$(O)/warpgroup_%.ptx: $(SG_EXEC_DIR)/tests-ptx/warpgroup.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -std=c++17 -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
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
$(O)/sg_ptxrun: $(O)/ptx/sg_ptx_ptxrun.o $(SG_EXEC_OBJS)
	$(CC) -o $@ $(LDFLAGS) $^ -lm -pthread

# Front end and interpreter for programs of tests/, which bring sg_mem_check() and sg_mem_generation.
.PHONY: sg_exec_archive
sg_exec_archive: $(O)/libsg-exec.a
# q and not r: files of two folders may have the same name.
$(O)/libsg-exec.a: $(SG_EXEC_OBJS)
	rm -f $@
	ar qcs $@ $^
