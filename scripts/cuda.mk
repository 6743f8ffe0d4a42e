# SPDX-License-Identifier: MIT
# Included by Makefiles that use the CUDA Toolkit: CUDA_HOME, found or fetched by find-cuda.sh. CUDA_NEEDS, set
# before, names the groups of cuda-packages.txt that the folder needs; without those that cannot be had the
# folder's tests say what is not run. WARNINGS comes with it (warnings.mk).
include $(dir $(lastword $(MAKEFILE_LIST)))warnings.mk
ifeq ($(filter clean,$(MAKECMDGOALS)),)
FIND_CUDA := $(dir $(lastword $(MAKEFILE_LIST)))find-cuda.sh
override CUDA_HOME := $(or $(shell CUDA_HOME='$(CUDA_HOME)' $(FIND_CUDA) $(CUDA_NEEDS)),\
	$(if $(CUDA_NEEDS),$(shell CUDA_HOME='$(CUDA_HOME)' $(FIND_CUDA) 2> /dev/null)),\
	$(error no CUDA Toolkit))
export CUDA_HOME
endif
