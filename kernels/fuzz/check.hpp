// A finding: what a target says before it stops, so that the report names the law that was broken.
#pragma once

#include <cstdio>
#include <cstdlib>

#define LABKIT_FUZZ_CHECK(condition)                                                            \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);       \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
