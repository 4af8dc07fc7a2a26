/* What a step of a large network does to each weight, in one pass over the vectors instead of one for each operation.

   Five functions, for single precision on the CPU; posterity/core/kernels.py says what each computes, and
   is how they are called. Every element is computed by itself, and sums are those of chunks of a fixed size, added up
   in order: no result depends on the number of threads.

   Exponentials and logarithms are series without branches, which compilers turn into vector instructions:
       e^x = 2^n e^r, |r| <= log(2) / 2;     log(1 + t) = 2 artanh(t / (2 + t))
*/

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Processors of 2013 and later; the module refuses to load on others. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WITH_AVX2
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

enum { CHUNK = 4096 };

static inline int32_t bits_of(float x) { int32_t i; memcpy(&i, &x, sizeof i); return i; }
static inline float float_of(int32_t i) { float x; memcpy(&x, &i, sizeof x); return x; }

/* e^x for -87 <= x <= 0 */
static inline float exponential(float x)
{
    const float shift = 12582912.0f; /* 1.5 2^23: what is added to it is rounded to a whole number */
    float n = (x * 1.44269504f + shift) - shift;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f; /* log(2), in two parts */
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * float_of(((int32_t)n + 127) << 23);
}

/* log((1 + s) / (1 - s)) for |s| <= 1 / 3 */
static inline float log_ratio(float s)
{
    float q = s * s, p = 1.0f / 13;
    p = p * q + 1.0f / 11;
    p = p * q + 1.0f / 9;
    p = p * q + 1.0f / 7;
    p = p * q + 1.0f / 5;
    p = p * q + 1.0f / 3;
    p = p * q + 1.0f;
    return 2.0f * s * p;
}

/* log x for normal x > 0 */
static inline float logarithm(float x)
{
    int32_t bits = bits_of(x) - 0x3f3504f3; /* the root of 1/2 */
    int32_t exponent = bits >> 23;
    float m = float_of((bits & 0x7fffff) + 0x3f3504f3); /* from there to the root of 2 */
    float s = (m - 1.0f) / (m + 1.0f), q = s * s;
    float p = (((q * (1.0f / 9) + 1.0f / 7) * q + 1.0f / 5) * q + 1.0f / 3) * q + 1.0f;
    return (float)exponent * 0.693147181f + 2.0f * s * p;
}

/* The words of SFC64 (Doty-Humphrey's generator, as NumPy has it) from its state of four words, over `count` floats. */
static void draw_words(uint64_t *state, float *out, int64_t count)
{
    uint64_t a = state[0], b = state[1], c = state[2], counter = state[3];
    for (int64_t i = 0; i < count; i += 2) {
        uint64_t word = a + b + counter++;
        a = b ^ (b >> 11);
        b = c + (c << 3);
        c = ((c << 24) | (c >> 40)) + word;
        memcpy(out + i, &word, (i + 1 < count ? 2 : 1) * sizeof(float));
    }
    state[0] = a, state[1] = b, state[2] = c, state[3] = counter;
}

/* sqrt(2) erfinv(u) = u P(w), w = -log(1 - u^2): two polynomials, each within 1e-7 of it, fitted to the least largest
   relative error; the second in sqrt(w) - 3. */
static inline float normal_of(float u)
{
    float w = -logarithm((1.0f - u) * (1.0f + u));
    float c = w - 2.5f, p = 4.03538145e-8f;
    p = p * c + 4.86102863e-7f;
    p = p * c - 4.99055523e-6f;
    p = p * c - 6.21798063e-6f;
    p = p * c + 3.09150171e-4f;
    p = p * c - 1.77301024e-3f;
    p = p * c - 5.90817071e-3f;
    p = p * c + 3.48802656e-1f;
    p = p * c + 2.12331367f;
    float t = sqrtf(w > 5.0f ? w : 5.0f) - 3.0f, q = -2.33945786e-4f;
    q = q * t + 1.21770368e-4f;
    q = q * t + 1.83878839e-3f;
    q = q * t - 5.17621031e-3f;
    q = q * t + 8.14841781e-3f;
    q = q * t - 1.07838111e-2f;
    q = q * t + 1.33439843e-2f;
    q = q * t + 1.41658127f;
    q = q * t + 4.00643444f;
    return u * (w < 5.0f ? p : q);
}

static void normals_of_words(float *out, int64_t count)
{
    const float scale = 4.65661287e-10f * 0.99999994f; /* 2^-31 (1 - 2^-24) */
    for (int64_t i = 0; i < count; i++)
        out[i] = normal_of((float)bits_of(out[i]) * scale);
}

enum { LOG_SD, SQUARED_SD, SQUARED_SHIFT, BEYOND, SUMS };

/* Sums of log sd, sd^2 and shift^2. Of the logarithms exponents are added and the rest is multiplied, so that one is
   taken of a product of ROWS sds. */
static void add_up(const float *restrict sd, const float *restrict shift, int64_t count, double *sums)
{
    enum { LANES = 16, ROWS = 64 };
    for (int64_t at = 0; at < count; at += LANES * ROWS) {
        float product[LANES], squared_sd[LANES] = {0}, squared_shift[LANES] = {0};
        int32_t exponent[LANES] = {0};
        for (int j = 0; j < LANES; j++)
            product[j] = 1.0f;
        int64_t left = count - at, rows = left < LANES * ROWS ? left / LANES : ROWS;
        for (int64_t i = at; i < at + rows * LANES; i += LANES)
            for (int j = 0; j < LANES; j++) {
                int32_t bits = bits_of(sd[i + j]);
                exponent[j] += (bits >> 23) - 127;
                product[j] *= float_of((bits & 0x7fffff) | 0x3f800000);
                squared_sd[j] += sd[i + j] * sd[i + j];
                squared_shift[j] += shift[i + j] * shift[i + j];
            }
        for (int j = 0; j < LANES; j++) {
            sums[LOG_SD] += log(product[j]) + 0.69314718055994531 * exponent[j];
            sums[SQUARED_SD] += squared_sd[j];
            sums[SQUARED_SHIFT] += squared_shift[j];
        }
        for (int64_t i = at + rows * LANES; rows < ROWS && i < count; i++) {
            sums[LOG_SD] += log(sd[i]);
            sums[SQUARED_SD] += sd[i] * sd[i];
            sums[SQUARED_SHIFT] += shift[i] * shift[i];
        }
    }
}

/* sd, and mean + sd noise where there is noise; elements of rho beyond `bound` are counted */
static void draw_chunk(const float *restrict mean, const float *restrict shift, const float *restrict rho,
                       const float *restrict noise, float *restrict sd, float *restrict weights, int64_t count,
                       float bound, double *sums)
{
    int32_t inside = 0;
    for (int64_t i = 0; i < count; i++) {
        float x = rho[i], t = exponential(-(fabsf(x) < bound ? fabsf(x) : bound));
        sd[i] = (x > 0.0f ? x : 0.0f) + log_ratio(t / (2.0f + t));
        inside += fabsf(x) <= bound;
    }
    if (noise)
        for (int64_t i = 0; i < count; i++)
            weights[i] = mean[i] + sd[i] * noise[i];
    add_up(sd, shift, count, sums);
    sums[BEYOND] += (double)(count - inside);
}

static void gradient_chunk(const float *restrict grad, float *restrict noise,
                           const float *restrict shift, const float *restrict sd,
                           const float *restrict rho, const float *restrict precision, int by_weight,
                           float factor, float *restrict to_mean, int64_t count)
{
    const float same = precision[0];
    const int with_kl = factor != 0.0f; /* what has underflowed or overflowed must not make 0 / 0 */
    for (int64_t i = 0; i < count; i++) {
        float p = factor * (by_weight ? precision[i] : same), x = rho[i];
        float t = exponential(-(fabsf(x) < 87.0f ? fabsf(x) : 87.0f));
        float slope = x < -80.0f ? sd[i] : (x > 0.0f ? 1.0f : t) / (1.0f + t); /* below, they are equal */
        to_mean[i] = grad[i] + (with_kl ? p * shift[i] : 0.0f);
        noise[i] = (grad[i] * noise[i] + (with_kl ? p * sd[i] - factor / sd[i] : 0.0f)) * slope;
    }
}

struct ivon { float lr, ess, delta, momentum_share, curvature_share, correction; };

static void ivon_chunk(float *restrict mean, float *restrict momentum, float *restrict curvature,
                       const float *restrict grad, const float *restrict grad_rho,
                       float *restrict rho, struct ivon how, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float h = curvature[i], s = 1.0f / sqrtf(h * how.ess), q = s * s;
        /* s / (1 - e^-s) */
        float over = 1.0f + 0.5f * s + q * (1.0f / 12 - q * (1.0f / 720 - q * (1.0f / 30240 - q / 1209600)));
        float excess = h - how.ess * h * grad_rho[i] * over - how.delta;
        float a = how.curvature_share * excess / h;
        h -= h * (a - 0.5f * a * a); /* not h (1 - ...), whose rounding is down more often than up */
        float m = momentum[i] + how.momentum_share * (grad[i] - momentum[i]);
        mean[i] -= how.lr / how.correction * (m + how.delta * how.correction * mean[i]) / h;
        momentum[i] = m;
        curvature[i] = h;
        s = 1.0f / sqrtf(h * how.ess);
        q = s * s;
        /* log((e^s - 1) / s) + log s */
        float series = 0.5f * s + q * (1.0f / 24 - q * (1.0f / 2880 - q * (1.0f / 181440 - q / 9676800)));
        rho[i] = s > 0.0f ? logarithm(s) + series : -INFINITY; /* of an infinite curvature, which must be seen */
    }
}

/* Matrices are stored by rows, of a length `stride` that is a multiple of TILE; what is beyond their edges is 0. */
enum { TILE = 16, STRIP = 4 };
typedef float vector __attribute__((vector_size(2 * TILE), aligned(4))); /* half of a tile's row */

struct matrix { float *at; int64_t stride; };

/* A tile of alpha A'B + beta D, of A (depth, rows) and B (depth, columns). */
static void tile(struct matrix a, struct matrix b, int64_t depth, float alpha, struct matrix d, float beta,
                 struct matrix c, int64_t row, int64_t column)
{
    for (int64_t i = row; i < row + TILE; i += STRIP) {
        const float *left = a.at + i, *right = b.at + column;
        vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, t0 = {0}, t1 = {0}, t2 = {0}, t3 = {0};
        for (int64_t k = 0; k < depth; k++, left += a.stride, right += b.stride) {
            const vector s = *(const vector *)right, t = *(const vector *)(right + TILE / 2);
            s0 += left[0] * s, t0 += left[0] * t;
            s1 += left[1] * s, t1 += left[1] * t;
            s2 += left[2] * s, t2 += left[2] * t;
            s3 += left[3] * s, t3 += left[3] * t;
        }
        const vector sums[STRIP][2] = {{s0, t0}, {s1, t1}, {s2, t2}, {s3, t3}};
        for (int r = 0; r < STRIP; r++) {
            const vector *own = (const vector *)(d.at + (i + r) * d.stride + column);
            vector *to = (vector *)(c.at + (i + r) * c.stride + column);
            for (int j = 0; j < 2; j++)
                to[j] = alpha * sums[r][j] + beta * own[j];
        }
    }
}

#ifdef WITH_AVX2
#pragma GCC pop_options
#endif

static int64_t tiles_of(int64_t length) { return (length + TILE - 1) / TILE; }

/* A'B into C, which is 0. */
static void product(struct matrix a, struct matrix b, int64_t depth, struct matrix c, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row += TILE)
        for (int64_t column = 0; column < columns; column += TILE)
            tile(a, b, depth, 1.0f, c, 0.0f, c, row, column);
}

/* alpha A'B + beta D where that is symmetric: half of the tiles, and their mirror images. C may be D, and 0. */
static void symmetric(struct matrix a, struct matrix b, int64_t depth, float alpha, struct matrix d, float beta,
                      struct matrix c, int64_t side)
{
    for (int64_t row = 0; row < side; row += TILE)
        for (int64_t column = row; column < side; column += TILE) {
            tile(a, b, depth, alpha, d, beta, c, row, column);
            for (int64_t i = row; i < row + TILE; i++)
                for (int64_t j = row < column ? column : i + 1; j < column + TILE; j++)
                    c.at[j * c.stride + i] = c.at[i * c.stride + j];
        }
}

static struct matrix next_of(float **free, int64_t rows, int64_t columns)
{
    struct matrix made = {*free, tiles_of(columns) * TILE};
    *free += tiles_of(rows) * TILE * made.stride;
    return made;
}

static int64_t room_for(int64_t rows, int64_t columns) { return tiles_of(rows) * TILE * tiles_of(columns) * TILE; }

static double length_of(const float *x, int64_t count)
{
    enum { LANES = 8 };
    double sum[LANES] = {0}, total = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++)
            sum[j] += (double)x[i + j] * x[i + j];
    for (; i < count; i++)
        total += (double)x[i] * x[i];
    for (int j = 0; j < LANES; j++)
        total += sum[j];
    return sqrt(total);
}

/* Into `to` scale x, into `turned` its transpose, tile by tile, so that both stay in the cache. */
static void spread(const float *x, int64_t rows, int64_t columns, double scale, struct matrix to, struct matrix turned)
{
    for (int64_t row = 0; row < rows; row += TILE)
        for (int64_t column = 0; column < columns; column += TILE)
            for (int64_t i = row; i < rows && i < row + TILE; i++)
                for (int64_t j = column; j < columns && j < column + TILE; j++)
                    turned.at[j * turned.stride + i] = to.at[i * to.stride + j] =
                        (float)(x[i * columns + j] * scale);
}

/* P x of x (rows, columns) / |x|, or x P if rows > columns, with P = ... f(f(G)^2 G) f(G), f = a + b G + c G^2, and
   G = x x', or x' x: all of them polynomials of G, which commute. `space` is 0. */
static void polar_of(const float *x, int64_t rows, int64_t columns, const double *f, int64_t iterations, float *out,
                     float *space)
{
    const int64_t side = rows < columns ? rows : columns, length = rows < columns ? columns : rows;
    const float a = (float)f[0], b = (float)f[1], c = (float)f[2];
    const double norm = length_of(x, rows * columns);
    struct matrix own = next_of(&space, rows, columns), turned = next_of(&space, columns, rows);
    struct matrix gram = next_of(&space, side, side), rest = next_of(&space, side, side);
    struct matrix found = next_of(&space, side, side), spare = next_of(&space, side, side), kept;
    struct matrix result = next_of(&space, rows, columns), across = rows < columns ? turned : own;
    spread(x, rows, columns, norm > 0 ? 1 / norm : 0, own, turned);
    symmetric(across, across, length, 1.0f, gram, 0.0f, gram, side);
    for (int64_t left = iterations; left-- > 0;) {
        symmetric(gram, gram, side, c, gram, b, rest, side); /* f(G) - a */
        if (left + 1 == iterations) {
            memcpy(found.at, rest.at, (size_t)room_for(side, side) * sizeof(float));
            for (int64_t i = 0; i < side; i++)
                found.at[i * found.stride + i] += a;
        } else {
            symmetric(found, rest, side, 1.0f, found, a, spare, side);
            kept = found, found = spare, spare = kept;
        }
        if (left) { /* f(G)^2 G */
            symmetric(gram, rest, side, 1.0f, gram, a, spare, side);
            symmetric(spare, rest, side, 1.0f, spare, a, gram, side);
        }
    }
    if (rows < columns)
        product(found, own, side, result, rows, columns);
    else
        product(turned, found, side, result, rows, columns);
    for (int64_t i = 0; i < rows; i++)
        memcpy(out + i * columns, result.at + i * result.stride, (size_t)columns * sizeof(float));
}

static int64_t chunks_of(int64_t count) { return (count + CHUNK - 1) / CHUNK; }
static int64_t chunk_size(int64_t count, int64_t number)
{
    int64_t left = count - number * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

#define AT(type, address) ((type *)(uintptr_t)(address))

static PyObject *normal(PyObject *self, PyObject *args)
{
    unsigned long long state, to;
    long long count;
    int threads;
    if (!PyArg_ParseTuple(args, "KKLi", &state, &to, &count, &threads))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    float *out = AT(float, to);
    /* One thread draws words, one chunk after the other; those that have been drawn are anybody's. */
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (int64_t k = 0; k < chunks_of(count); k++) {
        draw_words(AT(uint64_t, state), out + k * CHUNK, chunk_size(count, k));
#pragma omp task firstprivate(k)
        normals_of_words(out + k * CHUNK, chunk_size(count, k));
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *draw(PyObject *self, PyObject *args)
{
    unsigned long long mean, shift, rho, noise, sd, weights;
    long long count;
    float bound;
    int threads;
    double total[SUMS] = {0}, *sums;
    if (!PyArg_ParseTuple(args, "KKKKKKfLi", &mean, &shift, &rho, &noise, &sd, &weights, &bound, &count, &threads))
        return NULL;
    if (!(sums = calloc((size_t)chunks_of(count) + 1, sizeof total)))
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t k = 0; k < chunks_of(count); k++) {
        int64_t at = k * CHUNK;
        draw_chunk(AT(const float, mean) + at, AT(const float, shift) + at, AT(const float, rho) + at,
                   noise ? AT(const float, noise) + at : NULL, AT(float, sd) + at, AT(float, weights) + at,
                   chunk_size(count, k), bound, sums + k * SUMS);
    }
    for (int64_t k = 0; k < chunks_of(count) * SUMS; k++)
        total[k % SUMS] += sums[k];
    free(sums);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("dddd", total[LOG_SD], total[SQUARED_SD], total[SQUARED_SHIFT], total[BEYOND]);
}

static PyObject *gradient(PyObject *self, PyObject *args)
{
    unsigned long long grad, noise, shift, sd, rho, precision, to_mean;
    long long count;
    float factor;
    int by_weight, threads;
    if (!PyArg_ParseTuple(args, "KKKKKKpfKLi", &grad, &noise, &shift, &sd, &rho, &precision, &by_weight, &factor,
                          &to_mean, &count, &threads))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t k = 0; k < chunks_of(count); k++) {
        int64_t at = k * CHUNK;
        gradient_chunk(AT(const float, grad) + at, AT(float, noise) + at, AT(const float, shift) + at,
                       AT(const float, sd) + at, AT(const float, rho) + at,
                       AT(const float, precision) + (by_weight ? at : 0), by_weight, factor, AT(float, to_mean) + at,
                       chunk_size(count, k));
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *ivon(PyObject *self, PyObject *args)
{
    unsigned long long mean, momentum, curvature, grad, grad_rho, rho;
    long long count;
    struct ivon how;
    int threads;
    if (!PyArg_ParseTuple(args, "KKKKKKffffffLi", &mean, &momentum, &curvature, &grad, &grad_rho, &rho, &how.lr,
                          &how.ess, &how.delta, &how.momentum_share, &how.curvature_share, &how.correction, &count,
                          &threads))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t k = 0; k < chunks_of(count); k++) {
        int64_t at = k * CHUNK;
        ivon_chunk(AT(float, mean) + at, AT(float, momentum) + at, AT(float, curvature) + at,
                   AT(const float, grad) + at, AT(const float, grad_rho) + at, AT(float, rho) + at, how,
                   chunk_size(count, k));
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *polar(PyObject *self, PyObject *args)
{
    unsigned long long from, to;
    long long count, rows, columns, iterations;
    double f[3];
    if (!PyArg_ParseTuple(args, "KKLLLdddL", &from, &to, &count, &rows, &columns, f, f + 1, f + 2, &iterations))
        return NULL;
    const int64_t side = rows < columns ? rows : columns;
    const size_t room = (size_t)(3 * room_for(rows, columns) + 4 * room_for(side, side)) * sizeof(float);
    float *space = malloc(room);
    if (!space)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    for (int64_t k = 0; k < count; k++) {
        memset(space, 0, room);
        polar_of(AT(const float, from) + k * rows * columns, rows, columns, f, iterations,
                 AT(float, to) + k * rows * columns, space);
    }
    free(space);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"normal", normal, METH_VARARGS, NULL},
    {"draw", draw, METH_VARARGS, NULL},
    {"gradient", gradient, METH_VARARGS, NULL},
    {"ivon", ivon, METH_VARARGS, NULL},
    {"polar", polar, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* Of the functions' arguments and what they do: kernels.py takes no other, such as one that an older checkout has left. */
enum { VERSION = 3 };

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void)
{
#ifdef WITH_AVX2
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        PyErr_SetString(PyExc_ImportError, "posterity.core._kernels needs a processor with AVX2 and FMA");
        return NULL;
    }
#endif
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "VERSION", VERSION) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
