#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# run.sh O: runs the device tests with the QEMU and the fake broker built in O.
exec /usr/bin/python3 -B "$(dirname "$0")/device_test.py" "$@"
