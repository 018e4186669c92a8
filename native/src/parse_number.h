/* Decimal text to a float. SPDX-License-Identifier: MIT */
#ifndef XCL_PARSE_NUMBER_H
#define XCL_PARSE_NUMBER_H
#include <stdint.h>

/* Read digits; *value stays above 10^17 and below 2^63 once it is too large. Returns the first character after them. The text must
 * end in something that is no digit. */
static inline const char *xcl_digits_read(const char *p, uint64_t *value) {
    const char *start = p;
    uint64_t v = 0;
    for (unsigned d; (d = (unsigned)(unsigned char)*p - '0') < 10; p++) v = v * 10 + d;
    if (p - start > 18) {
        v = 0;
        for (const char *q = start; q < p; q++)
            if (v <= (uint64_t)1e17) v = v * 10 + (uint64_t)(*q - '0');
    }
    *value = v;
    return p;
}

#define XCL_EXACT_POWER 22 /* 10^22 is the largest power of ten that is a double */
extern const double xcl_powers_of_ten[XCL_EXACT_POWER + 1];

/* Any form of a decimal number, however many digits, in any locale; used where the fast path below gives up. */
const char *xcl_float_read_slowly(const char *p, float *value);

/* mantissa * 10^exponent as a float. text, text_end: the same number, for the rare case that needs all its digits. */
float xcl_float_make(uint64_t mantissa, int64_t exponent, const char *text, const char *text_end);

/* Read a number such as 1, +.5, 5., -2.5E-01: the nearest double, rounded to float. NULL if there is no number at p.
 * *value is infinite if it is too large. Returns the first character after it. The text must end in something that
 * cannot be part of a number. */
static inline const char *xcl_float_read(const char *p, float *value) {
    const char *start = p;
    bool negative = *p == '-';
    if (negative || *p == '+') p++;
    uint64_t mantissa = 0;
    int64_t exponent = 0;
    const char *digits = p;
    for (unsigned d; (d = (unsigned)(unsigned char)*p - '0') < 10; p++) mantissa = mantissa * 10 + d;
    int64_t n_digits = p - digits;
    if (*p == '.') {
        const char *point = p++;
        for (unsigned d; (d = (unsigned)(unsigned char)*p - '0') < 10; p++) mantissa = mantissa * 10 + d;
        exponent = point + 1 - p;
        n_digits -= exponent;
    }
    if (n_digits == 0) return NULL;
    if (n_digits > 19 || (*p | 32) == 'e') return xcl_float_read_slowly(start, value);
    float magnitude = xcl_float_make(mantissa, exponent, start, p);
    *value = negative ? -magnitude : magnitude;
    return p;
}

#endif
