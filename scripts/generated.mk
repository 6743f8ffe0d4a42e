# SPDX-License-Identifier: MIT
# Included by Makefiles that use code generated from the description of the calls: GEN is its folder, brought up to date
# before anything else is done. It is the same for every build folder (O): the description has one meaning. Where the tree
# cannot be written to: make GEN=FOLDER O=FOLDER.
GEN_TREE := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))/..)
GEN := $(GEN_TREE)/build/generated
# Description beside the code that it is for, as the generator's options and as files; protocol/ itself names none of it.
CALL_RUNTIME := $(GEN_TREE)/host/backend/worker/window/vgp_worker_rt.h
# Folders of that header and of what it includes.
CALL_RUNTIME_INC := -I$(dir $(CALL_RUNTIME)) -I$(GEN_TREE)/host/backend/common
CALL_SIDES := --entry $(GEN_TREE)/userspace/libcuda/entry/entry.def --worker $(GEN_TREE)/host/backend/worker/calls/calls.def \
	--runtime $(CALL_RUNTIME)
CALL_FILES := $(filter-out --%,$(CALL_SIDES))
SOFTGPU_TABLE := $(GEN_TREE)/host/softgpu/api/entries.def
# Headers of the worker, for statements about its decoders.
WORKER_HEADERS := $(wildcard $(GEN_TREE)/host/backend/common/*.h $(GEN_TREE)/host/backend/worker/*/*.h)
ifneq ($(filter-out clean,$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell sh $(GEN_TREE)/scripts/generate.sh $(GEN) $(SOFTGPU_TABLE) $(CALL_SIDES) && echo done),done)
$(error the code of the calls is not generated)
endif
endif
# Objects that an older version of the tree has built depend on the folder where this code was committed.
$(GEN_TREE)/protocol/generated/% $(GEN_TREE)/host/softgpu/api/generated/%: ;
