/* SPDX-License-Identifier: MIT */
/* The images that nvcc made of kernels.cu, as data; the assembler's include path names the folder. */
        .section .rodata
        .macro blob name, file, term
        .balign 64
        .globl \name
        .globl \name\()_end
\name:  .incbin "\file"
\name\()_end:
        .byte 0
        .endm
        blob cf_ptx, "kernels.ptx"
        blob cf_fatbin, "kernels.fatbin"
        blob cf_sass, "sass.fatbin"
        blob cf_cubin, "sass.cubin"
        blob cf_object, "device.o"
        blob cf_archive, "device.a"
        .section .note.GNU-stack,"",%progbits
