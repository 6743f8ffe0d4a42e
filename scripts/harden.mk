# SPDX-License-Identifier: MIT
# What the parts that a guest's bytes reach are hardened with: the software GPU, the broker, the worker. What each
# costs: docs/results/hardening.md. Empty with a sanitizer, which does more (EXTRA_CFLAGS or HARDEN=, scripts/san.sh).
#
# HARDEN_STACK   a canary in functions with arrays; checked lengths in the C library's functions
# HARDEN_PROBE   a frame larger than a page touches each page: it cannot reach over the one that guards a stack
# HARDEN_BOUNDS  an index beyond an array of known length traps (gcc 12 knows the older spelling only)
# HARDEN_CET     shadow stacks; and for programs of their own landing pads, which native code does not have
# HARDEN_LINK    nothing that was relocated stays writable
ifeq ($(findstring -fsanitize,$(EXTRA_CFLAGS)),)
HARDEN_STACK := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
HARDEN_BOUNDS := -fsanitize=bounds -fsanitize-undefined-trap-on-error
ifeq ($(shell uname -m),x86_64)
HARDEN_PROBE := -fstack-clash-protection
HARDEN_CET := -fcf-protection=full
HARDEN_CET_NATIVE := -fcf-protection=return
endif
endif
HARDEN_LINK := -Wl,-z,relro,-z,now
