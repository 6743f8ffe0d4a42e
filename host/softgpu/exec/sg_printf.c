/* SPDX-License-Identifier: MIT */
/*
 * printf of device code: vprintf(format, arguments), where the arguments lie in local memory one
 * after the other, each aligned to its size (4 or 8), according to nvcc's layout.
 */
#include "exec/printf.h"
#include "exec/code.h"
#include "exec/run.h"
#include "memory/grace.h"

#include <stdio.h>
#include <string.h>

#define MAX_FORMAT 4096 /* characters of a format or of a %s string */
#define MAX_OUTPUT 16384
#define MAX_ARGS 32 /* further conversions are output as they stand (CUDA C++ Programming Guide) */
#define MAX_SPEC 64
#define PRINT_COST 16 /* a character of the output, in bytes copied */
#define MAX_DIGITS 4  /* digits of a width or precision: output beyond MAX_FORMAT is not visible */

struct out {
    char text[MAX_OUTPUT];
    size_t len;
};

static void put_text(struct out *o, const char *s, size_t n)
{
    if (n > MAX_OUTPUT - o->len)
        n = MAX_OUTPUT - o->len;
    memcpy(o->text + o->len, s, n);
    o->len += n;
}

/* A string of the device, at most size - 1 characters. False: fault. */
static bool read_string(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, uint64_t addr, char *buf,
                        size_t size)
{
    size_t n = 0;

    if (!addr) {
        snprintf(buf, size, "(null)");
        return true;
    }
    for (; n < size - 1; n++) {
        if (!sg_lane_read(w, in, lane, SG_SP_GENERIC, addr + n, buf + n, 1))
            return false;
        if (!buf[n])
            return true;
    }
    buf[n] = 0;
    return true;
}

struct args {
    struct sg_warp *w;
    const struct sg_insn *in;
    uint32_t lane;
    uint64_t at;
    int count; /* arguments read so far */
};

static bool next_arg(struct args *a, uint32_t size, uint64_t *v)
{
    a->at = (a->at + size - 1) & ~(uint64_t)(size - 1);
    *v = 0;
    if (!sg_lane_read(a->w, a->in, a->lane, SG_SP_GENERIC, a->at, v, size))
        return false;
    a->at += size;
    a->count++;
    return true;
}

/* An integer of 1, 2 or 4 bytes, as the conversion prints it. */
static uint64_t narrowed_integer(uint64_t v, uint32_t bytes, bool sign)
{
    const uint32_t unused = 64 - 8 * bytes;

    return sign ? (uint64_t)((int64_t)(v << unused) >> unused) : v << unused >> unused;
}

/* Formats a conversion; spec begins with % and ends with the conversion character. bytes: size of an integer. */
static bool convert_argument(struct args *a, struct out *o, const char *spec, uint32_t bytes)
{
    char conv = spec[strlen(spec) - 1], buf[1024], str[MAX_FORMAT], s2[MAX_SPEC + 4];
    size_t n = strlen(spec);
    uint64_t v;
    double d;
    int len = 0;

#if defined(__clang__) || defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif
    switch (conv) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
    case 'c':
        if (!next_arg(a, bytes == 8 && conv != 'c' ? 8 : 4, &v))
            return false;
        memcpy(s2, spec, n - 1);
        s2[n - 1] = 0;
        if (conv == 'c') {
            snprintf(s2 + n - 1, 3, "c");
            len = snprintf(buf, sizeof(buf), s2, (int)v);
        } else {
            snprintf(s2 + n - 1, 5, "ll%c", conv);
            v = narrowed_integer(v, bytes, conv == 'd' || conv == 'i');
            len = snprintf(buf, sizeof(buf), s2, (long long)v);
        }
        break;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
        if (!next_arg(a, 8, &v))
            return false;
        memcpy(&d, &v, 8);
        len = snprintf(buf, sizeof(buf), spec, d);
        break;
    case 'p':
        if (!next_arg(a, 8, &v))
            return false;
        len = snprintf(buf, sizeof(buf), spec, (void *)(uintptr_t)v);
        break;
    case 's':
        if (!next_arg(a, 8, &v) || !read_string(a->w, a->in, a->lane, v, str, sizeof(str)))
            return false;
        if (n == 2) {
            put_text(o, str, strlen(str));
            return true;
        }
        len = snprintf(buf, sizeof(buf), spec, str);
        break;
    default:
        break;
    }
#if defined(__clang__) || defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
    if (len > 0)
        put_text(o, buf, (size_t)len < sizeof(buf) ? (size_t)len : sizeof(buf) - 1);
    return true;
}

/* Adds a digit of a width or precision, up to MAX_DIGITS: otherwise a kernel could make the C
   library produce output of any length. */
static void add_digit(char *spec, size_t *n, unsigned *digits, char c)
{
    if (*digits < MAX_DIGITS)
        spec[(*n)++] = c;
    ++*digits;
}

/* Reads a conversion of the format at p; *spec receives it without length modifiers, *bytes the size of an integer. */
static const char *parse_spec(struct args *a, const char *p, char *spec, uint32_t *bytes, bool *ok)
{
    size_t n = 0;
    unsigned digits = 0;
    uint64_t v;

    *bytes = 4;
    *ok = true;
    spec[n++] = *p++;
    for (; *p && n < MAX_SPEC - 16; p++) {
        if (strchr("-+ #'0123456789.", *p)) {
            if (*p >= '0' && *p <= '9') {
                add_digit(spec, &n, &digits, *p);
                continue;
            }
            digits = 0;
            spec[n++] = *p;
        } else if (*p == '*') {
            char number[12];

            if (!next_arg(a, 4, &v)) {
                *ok = false;
                return p;
            }
            v = (uint64_t)(int64_t)(int32_t)v;
            if ((int32_t)v < 0 && spec[n - 1] == '.') { /* a negative precision is none */
                n--;
                digits = MAX_DIGITS; /* later digits belong to a new number */
                continue;
            }
            if ((int32_t)v > 999 || (int32_t)v < -999)
                v = 0;
            snprintf(number, sizeof(number), "%d", (int)v);
            for (const char *c = number; *c && n < MAX_SPEC - 16; c++) {
                if (*c == '-')
                    spec[n++] = *c;
                else
                    add_digit(spec, &n, &digits, *c);
            }
        } else if (*p && strchr("lzjt", *p)) {
            *bytes = 8; /* long is 64 bits in device code */
        } else if (*p == 'h') {
            *bytes = *bytes == 2 ? 1 : 2;
        } else if (*p != 'L') {
            break;
        }
    }
    if (*p)
        spec[n++] = *p++;
    spec[n] = 0;
    return p;
}

/* The number of arguments of the conversion at p: its own, and one for each star. */
static int arguments_of(const char *p)
{
    int n = 1;

    for (p++; *p && strchr("-+ #'0123456789.*lhLzjt", *p); p++)
        n += *p == '*';
    return n;
}

/* Returns the number of arguments, -1 for no format, -2 after a fault. */
static int format_lane(struct sg_warp *w, const struct sg_insn *in, uint32_t lane, uint64_t fmt,
                       uint64_t argp, struct out *o)
{
    struct args a = {w, in, lane, argp, 0};
    char format[MAX_FORMAT], spec[MAX_SPEC + 16];
    const char *p = format;

    o->len = 0;
    if (!fmt)
        return -1;
    if (!read_string(w, in, lane, fmt, format, sizeof(format)))
        return -2;
    while (*p) {
        const char *q = strchr(p, '%');
        uint32_t bytes;
        bool ok;

        if (!q)
            q = p + strlen(p);
        put_text(o, p, (size_t)(q - p));
        p = q;
        if (!*p)
            break;
        if (p[1] == '%') {
            put_text(o, "%", 1);
            p += 2;
            continue;
        }
        if (a.count + arguments_of(p) > MAX_ARGS) {
            put_text(o, p++, 1);
            continue;
        }
        p = parse_spec(&a, p, spec, &bytes, &ok);
        if (!ok || !convert_argument(&a, o, spec, bytes))
            return -2;
    }
    return a.count;
}

/* Passes text to the launch's print (or print_error) function, one string at a time. */
static void print_text(struct sg_cta *c, const char *text, size_t len, bool error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct sg_launch *l = c->run->l;

    sg_grace_leave(); /* the receiver may block, and no device state is in use here */
    pthread_mutex_lock(&lock);
    if (error && l->print_error)
        l->print_error(l->print_ctx, text, len);
    else if (l->print)
        l->print(l->print_ctx, text, len);
    else
        fwrite(text, 1, len, error ? stderr : stdout);
    pthread_mutex_unlock(&lock);
    sg_grace_enter();
}

static inline uint64_t value64(struct sg_warp *w, uint32_t op, uint32_t lane)
{
    uint64_t v;

    memcpy(&v, w->base[op >> 31] + (op & 0x7fffffffu) + lane * 8, 8);
    return v;
}

int sg_vprintf(struct sg_warp *w, const struct sg_insn *in)
{
    uint64_t cost = 0;
    struct out o;

    for (uint32_t m = w->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        int n = format_lane(w, in, lane, value64(w, in->a, lane), value64(w, in->b, lane), &o);

        if (n == -2)
            return SG_FAULTED;
        print_text(w->cta, o.text, o.len, false);
        cost += (uint64_t)o.len * PRINT_COST;
        ((int32_t *)(void *)(w->base[0] + in->d))[lane] = n;
    }
    return sg_charge(w, in, cost);
}

int sg_assertfail(struct sg_warp *w, const struct sg_insn *in)
{
    char msg[512], file[512], func[512], line[1800];
    uint32_t n;

    for (uint32_t m = w->mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        int len;

        if (!read_string(w, in, lane, value64(w, in->d, lane), msg, sizeof(msg)) ||
            !read_string(w, in, lane, value64(w, in->a, lane), file, sizeof(file)) ||
            !read_string(w, in, lane, value64(w, in->c, lane), func, sizeof(func)))
            return SG_FAULTED;
        memcpy(&n, w->base[in->b >> 31] + (in->b & 0x7fffffffu) + lane * 4, 4);
        len = snprintf(line, sizeof(line),
                       "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file, n,
                       func, w->cta->ctaid[0], w->cta->ctaid[1], w->cta->ctaid[2], w->tid[0][lane],
                       w->tid[1][lane], w->tid[2][lane], msg);
        if (len > 0)
            print_text(w->cta, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1, true);
    }
    return sg_fault_set(w, in, (uint32_t)__builtin_ctz(w->mask), SG_ERR_ASSERT,
                        "device-side assert triggered");
}
