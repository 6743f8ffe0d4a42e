# SPDX-License-Identifier: GPL-2.0-or-later
# Device configuration for --without-default-devices: what a virtual machine with vgpu-cuda needs.
CONFIG_Q35=y
CONFIG_MICROVM=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_9P=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_RNG=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_VHOST_USER_BLK=y
CONFIG_VHOST_USER_FS=y
CONFIG_ISA_DEBUG=y
CONFIG_VGPU_CUDA=y
