# SPDX-License-Identifier: MIT
# The PTX front end and interpreter. Included by the Makefile of this folder, which defines O
# (absolute build directory), CFLAGS and the pattern rule for ordinary objects.
#
# Handlers are compiled by clang when it is there: its loops over 32 lanes are 2-3 times faster
# than those of gcc 12. Each variant of the instruction set is one compilation of the same files.

.DEFAULT_GOAL := all
SG_EXEC_DIR := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))

SG_EXEC_C := \
	sg_exec_block.c \
	sg_exec_cta.c \
	sg_exec_mem.c \
	sg_exec_pool.c \
	sg_exec_warp.c \
	sg_heap.c \
	sg_jit.c \
	sg_jit_flow.c \
	sg_jit_live.c \
	sg_jit_mem.c \
	sg_jit_mem_ops.c \
	sg_jit_ops.c \
	sg_jit_ops_cmp.c \
	sg_jit_ops_half.c \
	sg_jit_regs.c \
	sg_jit_shm_ops.c \
	sg_jit_turn.c \
	sg_printf.c \
	sg_profile.c \
	sg_ptx_body.c \
	sg_ptx_call.c \
	sg_ptx_code.c \
	sg_ptx_decl.c \
	sg_ptx_emit.c \
	sg_ptx_flow.c \
	sg_ptx_hoist.c \
	sg_ptx_init.c \
	sg_ptx_kernel.c \
	sg_ptx_lex.c \
	sg_ptx_link.c \
	sg_ptx_module.c \
	sg_ptx_opnd.c \
	sg_ptx_sel_bulk.c \
	sg_ptx_sel_cdp.c \
	sg_ptx_sel_ctl.c \
	sg_ptx_sel_flt.c \
	sg_ptx_sel_graph.c \
	sg_ptx_sel_int.c \
	sg_ptx_sel_mem.c \
	sg_ptx_sel_mma.c \
	sg_ptx_sel_pair.c \
	sg_ptx_sel_tex.c \
	sg_ptx_sel_video.c \
	sg_ptx_sel_warp.c \
	sg_sass.c \
	sg_tex_fetch.c
# handlers compiled once
SG_EXEC_OPS := \
	sg_exec_ops_atom.c \
	sg_exec_ops_bulk.c \
	sg_exec_ops_cdp.c \
	sg_exec_ops_cold.c \
	sg_exec_ops_ctl.c \
	sg_exec_ops_cvt.c \
	sg_exec_ops_graph.c \
	sg_exec_ops_mma2.c \
	sg_exec_ops_surf.c \
	sg_exec_ops_tex.c \
	sg_exec_ops_warp.c
# handlers compiled per instruction set
SG_EXEC_ISA_OPS := \
	sg_exec_ops_flt.c \
	sg_exec_ops_half.c \
	sg_exec_ops_int.c \
	sg_exec_ops_mem.c \
	sg_exec_ops_mma.c

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
SG_EXEC_OPFLAGS := -O2 -std=gnu11 -fPIC -fvisibility=hidden -Wall -Wextra -Wstrict-prototypes \
	-fno-strict-aliasing -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv -pthread
ifneq ($(findstring clang,$(SG_EXEC_CC)),)
SG_EXEC_OPFLAGS += -Wno-pass-failed
else
SG_EXEC_OPFLAGS += -O3
endif

# The variants are objects of their own: sg_exec_ops_int_avx2.o comes from sg_exec_ops_int.c.
SG_EXEC_SRCS := $(SG_EXEC_C) $(SG_EXEC_OPS) \
	$(foreach i,$(SG_EXEC_ISAS),$(SG_EXEC_ISA_OPS:%.c=%_$(i).c))
SG_EXEC_OBJS := $(SG_EXEC_SRCS:%.c=$(O)/%.o)

$(SG_EXEC_OPS:%.c=$(O)/%.o): $(O)/%.o: $(SG_EXEC_DIR)/%.c | $(O)
	$(SG_EXEC_CC) $(SG_EXEC_OPFLAGS) $(SG_EXEC_CFLAGS) -MMD -MP -c -o $@ $<

define sg_exec_isa_rule
$(SG_EXEC_ISA_OPS:%.c=$(O)/%_$(1).o): $(O)/%_$(1).o: $(SG_EXEC_DIR)/%.c | $(O)
	$$(SG_EXEC_CC) $$(SG_EXEC_OPFLAGS) $$(SG_EXEC_CFLAGS) $$(SG_EXEC_ISA_$(1)) -DSG_ISA=$(1) \
		-MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(SG_EXEC_ISAS),$(eval $(call sg_exec_isa_rule,$(i))))

# ---- tests, and the tool that lists what a PTX file needs ----

# The names say what is on: the plain ones test native code where the processor has AVX-512.
SG_EXEC_TESTS := \
	sg_exec_bulk_test \
	sg_exec_call_test \
	sg_exec_cdp_test \
	sg_exec_fault_avx512_test \
	sg_exec_fault_test \
	sg_exec_ldst_avx2_test \
	sg_exec_ldst_base_test \
	sg_exec_ldst_test \
	sg_exec_mat_test \
	sg_exec_mma2_test \
	sg_exec_nvcc_test \
	sg_exec_op_avx2_test \
	sg_exec_op_avx512_test \
	sg_exec_op_base_test \
	sg_exec_op_test \
	sg_exec_opf_avx2_test \
	sg_exec_opf_avx512_test \
	sg_exec_opf_base_test \
	sg_exec_opf_test \
	sg_exec_order_test \
	sg_exec_run_avx512_test \
	sg_exec_run_test \
	sg_exec_sync_test \
	sg_profile_test \
	sg_ptx_fuzz_test \
	sg_ptx_link_test \
	sg_sass_test
SG_EXEC_NVCC := $(wildcard $(CUDA_HOME)/bin/nvcc)
SG_EXEC_TEST_ARCHS := 75 80 90
SG_EXEC_TEST_PTX := $(if $(SG_EXEC_NVCC),$(SG_EXEC_TEST_ARCHS:%=$(O)/basic_%.ptx) \
	$(O)/matrix_80.ptx)
SG_SASS_TEST_CUBIN := $(if $(SG_EXEC_NVCC),$(foreach a,75 80 90 120,$(O)/meta_$(a).cubin))

$(O)/sg_exec_op_test.o $(O)/sg_exec_opf_test.o: SG_CFLAGS += -frounding-math -ffp-contract=off

# Those of another instruction set are links to the plain ones.
SG_EXEC_PLAIN_TESTS := $(filter-out %_avx512_test %_avx2_test %_base_test,$(SG_EXEC_TESTS))
$(SG_EXEC_PLAIN_TESTS:%=$(O)/%): $(O)/%: $(O)/%.o $(O)/sg_exec_test.o $(SG_EXEC_OBJS)
	$(CC) -o $@ $(LDFLAGS) $^ -lm -pthread

$(O)/sg_exec_op_avx512_test $(O)/sg_exec_op_avx2_test $(O)/sg_exec_op_base_test: $(O)/sg_exec_op_test
	ln -sf sg_exec_op_test $@
$(O)/sg_exec_opf_avx512_test $(O)/sg_exec_opf_avx2_test $(O)/sg_exec_opf_base_test: \
		$(O)/sg_exec_opf_test
	ln -sf sg_exec_opf_test $@
$(O)/sg_exec_run_avx512_test: $(O)/sg_exec_run_test
	ln -sf sg_exec_run_test $@
$(O)/sg_exec_fault_avx512_test: $(O)/sg_exec_fault_test
	ln -sf sg_exec_fault_test $@
$(O)/sg_exec_ldst_avx2_test $(O)/sg_exec_ldst_base_test: $(O)/sg_exec_ldst_test
	ln -sf sg_exec_ldst_test $@
$(O)/sg_exec_ldst_test.o: SG_CFLAGS += -DSG_SPELLINGS='"$(SG_EXEC_DIR)/tests-ptx/spellings.txt"'

$(O)/sg_exec_nvcc_test: | $(SG_EXEC_TEST_PTX)
$(O)/basic_%.ptx: $(SG_EXEC_DIR)/tests-ptx/basic.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/sg_sass_test: | $(SG_SASS_TEST_CUBIN)
$(O)/meta_%.cubin: $(SG_EXEC_DIR)/tests-ptx/meta.cu | $(O)
	$(SG_EXEC_NVCC) -cubin -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/sg_exec_call_test: | $(if $(SG_EXEC_NVCC),$(O)/recursion_80.ptx)
$(O)/sg_exec_bulk_test: | $(if $(SG_EXEC_NVCC),$(O)/hopper_90.ptx)
$(O)/hopper_%.ptx: $(SG_EXEC_DIR)/tests-ptx/hopper.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -std=c++17 -Wno-deprecated-gpu-targets -diag-suppress 20054 \
		-arch=sm_$* -o $@ $<
$(O)/sg_exec_mma2_test: | $(if $(SG_EXEC_NVCC),$(O)/rare_90.ptx)
$(O)/rare_%.ptx: $(SG_EXEC_DIR)/tests-ptx/rare.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/recursion_%.ptx: $(SG_EXEC_DIR)/tests-ptx/recursion.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<
$(O)/matrix_%.ptx: $(SG_EXEC_DIR)/tests-ptx/matrix.cu | $(O)
	$(SG_EXEC_NVCC) -ptx -Wno-deprecated-gpu-targets -arch=sm_$* -o $@ $<

.PHONY: sg_ptxrun
sg_ptxrun: $(O)/sg_ptxrun
$(O)/sg_ptxrun: $(O)/sg_ptxrun.o $(SG_EXEC_OBJS)
	$(CC) -o $@ $(LDFLAGS) $^ -lm -pthread

# Front end and interpreter for programs of tests/, which bring sg_mem_check() and sg_mem_generation.
.PHONY: sg_exec_archive
sg_exec_archive: $(O)/libsg-exec.a
$(O)/libsg-exec.a: $(SG_EXEC_OBJS)
	rm -f $@
	ar rcs $@ $^
