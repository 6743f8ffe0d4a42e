# SPDX-License-Identifier: MIT
# Included by Makefiles that use code generated from protocol/cuda_calls.def: GEN is its folder, brought up to date
# before anything else is done. It is the same for every build folder (O): the description has one meaning.
GEN := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))/../build/generated)
ifeq ($(filter clean,$(MAKECMDGOALS)),)
ifneq ($(shell sh $(dir $(lastword $(MAKEFILE_LIST)))generate.sh $(GEN) && echo done),done)
$(error the code of the calls is not generated)
endif
endif
# Objects that an older version of the tree has built depend on the folder where this code was committed.
$(abspath $(GEN)/../../protocol/generated)/% $(abspath $(GEN)/../../host/softgpu/api/generated)/%: ;
