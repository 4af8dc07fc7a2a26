/* What a step of a large network does to each weight, in one pass over the vectors instead of one for each operation.

   Four functions, for vectors of single precision on the CPU; posterity/core/kernels.py says what each computes, and
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

#ifdef WITH_AVX2
#pragma GCC pop_options
#endif

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
    draw_words(AT(uint64_t, state), out, count);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t k = 0; k < chunks_of(count); k++)
        normals_of_words(out + k * CHUNK, chunk_size(count, k));
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

static PyMethodDef functions[] = {
    {"normal", normal, METH_VARARGS, NULL},
    {"draw", draw, METH_VARARGS, NULL},
    {"gradient", gradient, METH_VARARGS, NULL},
    {"ivon", ivon, METH_VARARGS, NULL},
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
