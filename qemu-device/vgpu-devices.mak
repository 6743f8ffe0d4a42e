# SPDX-License-Identifier: GPL-2.0-or-later
# Device configuration for --without-default-devices: what a virtual machine with vgpu-cuda needs; virtio-gpu is for tests
# of its buffers and syncobjs (tests/system/boot).
CONFIG_Q35=y
CONFIG_PCIE_PORT=y
CONFIG_MICROVM=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_9P=y
CONFIG_VIRTIO_BALLOON=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_GPU=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_RNG=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_VHOST_USER_BLK=y
CONFIG_VHOST_USER_FS=y
CONFIG_ISA_DEBUG=y
CONFIG_VGA_PCI=y
CONFIG_USB_XHCI_PCI=y
CONFIG_VGPU_CUDA=y
