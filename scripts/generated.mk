# SPDX-License-Identifier: MIT
# Included by Makefiles that use code generated from protocol/cuda_calls.def: GEN is its folder, brought up to date
# before anything else is done. It is the same for every build folder (O): the description has one meaning. Where the tree
# cannot be written to: make GEN=FOLDER O=FOLDER.
GEN_TREE := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))/..)
GEN := $(GEN_TREE)/build/generated
ifneq ($(filter-out clean,$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell sh $(GEN_TREE)/scripts/generate.sh $(GEN) && echo done),done)
$(error the code of the calls is not generated)
endif
endif
# Objects that an older version of the tree has built depend on the folder where this code was committed.
$(GEN_TREE)/protocol/generated/% $(GEN_TREE)/host/softgpu/api/generated/%: ;
