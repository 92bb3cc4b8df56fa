// Vectors of one set of instructions, for files that are compiled once for each.
//
// Nothing of the standard library may be instantiated in them: the linker keeps one copy of a
// function, which might be one that this processor cannot run.

#pragma once

#include <cstddef>
#include <cstdint>

namespace flambeau {
namespace {

constexpr int kLanes = FLAMBEAU_LANES;

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::uint32_t Integers __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::int32_t Signed __attribute__((vector_size(kLanes * sizeof(float))));
// The same at any address.
typedef float Unaligned __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float))));

inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = value; }

// The first `count` lanes; the others are 0.
inline Vector load_part(const float* from, int count) {
  Vector found = {};
  for (int lane = 0; lane < count; ++lane) found[lane] = from[lane];
  return found;
}
inline void store_part(float* to, Vector value, int count) {
  for (int lane = 0; lane < count; ++lane) to[lane] = value[lane];
}

// All lanes, or the first `count`.
inline Vector read(const float* from, int count) {
  return count == kLanes ? load(from) : load_part(from, count);
}

inline void write(float* to, Vector value, int count) {
  if (count == kLanes) {
    store(to, value);
  } else {
    store_part(to, value, count);
  }
}

template <int kCount>
struct Lanes {
  typedef float All __attribute__((vector_size(kCount * sizeof(float))));
  typedef float Half __attribute__((vector_size(kCount / 2 * sizeof(float))));
  static float sum(All value) {
    Half low, high;
    __builtin_memcpy(&low, &value, sizeof(Half));
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&value) + sizeof(Half), sizeof(Half));
    return Lanes<kCount / 2>::sum(low + high);
  }
};
template <>
struct Lanes<2> {
  typedef float All __attribute__((vector_size(2 * sizeof(float))));
  static float sum(All value) { return value[0] + value[1]; }
};

inline float sum_of(Vector value) { return Lanes<kLanes>::sum(value); }

// e to the power of a number as (1 + excess) * scale.
struct Power {
  Vector excess;
  Vector scale;
};

// The scale is 2^n, and 1 + excess is e^r with |r| <= log(2) / 2, by a polynomial through its values at
// the nodes of Chebyshev's: the relative error is 3e-9 before rounding. Numbers are at most 88 and at
// least -87.
inline Power power_of(Vector x) {
  // Added to a number, it leaves the nearest integer in the lowest bits.
  constexpr float kShift = 12582912.0f;
  const Vector shifted = x * 1.44269504f + kShift;
  const Vector n = shifted - kShift;
  // log(2) in two parts, of which n times the first is exact.
  const Vector r = x - n * 0.693359375f + n * 2.12194440e-4f;
  Vector power = r * 0.00139412131f + 0.00837521020f;
  power = power * r + 0.0416663516f;
  power = power * r + 0.166664144f;
  power = power * r + 0.500000005f;
  power = power * r + 1.0f;
  const Integers two_to_n = (reinterpret_cast<Integers>(shifted) << 23) + (127u << 23);
  return {power * r, reinterpret_cast<Vector>(two_to_n)};
}

// e to the power of each number, which is at most 88; 0 below -87.
inline Vector exponential(Vector x) {
  const Power power = power_of(x);
  const Vector found = (power.excess + 1.0f) * power.scale;
  return x < -87.0f ? Vector{} : found;
}

}  // namespace
}  // namespace flambeau
