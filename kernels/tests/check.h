// What the checks have in common.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "pool.h"

inline std::mt19937 random_bits;

inline std::int64_t between(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random_bits);
}

// Exactly as large as the array, so that a sanitizer sees any access beyond it.
inline std::vector<float> numbers(std::int64_t count) {
  std::vector<float> found(count);
  // Small integers: sums of products are exact in any order.
  for (float& each : found) each = static_cast<float>(between(-3, 3));
  return found;
}

// Each computes one random problem, and exits where the kernels give something else.
void check_attention(const flambeau::Pool& pool);
void check_channels(const flambeau::Pool& pool);
void check_convolution(const flambeau::Pool& pool);
void check_maxima(const flambeau::Pool& pool);
void check_recurrence(const flambeau::Pool& pool);
void check_rows(const flambeau::Pool& pool);
void check_updates(const flambeau::Pool& pool);
