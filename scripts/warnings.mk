# SPDX-License-Identifier: MIT
# The warnings that all C code is compiled with; cuda.mk includes this file.
#
# gcc 14 refuses the first three kinds, older compilers only warn of them: errors with every compiler. VGPU_WERROR=1
# makes each warning an error. `make check`, `make test` and `make lint` set it; a build for use does not, since a
# compiler that is newer than this release may know further warnings.
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes \
	-Werror=implicit-function-declaration -Werror=incompatible-pointer-types -Werror=int-conversion \
	$(if $(filter 1,$(VGPU_WERROR)),-Werror)
