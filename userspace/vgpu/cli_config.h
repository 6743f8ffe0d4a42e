/* SPDX-License-Identifier: MIT */
/* The choices of Kconfig that the vgpu command uses, with the same defaults for a build without it. */
#ifndef VGPU_CLI_CONFIG_H
#define VGPU_CLI_CONFIG_H

#if __has_include("config.h")
#include "config.h"
#endif

#ifdef CONFIG_VGPU_GPU
#define VGPU_CLI_GPU CONFIG_VGPU_GPU
#else
#define VGPU_CLI_GPU "auto"
#endif

#ifdef CONFIG_VGPU_GUEST_MEMORY_MB
#define VGPU_CLI_MEMORY_MB CONFIG_VGPU_GUEST_MEMORY_MB
#else
#define VGPU_CLI_MEMORY_MB 2048
#endif

#ifdef CONFIG_VGPU_GUEST_CPUS
#define VGPU_CLI_CPUS CONFIG_VGPU_GUEST_CPUS
#else
#define VGPU_CLI_CPUS 2
#endif

#define VGPU_CLI_VERSION "0.1"
#define VGPU_CLI_STRING_(x) #x
#define VGPU_CLI_STRING(x) VGPU_CLI_STRING_(x)

#endif
