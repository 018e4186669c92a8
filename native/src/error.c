/* The reason for the last failure of a thread. SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include "internal.h"

static _Thread_local char error_text[512];

xcl_status xcl_fail(xcl_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error_text, sizeof error_text, format, args);
    va_end(args);
    return code;
}

const char *xcl_error_text(void) { return error_text; }
const char *xcl_version(void) { return "0.1.0"; }
