/* Decimal text to a float: exact where doubles are, bounded where they nearly are, digit by digit otherwise.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"
#include "parse_number.h"

#define MAX_DIGITS 780   /* more digits than any midpoint between two doubles has */
#define MAX_EXPONENT 1000000000000 /* any more changes nothing */

const double xcl_powers_of_ten[XCL_EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                               1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Scale by 10^exponent, |exponent| <= 3 * XCL_EXACT_POWER, in at most three rounded steps. */
static double scale(double value, int64_t exponent) {
    for (int64_t left = xcl_max(exponent, -exponent); left > 0; left -= XCL_EXACT_POWER) {
        double power = xcl_powers_of_ten[xcl_min(left, XCL_EXACT_POWER)];
        value = exponent < 0 ? value / power : value * power;
    }
    return value;
}

/* The C library's strtod on digits without a decimal point, which it reads alike in every locale. */
static float read_exactly(const char *p, const char *end) {
    char buffer[MAX_DIGITS + 32];
    int n = 0;
    int64_t exponent = 0;
    bool point = false, rest = false;
    for (; p < end && (*p | 32) != 'e'; p++) {
        if (*p == '.') point = true;
        if (*p < '0' || *p > '9') continue;
        if (n == 0 && *p == '0') {
            exponent -= point;
        } else if (n < MAX_DIGITS) {
            buffer[n++] = *p;
            exponent -= point;
        } else {
            exponent += !point;
            rest |= *p != '0';
        }
    }
    if (n == 0) return 0.0f;
    if (rest) { /* a last digit that says "and a little more" */
        buffer[n++] = '1';
        exponent -= 1;
    }
    if (p < end) {
        uint64_t written;
        bool negative = p[1] == '-';
        xcl_digits_read(p + 1 + (negative || p[1] == '+'), &written);
        int64_t bounded = (int64_t)(written < MAX_EXPONENT ? written : MAX_EXPONENT);
        exponent += negative ? -bounded : bounded;
    }
    snprintf(buffer + n, sizeof buffer - (size_t)n, "e%lld", (long long)exponent);
    return (float)strtod(buffer, NULL);
}

float xcl_float_make(uint64_t mantissa, int64_t exponent, const char *text, const char *text_end) {
    if (mantissa == 0) return 0.0f;
    if (mantissa < (uint64_t)1 << 53 && exponent >= -XCL_EXACT_POWER && exponent <= XCL_EXACT_POWER) {
        double value = (double)mantissa;
        return (float)(exponent < 0 ? value / xcl_powers_of_ten[-exponent] : value * xcl_powers_of_ten[exponent]);
    }
    if (exponent >= -3 * XCL_EXACT_POWER && exponent <= 3 * XCL_EXACT_POWER) {
        /* Up to six roundings of 2^-53 each: if both ends of the interval round to one float, the number does too. */
        double value = scale((double)mantissa, exponent);
        float low = (float)(value * (1.0 - 0x1p-49)), high = (float)(value * (1.0 + 0x1p-49));
        if (low == high) return low;
    }
    return read_exactly(text, text_end);
}

const char *xcl_float_read_slowly(const char *p, float *value) {
    bool negative = *p == '-';
    if (negative || *p == '+') p++;
    const char *start = p;
    uint64_t mantissa = 0;
    int64_t exponent = 0;
    int n_digits = 0; /* significant ones in the mantissa */
    bool point = false;
    for (;; p++) {
        unsigned d = (unsigned)(unsigned char)*p - '0';
        if (*p == '.' && !point) {
            point = true;
        } else if (d < 10) {
            bool room = n_digits < 19;
            if (room) mantissa = mantissa * 10 + d;
            n_digits += room && mantissa != 0;
            exponent += !room - point;
        } else {
            break;
        }
    }
    if ((*p | 32) == 'e') {
        bool below = p[1] == '-';
        const char *digits = p + 1 + (below || p[1] == '+');
        uint64_t written;
        const char *end = xcl_digits_read(digits, &written);
        if (end == digits) return NULL;
        p = end;
        int64_t bounded = (int64_t)(written < MAX_EXPONENT ? written : MAX_EXPONENT);
        exponent += below ? -bounded : bounded;
    }
    float magnitude = xcl_float_make(mantissa, exponent, start, p);
    *value = negative ? -magnitude : magnitude;
    return p;
}
