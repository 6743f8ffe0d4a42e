// SPDX-License-Identifier: GPL-2.0-only
/* See vgpu_client_env.h. */
#include <linux/delay.h>

#include "vgpu_client_env.h"

/**
 * vgpu_client_env_init - plug a device in and open a client of it
 * @test: the case
 */
int vgpu_client_env_init(struct kunit *test)
{
	struct vgpu_client_env *env = kunit_kzalloc(test, sizeof(*env), GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, env);
	env->timeout_ms = vgpu_timeout_ms;
	env->fake = vgpu_fake_new(test);
	env->fake->ctx = env;
	KUNIT_ASSERT_EQ(test, vgpu_fake_plug(env->fake), 0);
	env->dev = vgpu_fake_dev(env->fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, env->dev);
	env->client = vgpu_client_open(env->dev, NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(env->client));
	test->priv = env;
	return 0;
}

/**
 * vgpu_client_env_exit - undo vgpu_client_env_init()
 * @test: the case
 */
void vgpu_client_env_exit(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;

	if (!env)
		return;
	vgpu_timeout_ms = env->timeout_ms;
	if (env->client)
		vgpu_client_close(env->client);
	vgpu_fake_unplug(env->fake);
}

/**
 * vgpu_client_env_create - CREATE on behalf of a client
 * @client: the client
 */
int vgpu_client_env_create(struct vgpu_client *client)
{
	int err;

	mutex_lock(&client->lock);
	err = vgpu_client_create(client, "test");
	mutex_unlock(&client->lock);
	return err;
}

/**
 * vgpu_client_env_unpin - UNPIN on behalf of a client
 * @client: the client
 * @region: id of a region of @client
 */
int vgpu_client_env_unpin(struct vgpu_client *client, u32 region)
{
	int err;

	mutex_lock(&client->lock);
	err = vgpu_unpin(client, region);
	mutex_unlock(&client->lock);
	return err;
}

/**
 * vgpu_client_env_unpinned - wait until no page of vgpu_fault_memory() is pinned
 *
 * The kernel closes files of kernel threads asynchronously.
 *
 * Return: false if pages are still pinned after ten seconds.
 */
bool vgpu_client_env_unpinned(void)
{
	int i;

	for (i = 0; i < 500 && vgpu_fault_pinned(); i++)
		msleep(20);
	return !vgpu_fault_pinned();
}

/**
 * vgpu_client_env_other - open another client of the case's device, after CREATE
 * @test: the case
 *
 * Return: the client, to be closed by the case.
 */
struct vgpu_client *vgpu_client_env_other(struct kunit *test)
{
	struct vgpu_client_env *env = test->priv;
	struct vgpu_client *client = vgpu_client_open(env->dev, NULL, NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_ASSERT_EQ(test, vgpu_client_env_create(client), 0);
	return client;
}
