// SPDX-License-Identifier: MIT
// Functions that call themselves, each other, and through pointers (exec/call_test.c).
extern "C" {

__device__ __noinline__ int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__global__ void fibs(int *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    out[t] = fib(t % 13);
}

__device__ __noinline__ int odd(int n);
__device__ __noinline__ int even(int n)
{
    return n == 0 ? 1 : odd(n - 1);
}
__device__ __noinline__ int odd(int n)
{
    return n == 0 ? 0 : even(n - 1);
}

__global__ void parity(int *out, int add)
{
    out[threadIdx.x] = even(threadIdx.x + add);
}

__device__ void sort(int *a, int l, int r)
{
    if (l >= r)
        return;
    int p = a[(l + r) / 2], i = l, j = r;
    while (i <= j) {
        while (a[i] < p)
            i++;
        while (a[j] > p)
            j--;
        if (i <= j) {
            int t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
    }
    if (l < j)
        sort(a, l, j);
    if (i < r)
        sort(a, i, r);
}

__global__ void sorts(int *a, int n)
{
    sort(a + threadIdx.x * n, 0, n - 1);
}

// Pointers to variables of functions further up must stay good.
struct node {
    int v;
    node *next;
};
__device__ __noinline__ int chain(node *prev, int d)
{
    node n = {d * 3, prev};
    if (d == 0) {
        int s = 0;
        for (node *p = &n; p; p = p->next)
            s += p->v;
        return s;
    }
    int r = chain(&n, d - 1);
    return r + n.v;
}

__global__ void chains(int *out)
{
    out[threadIdx.x] = chain(nullptr, threadIdx.x % 10);
}

// Structures by value, there and back.
struct large {
    int x[9];
    char tail;
};
__device__ __noinline__ large change(large b, int n)
{
    if (n == 0)
        return b;
    for (int i = 0; i < 9; i++)
        b.x[i] += n * i;
    b.tail++;
    large c = change(b, n - 1);
    c.x[n % 9]++;
    return c;
}

__global__ void larges(int *out)
{
    large b;
    for (int i = 0; i < 9; i++)
        b.x[i] = threadIdx.x * i;
    b.tail = (char)threadIdx.x;
    large r = change(b, threadIdx.x % 7);
    int sum = r.tail;
    for (int i = 0; i < 9; i++)
        sum = sum * 7 + r.x[i];
    out[threadIdx.x] = sum;
}

// Through pointers, each from the other.
typedef int (*step)(int, void **);
__device__ __noinline__ int first(int n, void **t)
{
    return n <= 0 ? 1 : 2 * ((step)t[n & 1])(n - 1, t) + 1;
}
__device__ __noinline__ int second(int n, void **t)
{
    return n <= 0 ? 2 : 3 * ((step)t[n & 1])(n - 2, t) + ((step)t[0])(n - 3, t);
}

__global__ void pointers(int *out)
{
    void *t[2] = {(void *)first, (void *)second};
    out[threadIdx.x] = ((step)t[threadIdx.x & 1])(threadIdx.x % 12, t);
}

// A barrier and a shuffle at different depths.
__device__ __noinline__ int meet(int n, int v)
{
    __syncthreads();
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return n ? meet(n - 1, v) + 1 : v;
}

__global__ void meets(int *out)
{
    out[threadIdx.x] = meet(5, threadIdx.x);
}

__device__ __noinline__ int endless(int n, int *out)
{
    out[0] = n;
    int r = endless(n + 1, out);
    return r + out[1];
}

__global__ void overflow(int *out)
{
    out[2] = endless(0, out);
}
}

// A tree of virtual functions.
struct expr {
    __device__ virtual double eval(double x) const = 0;
};
struct two : expr {
    __device__ double eval(double) const override { return 2; }
};
struct var : expr {
    __device__ double eval(double x) const override { return x; }
};
struct sum : expr {
    const expr *a, *b;
    __device__ sum(const expr *p, const expr *q) : a(p), b(q) {}
    __device__ double eval(double x) const override { return a->eval(x) + b->eval(x); }
};
struct product : expr {
    const expr *a, *b;
    __device__ product(const expr *p, const expr *q) : a(p), b(q) {}
    __device__ double eval(double x) const override { return a->eval(x) * b->eval(x); }
};

extern "C" __global__ void trees(double *out)
{
    two c;
    var x;
    sum s(&c, &x);
    product p(&s, &s);
    sum e(&p, &c);
    const expr *r = threadIdx.x & 1 ? (const expr *)&e : (const expr *)&p;
    out[threadIdx.x] = r->eval(threadIdx.x);
}

// Memory that lives until the function that took it returns.
static __device__ __noinline__ int triple(int n, int k)
{
    int *p = (int *)alloca(n * sizeof(int));
    int s = 0;
    for (int i = 0; i < n; i++)
        p[i] = 3;
    for (int i = 0; i < n; i++)
        s += p[i];
    return s + k;
}

extern "C" __global__ void allocas(int *out, int n)
{
    int s = 0;
    for (int k = 0; k < 100; k++)
        s += triple(n == 5 ? threadIdx.x % 5 + 1 : n, k);
    out[threadIdx.x] = s;
}

static __device__ __noinline__ int spread(int n, int seed)
{
    int *p = (int *)alloca((n + 1) * sizeof(int));
    int s = 0;
    for (int i = 0; i < n; i++)
        p[i] = i * seed + n;
    int below = n <= 1 ? 0 : spread(n / 2, seed) + spread(n - 2, seed + 1);
    for (int i = 0; i < n; i++)
        s += p[i] * (i + 1);
    return s + below;
}

extern "C" __global__ void spreads(int *out)
{
    out[threadIdx.x] = spread(threadIdx.x % 7, threadIdx.x);
}
