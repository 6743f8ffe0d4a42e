/* SPDX-License-Identifier: MIT */
/* Compares the worker's replies with the recorded ones and reports the differences. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "replay/replay.h"
#include "base/vgpu_cli.h"
#include "../../../lib/json/json.h"

/* ---- reports ---- */

static void json_line(struct replay_run *r, uint64_t serial, uint16_t call, const char *verdict,
                      const char *text)
{
    FILE *f = r->options.json;

    if (f == NULL)
        return;
    fprintf(f, "{\"type\":\"call\",\"number\":%llu,\"call\":\"%s\",\"verdict\":\"%s\"",
            (unsigned long long)serial, vgp_fields_of(call)->name, verdict);
    if (text != NULL) {
        fputs(",\"text\":", f);
        jsn_print(f, text);
    }
    fputs("}\n", f);
}

void replay_differs(struct replay_run *r, uint64_t serial, uint16_t call, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vgpu_cli_harmless(text); /* the text may contain words of the worker */
    r->totals.different++;
    json_line(r, serial, call, "different", text);
    if (r->totals.shown++ == r->options.show)
        fprintf(r->options.out, "... more differences are counted, not listed (--show)\n");
    else if (r->totals.shown <= r->options.show)
        fprintf(r->options.out, "different: call %llu %s: %s\n", (unsigned long long)serial,
                vgp_fields_of(call)->name, text);
}

static void note_varied(struct replay_run *r, uint16_t call, const char *field)
{
    const char *name = vgp_fields_of(call)->name;
    struct replay_totals *t = &r->totals;

    for (unsigned i = 0; i < t->varied_count; i++) {
        if (t->varied[i].call == name && t->varied[i].field == field) {
            t->varied[i].count++;
            return;
        }
    }
    if (t->varied_count < sizeof(t->varied) / sizeof(t->varied[0]))
        t->varied[t->varied_count++] = (struct replay_varied){name, field, 1};
}

/* ---- bytes ---- */

static bool nearly_equal(const struct replay_options *o, const uint8_t *a, const uint8_t *b, uint64_t left)
{
    double x, y;

    if (o->tolerance == 0)
        return false;
    if (o->doubles) {
        if (left < 8)
            return false;
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
    } else {
        float f, g;

        if (left < 4)
            return false;
        memcpy(&f, a, 4);
        memcpy(&g, b, 4);
        x = f;
        y = g;
    }
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    if (isinf(x) || isinf(y)) /* any number would be within a relative tolerance of infinity */
        return x == y;
    return fabs(x - y) <= o->tolerance * fmax(fabs(x), fabs(y));
}

/* True if the recorded word is an address and the word in this replay is its translation. */
static bool same_place(const struct replay_run *r, const uint8_t *a, const uint8_t *b, uint64_t left)
{
    uint64_t x, y;
    bool known;

    if (left < 8 || !r->map.moved)
        return false;
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    return replay_map_address(&r->map, x, &known) == y && known;
}

static void show_bytes(char *text, size_t room, const uint8_t *b, uint64_t left)
{
    size_t n = 0;
    float f;

    for (uint64_t i = 0; i < left && i < 8; i++)
        n += (size_t)snprintf(text + n, room - n, "%02x", b[i]);
    if (left >= 4) {
        memcpy(&f, b, sizeof(f));
        snprintf(text + n, room - n, " (float %.9g)", (double)f);
    }
}

bool replay_compare_bytes(struct replay_run *r, uint64_t serial, uint16_t call, const char *what,
                          const uint8_t *recorded, const uint8_t *here, uint64_t size)
{
    unsigned grain = r->options.doubles ? 8 : 4;
    uint64_t first = 0, bytes = 0;
    char a[64], b[64];

    if (memcmp(recorded, here, size) == 0)
        return true;
    for (uint64_t at = 0; at < size; at += 8) {
        uint64_t stop = size - at < 8 ? size : at + 8;

        if (memcmp(recorded + at, here + at, stop - at) == 0 ||
            same_place(r, recorded + at, here + at, size - at))
            continue;
        for (uint64_t i = at; i < stop; i += grain) {
            uint64_t n = stop - i < grain ? stop - i : grain;

            if (memcmp(recorded + i, here + i, n) == 0 ||
                nearly_equal(&r->options, recorded + i, here + i, size - i))
                continue;
            if (bytes == 0)
                first = i;
            for (uint64_t k = i; k < i + n; k++)
                bytes += recorded[k] != here[k];
        }
    }
    if (bytes == 0)
        return true;
    while (recorded[first] == here[first])
        first++;
    first &= ~UINT64_C(3); /* an aligned word is easier to read */
    show_bytes(a, sizeof(a), recorded + first, size - first);
    show_bytes(b, sizeof(b), here + first, size - first);
    replay_differs(r, serial, call, "%s: %llu of %llu bytes, first at %llu: recorded %s, here %s", what,
                   (unsigned long long)bytes, (unsigned long long)size, (unsigned long long)first, a, b);
    return false;
}

/* ---- results of a call ---- */

static bool compare_words(struct replay_run *r, const struct replay_event *e, const struct vgp_field *f,
                          const uint8_t *a, const uint8_t *b, uint64_t count)
{
    bool equal = true;

    for (uint64_t i = 0; i < count && equal; i++) {
        uint64_t x, y, to;
        bool known = true;

        memcpy(&x, a + 8 * i, 8);
        memcpy(&y, b + 8 * i, 8);
        if ((x == 0) != (y == 0)) {
            equal = false;
        } else if (f->meaning != VGP_MEANS_ADDR) {
            if (replay_pairs_find(&r->map.handles, x, &to))
                equal = to == y;
            else if (VGP_HANDLE_TYPE(x) != VGP_HANDLE_TYPE(y))
                equal = false;
            else
                replay_map_handle_add(&r->map, x, y);
        } else {
            to = replay_map_address(&r->map, x, &known);
            equal = !known || to == y;
            if (!known && x != y)
                note_varied(r, e->call->call, f->name);
        }
        if (!equal)
            replay_differs(r, e->serial, e->call->call, "%s: recorded %#llx, here %#llx", f->name,
                           (unsigned long long)x, (unsigned long long)y);
    }
    return equal;
}

static void learn_opaque(struct replay_run *r, const uint8_t *recorded, const uint8_t *here, uint64_t size)
{
    struct replay_opaque *grown;

    if (size == 0 || size > sizeof(grown->here) || r->opaque_count > 65536)
        return;
    grown = realloc(r->opaque, (r->opaque_count + 1) * sizeof(*grown));
    if (grown == NULL)
        vgpu_cli_die("out of memory");
    r->opaque = grown;
    grown += r->opaque_count++;
    grown->size = (uint32_t)size;
    memcpy(grown->recorded, recorded, size);
    memcpy(grown->here, here, size);
}

static bool compare_field(struct replay_run *r, const struct replay_event *e, const struct vgp_field *f,
                          const uint8_t *a, uint64_t size_a, const uint8_t *b, uint64_t size_b)
{
    char x[64], y[64];

    if (f->meaning == VGP_MEANS_OPAQUE && size_a == size_b)
        learn_opaque(r, a, b, size_a);
    if (f->meaning == VGP_MEANS_VARIES || f->meaning == VGP_MEANS_OPAQUE) {
        if (size_a != size_b || memcmp(a, b, size_a) != 0)
            note_varied(r, e->call->call, f->name);
        return true;
    }
    if (f->meaning == VGP_MEANS_OBJECTS && size_a != size_b) {
        note_varied(r, e->call->call, f->name);
        size_a = size_b = size_a < size_b ? size_a : size_b;
    }
    if (size_a != size_b) {
        replay_differs(r, e->serial, e->call->call, "%s: recorded %llu bytes, here %llu", f->name,
                       (unsigned long long)size_a, (unsigned long long)size_b);
        return false;
    }
    if ((f->meaning == VGP_MEANS_HANDLE || f->meaning == VGP_MEANS_OBJECTS || f->meaning == VGP_MEANS_ADDR) &&
        f->size == 8)
        return compare_words(r, e, f, a, b, size_a / 8);
    if (f->meaning == VGP_MEANS_WORDS || f->form >= VGP_FORM_ARRAY)
        return replay_compare_bytes(r, e->serial, e->call->call, f->name, a, b, size_a);
    if (memcmp(a, b, size_a) == 0)
        return true;
    if (f->form == VGP_FORM_FIXED && f->size <= 8) {
        uint64_t p = 0, q = 0;

        memcpy(&p, a, size_a);
        memcpy(&q, b, size_b);
        replay_differs(r, e->serial, e->call->call, "%s: recorded %llu, here %llu", f->name,
                       (unsigned long long)p, (unsigned long long)q);
        return false;
    }
    show_bytes(x, sizeof(x), a, size_a);
    show_bytes(y, sizeof(y), b, size_b);
    replay_differs(r, e->serial, e->call->call, "%s: recorded %s, here %s", f->name, x, y);
    return false;
}

/* Finds the bytes of a field in either part of the payload. The worker's reply is no more trusted
 * than the recording. */
static bool locate_field(const struct vgp_field *f, const uint8_t *payload, uint64_t size, uint64_t *at,
                         const uint8_t **bytes, uint64_t *n)
{
    uint32_t count;

    if (f->form < VGP_FORM_ARRAY) {
        *bytes = payload + f->offset;
        *n = f->size;
        return (uint64_t)f->offset + f->size <= size;
    }
    if ((uint64_t)f->offset + 4 > size)
        return false;
    memcpy(&count, payload + f->offset, sizeof(count));
    *n = (uint64_t)count * f->size;
    *bytes = payload + *at;
    if (*at > size || *n > size - *at)
        return false;
    *at += vgp_pad_to_8(*n);
    return true;
}

/*
 * Maps memory reported by the call from its recorded place to its place here. `fixed`: the recorded
 * arguments; `here`: the reply of this replay.
 */
static void learn_range(struct replay_run *r, const struct replay_event *e, const uint8_t *fixed,
                        const uint8_t *here)
{
    const struct vgp_call_facts *f = vgp_call_facts(e->call->call);
    uint64_t length = 1;

    if (f == NULL || f->range.where == 0)
        return;
    for (unsigned i = 0; i < 2 && f->range_length[i].where != 0; i++)
        length *= vgp_place_get(f->range_length[i], fixed, e->payload);
    replay_map_add(&r->map, vgp_place_get(f->range, NULL, e->payload), length,
                   vgp_place_get(f->range, NULL, here));
}

/* Kernels get the number of a texture or surface object, or of a condition, as a parameter. */
static void learn_number(struct replay_run *r, const struct replay_event *e, const uint8_t *here)
{
    const struct vgp_call_facts *f = vgp_call_facts(e->call->call);

    for (uint32_t i = 0; f != NULL && i < f->states_count; i++) {
        const struct vgp_state *s = &f->states[i];
        uint64_t from = vgp_place_get(s->at, NULL, e->payload), to = vgp_place_get(s->at, NULL, here);

        if (s->ends || (s->kind != VGP_KIND_TEXTURE_OBJECT && s->kind != VGP_KIND_CONDITION) || from == 0)
            continue;
        replay_pairs_add(&r->map.textures, from, to);
        replay_map_handle_add(&r->map, from, to);
    }
}

static void learn_layout(struct replay_run *r, const struct replay_event *e, const uint8_t *fixed)
{
    const struct vgp_call_fields *f = vgp_fields_of(e->call->call);
    uint64_t handle, at = f->ret_fixed, n;
    const uint8_t *bytes;

    memcpy(&handle, fixed, 8); /* the new handle is the first argument */
    if (e->call->call == VGP_vgpKernelGetFunction) {
        const struct replay_layout *l;

        memcpy(&n, fixed + 8, 8);
        l = replay_layout_find(r, n);
        if (l != NULL)
            replay_layout_set(r, handle, l->params, l->count);
        return;
    }
    if (!vgp_makes(e->call->call, VGP_H_FUNCTION) && !vgp_makes(e->call->call, VGP_H_KERNEL))
        return;
    for (uint32_t i = 0; i < f->out_count; i++) {
        if (!locate_field(&f->out[i], e->payload, e->reply->payload, &at, &bytes, &n))
            return;
        if (strcmp(f->out[i].name, "paramLayout") == 0)
            replay_layout_set(r, handle, (const void *)bytes, (uint32_t)(n / 4));
    }
}

void replay_compare(struct replay_run *r, const struct replay_event *e, CUresult result,
                    const uint8_t *payload, uint32_t size)
{
    const struct vgp_call_fields *f = vgp_fields_of(e->call->call);
    uint64_t at_a = f->ret_fixed, at_b = f->ret_fixed, before = r->totals.different;
    const uint8_t *fixed = r->open[e->call->reply_slot].fixed;

    r->totals.replies++;
    if (e->reply->result != (int32_t)result) {
        replay_differs(r, e->serial, e->call->call, "result: recorded %d, here %d%s%s", e->reply->result,
                       (int)result, r->detail[0] != '\0' ? "; the worker says: " : "", r->detail);
        r->detail[0] = '\0'; /* reported once */
        return;
    }
    if (result == CUDA_SUCCESS)
        learn_layout(r, e, fixed);
    if (result == CUDA_SUCCESS && e->reply->payload != 0) {
        if (size >= f->ret_fixed && e->reply->payload >= f->ret_fixed) {
            learn_range(r, e, fixed, payload);
            learn_number(r, e, payload);
        }
        for (uint32_t i = 0; i < f->out_count; i++) {
            const uint8_t *a, *b;
            uint64_t n, m;

            if (!locate_field(&f->out[i], e->payload, e->reply->payload, &at_a, &a, &n) ||
                !locate_field(&f->out[i], payload, size, &at_b, &b, &m)) {
                replay_differs(r, e->serial, e->call->call, "a reply of %u bytes, recorded were %u", size,
                               e->reply->payload);
                break;
            }
            compare_field(r, e, &f->out[i], a, n, b, m);
        }
    }
    if (r->totals.different == before) {
        r->totals.equal++;
        json_line(r, e->serial, e->call->call, "equal", NULL);
    }
}

/* ---- printed at the end ---- */

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the lines of a text, sorted, since the order in which blocks print is unspecified. */
static char **lines_of(char *text, size_t *count)
{
    size_t room = 0;
    char **lines = NULL, *save = NULL;

    *count = 0;
    for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save)) {
        if (*count == room) {
            room = room == 0 ? 64 : 2 * room;
            lines = realloc(lines, room * sizeof(*lines));
            if (lines == NULL)
                vgpu_cli_die("out of memory");
        }
        lines[(*count)++] = l;
    }
    if (*count != 0)
        qsort(lines, *count, sizeof(*lines), by_line);
    return lines;
}

static void compare_text(struct replay_run *r)
{
    char **a, **b;
    size_t n, m, i = 0;

    if (r->text[0] == NULL && r->text[1] == NULL)
        return;
    a = lines_of(r->text[0] == NULL ? strdup("") : r->text[0], &n);
    b = lines_of(r->text[1] == NULL ? strdup("") : r->text[1], &m);
    while (i < n && i < m && strcmp(a[i], b[i]) == 0)
        i++;
    r->totals.texts += n;
    if (i != n || i != m) {
        r->totals.different++;
        /* The text is chosen by the author of the recording. */
        char *recorded = vgpu_cli_format("%.80s", i < n ? a[i] : "");
        char *here = vgpu_cli_format("%.80s", i < m ? b[i] : "");

        vgpu_cli_harmless(recorded);
        vgpu_cli_harmless(here);
        fprintf(r->options.out,
                "different: what kernels print: %zu lines recorded, %zu here; in order, "
                "line %zu: recorded \"%s\", here \"%s\"\n",
                n, m, i + 1, recorded, here);
        free(recorded);
        free(here);
    }
    free(a);
    free(b);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/*
 * Compares errors of calls that had returned. A failed context reports each of them when it occurs.
 */
static void compare_late(struct replay_run *r)
{
    size_t n = r->late_count[0] < r->late_count[1] ? r->late_count[0] : r->late_count[1], i = 0;

    for (int k = 0; k < 2; k++) {
        if (r->late_count[k] != 0)
            qsort(r->late[k], r->late_count[k], sizeof(uint64_t), by_value);
    }
    while (i < n && r->late[0][i] == r->late[1][i])
        i++;
    if (i == r->late_count[0] && i == r->late_count[1])
        return;
    r->totals.different++;
    fprintf(r->options.out, "different: errors of asynchronous calls: %zu recorded, %zu here\n",
            r->late_count[0], r->late_count[1]);
}

void replay_print(struct replay_run *r)
{
    struct replay_totals *t = &r->totals;
    FILE *f = r->options.out;

    compare_text(r);
    compare_late(r);
    fprintf(f,
            "%llu calls of %s replayed: %llu answers equal, %llu differences, %llu calls that have "
            "no answer\n",
            (unsigned long long)t->calls, r->file.header.program, (unsigned long long)t->equal,
            (unsigned long long)t->different, (unsigned long long)t->silent);
    if (r->map.moved)
        fprintf(f, "  memory lies at other addresses here: %llu of %llu ranges\n",
                (unsigned long long)r->map.elsewhere, (unsigned long long)r->map.ranges);
    if (t->host_results != 0)
        fprintf(f, "  registered memory: %llu pieces compared\n", (unsigned long long)t->host_results);
    if (t->texts != 0)
        fprintf(f, "  lines that kernels printed: %llu\n", (unsigned long long)t->texts);
    if (t->timing != 0)
        fprintf(f, "  not comparable, asks whether work is complete: %llu\n", (unsigned long long)t->timing);
    if (t->unseen != 0)
        fprintf(f, "  not comparable, the recorded program never looked at the answer: %llu\n",
                (unsigned long long)t->unseen);
    if (t->skipped != 0)
        fprintf(f, "  not replayed: %llu\n", (unsigned long long)t->skipped);
    for (unsigned i = 0; i < t->varied_count; i++)
        fprintf(f, "  not comparable, may differ and did: %s %s (%llu)\n", t->varied[i].call,
                t->varied[i].field, (unsigned long long)t->varied[i].count);
    if (r->map.data_words != 0)
        fprintf(f, "  %llu words of copied data were taken for addresses (--no-data-addresses)\n",
                (unsigned long long)r->map.data_words);
    if (r->options.json != NULL)
        fprintf(r->options.json,
                "{\"type\":\"totals\",\"calls\":%llu,\"equal\":%llu,\"different\":%llu,"
                "\"silent\":%llu,\"timing\":%llu,\"skipped\":%llu}\n",
                (unsigned long long)t->calls, (unsigned long long)t->equal, (unsigned long long)t->different,
                (unsigned long long)t->silent, (unsigned long long)t->timing, (unsigned long long)t->skipped);
}
