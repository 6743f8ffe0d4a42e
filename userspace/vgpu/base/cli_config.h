/* SPDX-License-Identifier: MIT */
/* Kconfig options used by the vgpu command, with the same defaults for a build without Kconfig. */
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

/* Without a config.h, and unless Kconfig disables it, workers drop their privileges. */
#if defined(VGPU_CONFIG_H) && !defined(CONFIG_VGPU_SANDBOX)
#define VGPU_CLI_SANDBOX 0
#else
#define VGPU_CLI_SANDBOX 1
#endif

#define VGPU_CLI_VERSION "0.1.0"
#define VGPU_CLI_STRING_(x) #x
#define VGPU_CLI_STRING(x) VGPU_CLI_STRING_(x)

/* Settings of the software GPU, in the form of its environment variables; "" = its own default. */
#if defined(CONFIG_VGPU_SOFT_THREADS) && CONFIG_VGPU_SOFT_THREADS > 0
#define VGPU_CLI_SOFT_THREADS VGPU_CLI_STRING(CONFIG_VGPU_SOFT_THREADS)
#else
#define VGPU_CLI_SOFT_THREADS ""
#endif

#ifdef CONFIG_VGPU_SOFT_MEMORY_MB
#define VGPU_CLI_SOFT_MEMORY VGPU_CLI_STRING(CONFIG_VGPU_SOFT_MEMORY_MB) "M"
#else
#define VGPU_CLI_SOFT_MEMORY ""
#endif

#ifdef CONFIG_VGPU_SOFT_CC
#define VGPU_CLI_SOFT_CC CONFIG_VGPU_SOFT_CC
#else
#define VGPU_CLI_SOFT_CC ""
#endif

#endif
