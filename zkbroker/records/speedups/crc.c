/* CRC-32 and CRC-32C: by tables everywhere, by instructions if the processor has them.
 *
 * Both are reflected, start from all ones and end inverted. CRC-32C runs three streams at a time
 * over the crc32 instruction, whose result takes three cycles, and joins them with tables that
 * advance a checksum over a block of zeros. CRC-32 folds 64 bytes at a time by carry-less
 * multiplication; the constants are powers of x modulo the polynomial.
 */
#include "speedups.h"

#ifdef ZK_X86
#include <immintrin.h>
#endif

#define POLYNOMIAL 0xEDB88320u
#define POLYNOMIAL_C 0x82F63B78u

enum { LONG_BLOCK = 1024, SHORT_BLOCK = 128 };

typedef uint32_t slices[8][256];

static slices table, table_c;
static uint32_t zeros_long[4][256], zeros_short[4][256];
static int has_crc32c, has_clmul;

static void fill(slices t, uint32_t polynomial)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
        t[0][n] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t n = 0; n < 256; n++)
            t[k][n] = (t[k - 1][n] >> 8) ^ t[0][t[k - 1][n] & 0xFF];
}

static uint32_t by_table(slices t, uint32_t crc, const uint8_t *p, size_t size)
{
    while (size >= 8) {
        uint32_t low = crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);
        crc = t[7][low & 0xFF] ^ t[6][(low >> 8) & 0xFF] ^ t[5][(low >> 16) & 0xFF] ^
              t[4][low >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
        p += 8;
        size -= 8;
    }
    while (size--)
        crc = (crc >> 8) ^ t[0][(crc ^ *p++) & 0xFF];
    return crc;
}

/* A checksum advanced over `size` zeros is linear in its bits: 32 of them make the tables. */
static void fill_zeros(uint32_t z[4][256], size_t size)
{
    uint32_t bits[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = (uint32_t)1 << bit;
        for (size_t n = 0; n < size; n++)
            crc = (crc >> 8) ^ table_c[0][crc & 0xFF];
        bits[bit] = crc;
    }
    for (int k = 0; k < 4; k++)
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t crc = 0;
            for (int bit = 0; bit < 8; bit++)
                if (n >> bit & 1)
                    crc ^= bits[8 * k + bit];
            z[k][n] = crc;
        }
}

void zk_crc_init(void)
{
    fill(table, POLYNOMIAL);
    fill(table_c, POLYNOMIAL_C);
    fill_zeros(zeros_long, LONG_BLOCK);
    fill_zeros(zeros_short, SHORT_BLOCK);
#ifdef ZK_X86
    __builtin_cpu_init();
    has_crc32c = __builtin_cpu_supports("sse4.2") != 0;
    has_clmul = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
#endif
}

#ifdef ZK_X86

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline uint32_t over_zeros(uint32_t z[4][256], uint32_t crc)
{
    return z[0][crc & 0xFF] ^ z[1][(crc >> 8) & 0xFF] ^ z[2][(crc >> 16) & 0xFF] ^ z[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static const uint8_t *
three_streams(uint64_t *crc, const uint8_t *p, size_t *size, size_t block, uint32_t z[4][256])
{
    while (*size >= 3 * block) {
        uint64_t a = *crc, b = 0, c = 0;
        for (size_t n = 0; n < block; n += 8) {
            a = _mm_crc32_u64(a, load64(p + n));
            b = _mm_crc32_u64(b, load64(p + block + n));
            c = _mm_crc32_u64(c, load64(p + 2 * block + n));
        }
        a = over_zeros(z, (uint32_t)a) ^ b;
        *crc = over_zeros(z, (uint32_t)a) ^ c;
        p += 3 * block;
        *size -= 3 * block;
    }
    return p;
}

__attribute__((target("sse4.2"))) static uint32_t
crc32c_by_instruction(uint32_t start, const uint8_t *p, size_t size)
{
    uint64_t crc = start;
    p = three_streams(&crc, p, &size, LONG_BLOCK, zeros_long);
    p = three_streams(&crc, p, &size, SHORT_BLOCK, zeros_short);
    for (; size >= 8; p += 8, size -= 8)
        crc = _mm_crc32_u64(crc, load64(p));
    for (; size; size--)
        crc = _mm_crc32_u8((uint32_t)crc, *p++);
    return (uint32_t)crc;
}

#define FOLD(x, k, next)                                                                           \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), \
                  next)
#define LOAD(at) _mm_loadu_si128((const __m128i *)(at))

/* `size` is a multiple of 16 and at least 64. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t
crc32_by_folding(uint32_t crc, const uint8_t *p, size_t size)
{
    const __m128i by64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by4 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low32 = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i a = _mm_xor_si128(LOAD(p), _mm_cvtsi32_si128((int)crc));
    __m128i b = LOAD(p + 16), c = LOAD(p + 32), d = LOAD(p + 48), t;
    for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
        a = FOLD(a, by64, LOAD(p));
        b = FOLD(b, by64, LOAD(p + 16));
        c = FOLD(c, by64, LOAD(p + 32));
        d = FOLD(d, by64, LOAD(p + 48));
    }
    b = FOLD(a, by16, b);
    c = FOLD(b, by16, c);
    a = FOLD(c, by16, d);
    for (; size >= 16; p += 16, size -= 16)
        a = FOLD(a, by16, LOAD(p));
    /* 128 bits to 64, to 32 by Barrett's reduction */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by16, 0x10));
    t = _mm_srli_si128(a, 4);
    a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low32), by4, 0x00), t);
    t = _mm_clmulepi64_si128(_mm_and_si128(a, low32), barrett, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, low32), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
}

#endif

uint32_t zk_crc32(const uint8_t *p, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
#ifdef ZK_X86
    if (has_clmul && size >= 64) {
        size_t folded = size & ~(size_t)15;
        crc = crc32_by_folding(crc, p, folded);
        p += folded;
        size -= folded;
    }
#endif
    return ~by_table(table, crc, p, size);
}

uint32_t zk_crc32c(const uint8_t *p, size_t size)
{
#ifdef ZK_X86
    if (has_crc32c)
        return ~crc32c_by_instruction(0xFFFFFFFFu, p, size);
#endif
    return ~by_table(table_c, 0xFFFFFFFFu, p, size);
}
