/* SPDX-License-Identifier: MIT */
/* Placeholders for parts of the header that are not written yet. */
#include "xcl.h"
const char *xcl_error_text(void) { return "not written yet"; }
const char *xcl_version(void) { return "0.1.0"; }
const char *xcl_isa_list(void) { return "portable"; }
xcl_status xcl_engine_create(int32_t n_threads, const char *isa, xcl_engine **out) { (void)n_threads; (void)isa; (void)out; return XCL_ERR_STATE; }
void xcl_engine_free(xcl_engine *engine) { (void)engine; }
const char *xcl_engine_isa(const xcl_engine *engine) { (void)engine; return "portable"; }
int32_t xcl_engine_threads(const xcl_engine *engine) { (void)engine; return 1; }
