/* SPDX-License-Identifier: GPL-2.0-only */
/* Common setup of the vgpu_client* suites: a device of vgpu_fake.h and an open client. */
#ifndef VGPU_CLIENT_ENV_H
#define VGPU_CLIENT_ENV_H

#include "vgpu_fake.h"

/**
 * struct vgpu_client_env - the type of test->priv
 * @fake: the device
 * @dev: the driver's side of it
 * @client: open, before CREATE. NULL: closed by the case.
 * @timeout_ms: the module parameter before the case
 */
struct vgpu_client_env {
	struct vgpu_fake *fake;
	struct vgpu_dev *dev;
	struct vgpu_client *client;
	unsigned int timeout_ms;
};

int vgpu_client_env_init(struct kunit *test);
void vgpu_client_env_exit(struct kunit *test);
int vgpu_client_env_create(struct vgpu_client *client);
int vgpu_client_env_unpin(struct vgpu_client *client, u32 region);
bool vgpu_client_env_unpinned(void);
struct vgpu_client *vgpu_client_env_other(struct kunit *test);

#endif
