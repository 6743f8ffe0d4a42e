/* SPDX-License-Identifier: MIT */
/*
 * Text from a recording, or its worker, is made harmless for display: its author is not trusted by
 * the user who replays it.
 */
#include <stdlib.h>
#include <string.h>

#include "../../../userspace/vgpu/replay/replay.h"

static int passed, failed;

static void result(const char *name, bool good)
{
    printf("%s%s\n", good ? "ok - " : "FAIL: ", name);
    if (good)
        passed++;
    else
        failed++;
}

static bool is_text(const char *text)
{
    for (; *text; text++) {
        if (*text != '\n' && ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e))
            return false;
    }
    return true;
}

int main(void)
{
    static struct replay_run r;
    char *shown = NULL;
    size_t size;

    r.options.out = open_memstream(&shown, &size);
    r.options.show = 10;
    r.text[0] = strdup("recorded \033]0;x\a\x9b\xe2\x80\xae\n");
    r.text_size[0] = strlen(r.text[0]);
    replay_differs(&r, 1, VGP_vgpPing, "the worker has ended: %s", "\033[2J");
    replay_print(&r);
    fclose(r.options.out);
    result("both are shown", strstr(shown, "recorded \"recorded ?]0;x?") && strstr(shown, "ended: ?[2J"));
    result("words of a recording are text", is_text(shown));
    free(shown);
    free(r.text[0]);
    printf("replay_print: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
