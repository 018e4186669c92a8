/* Rows to multi-label libsvm text. SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>
#include "internal.h"
#include "parse_number.h"

#define FEATURE_BYTES 28 /* " 2147483648:-1.17549435e-38" */
#define LABEL_BYTES 12   /* "2147483648," */
#define MOST_DIGITS 9    /* enough for any float */

static char *write_integer(char *out, int64_t value) {
    char digits[20];
    int n = 0;
    do digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (n > 0) *out++ = digits[--n];
    return out;
}

/* value * 10^-exponent to a whole number. Far powers are inexact: the caller reads the result back. */
static uint64_t scaled(double value, int exponent) {
    if (exponent > XCL_EXACT_POWER || exponent < -XCL_EXACT_POWER) return (uint64_t)(value * pow(10.0, -exponent) + 0.5);
    double power = xcl_powers_of_ten[exponent < 0 ? -exponent : exponent];
    return (uint64_t)((exponent < 0 ? value * power : value / power) + 0.5);
}

/* The fewest digits that read back as magnitude (positive, finite): magnitude = *digits * 10^*exponent. */
static void shortest(float magnitude, uint64_t *digits, int *exponent) {
    int top = (int)floor(log10((double)magnitude));
    for (int n = 1; n <= MOST_DIGITS; n++) {
        *exponent = top + 1 - n;
        *digits = scaled(magnitude, *exponent);
        if (xcl_float_make(*digits, *exponent, "0", "0") == magnitude) break;
    }
    for (; *digits % 10 == 0; ++*exponent) *digits /= 10;
}

static char *write_float(char *out, float value) {
    if (signbit(value)) *out++ = '-';
    if (value == 0.0f) {
        *out++ = '0';
        return out;
    }
    uint64_t digits;
    int exponent;
    shortest(fabsf(value), &digits, &exponent);
    char text[20];
    int n = (int)(write_integer(text, (int64_t)digits) - text);
    int point = n + exponent; /* digits before the point */
    if (point > -4 && point <= 0) {
        memcpy(out, "0.0000", (size_t)(2 - point));
        out += 2 - point;
        point = 0;
    } else if (exponent >= 0 && point <= 9) {
        memcpy(out, text, (size_t)n);
        memset(out + n, '0', (size_t)exponent);
        return out + point;
    } else if (exponent < 0 && point > 0) {
        memcpy(out, text, (size_t)point);
        out += point;
        *out++ = '.';
    } else { /* d.ddde-7 */
        *out++ = text[0];
        if (n > 1) *out++ = '.';
        memcpy(out, text + 1, (size_t)(n - 1));
        out += n - 1;
        *out++ = 'e';
        if (point < 1) *out++ = '-';
        return write_integer(out, point < 1 ? 1 - point : point - 1);
    }
    memcpy(out, text + point, (size_t)(n - point));
    return out + n - point;
}

xcl_status xcl_rows_format(const xcl_csr *x, const xcl_csr *y, int64_t first_row, int64_t n_rows, int32_t feature_base,
                           int32_t label_base, char *text, int64_t capacity, int64_t *n_bytes) {
    *n_bytes = 0;
    int64_t last = first_row + n_rows;
    if (first_row < 0 || n_rows < 0 || last > x->n_rows || last > y->n_rows)
        return xcl_fail(XCL_ERR_ARG, "rows %lld to %lld are not there", (long long)first_row, (long long)last);
    int64_t needed = FEATURE_BYTES * (x->indptr[last] - x->indptr[first_row]) +
                     LABEL_BYTES * (y->indptr[last] - y->indptr[first_row]) + 2 * n_rows;
    if (capacity < needed) return xcl_fail(XCL_ERR_ARG, "text: %lld bytes do not suffice", (long long)capacity);
    char *out = text;
    for (int64_t i = first_row; i < last; i++) {
        for (int64_t j = y->indptr[i]; j < y->indptr[i + 1]; j++) {
            if (j > y->indptr[i]) *out++ = ',';
            out = write_integer(out, (int64_t)y->indices[j] + label_base);
        }
        for (int64_t j = x->indptr[i]; j < x->indptr[i + 1]; j++) {
            *out++ = ' ';
            out = write_integer(out, (int64_t)x->indices[j] + feature_base);
            *out++ = ':';
            out = write_float(out, x->values == NULL ? 1.0f : x->values[j]);
        }
        *out++ = '\n';
    }
    *n_bytes = out - text;
    return XCL_OK;
}
