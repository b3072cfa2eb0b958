// CRC-32 (polynomial 0x04C11DB7, as in gzip and Parquet), 64 bytes at a time by carry-less products
// (Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ", 2009).
#pragma once
#include <array>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kernels {

inline uint32_t crc_by_byte(uint32_t crc, const uint8_t* at, int64_t size) {
    static const std::array<uint32_t, 256> table = [] {
        std::array<uint32_t, 256> entries{};
        for (uint32_t i = 0; i < 256; ++i) {
            entries[i] = i;
            for (int bit = 0; bit < 8; ++bit) entries[i] = entries[i] >> 1 ^ (entries[i] & 1 ? 0xEDB88320u : 0);
        }
        return entries;
    }();
    for (; size > 0; --size) crc = crc >> 8 ^ table[(crc ^ *at++) & 255];
    return crc;
}

#if defined(__x86_64__)
#define CRC_TARGET __attribute__((target("pclmul,sse4.1")))

CRC_TARGET inline __m128i crc_fold(__m128i value, __m128i powers, __m128i next) {
    const __m128i low = _mm_clmulepi64_si128(value, powers, 0x00), high = _mm_clmulepi64_si128(value, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// `size` is a multiple of 16, at least 64. The constants are powers of x modulo the polynomial, bits reflected.
CRC_TARGET inline uint32_t crc_by_products(uint32_t crc, const uint8_t* bytes, int64_t size) {
    const __m128i* at = reinterpret_cast<const __m128i*>(bytes);
    const __m128i* end = at + size / 16;
    const __m128i by_512 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), by_128 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    __m128i lanes[4];
    for (__m128i& lane : lanes) lane = _mm_loadu_si128(at++);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(int(crc)));
    for (; end - at >= 4; at += 4)
        for (int i = 0; i < 4; ++i) lanes[i] = crc_fold(lanes[i], by_512, _mm_loadu_si128(at + i));
    __m128i rest = lanes[0];
    for (int i = 1; i < 4; ++i) rest = crc_fold(rest, by_128, lanes[i]);
    while (at < end) rest = crc_fold(rest, by_128, _mm_loadu_si128(at++));
    const __m128i low = _mm_setr_epi32(-1, 0, -1, 0);
    rest = _mm_xor_si128(_mm_srli_si128(rest, 8), _mm_clmulepi64_si128(rest, by_128, 0x10));
    rest = _mm_xor_si128(_mm_srli_si128(rest, 4),
                         _mm_clmulepi64_si128(_mm_and_si128(rest, low), _mm_set_epi64x(0, 0x163CD6124), 0x00));
    const __m128i barrett = _mm_set_epi64x(0x1F7011641, 0x1DB710641);
    __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(rest, low), barrett, 0x10), low);
    return uint32_t(_mm_extract_epi32(_mm_xor_si128(rest, _mm_clmulepi64_si128(quotient, barrett, 0x00)), 1));
}
#undef CRC_TARGET
#endif

inline uint32_t crc32(const uint8_t* at, int64_t size) {
    uint32_t crc = ~uint32_t(0);
#if defined(__x86_64__)
    if (const int64_t folded = size & ~int64_t(15); folded >= 64 && __builtin_cpu_supports("pclmul")) {
        crc = crc_by_products(crc, at, folded);
        at += folded, size -= folded;
    }
#endif
    return ~crc_by_byte(crc, at, size);
}

}  // namespace kernels
