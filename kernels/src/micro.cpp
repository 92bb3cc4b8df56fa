// Compiled several times: FLAMBEAU_MICRO names the result, and the shape of a block is chosen so
// that its sums fill the registers of the instruction set.

#include "micro.h"

#include "vector.h"

namespace flambeau {
namespace {

constexpr int kRows = FLAMBEAU_ROWS;
constexpr int kVectors = FLAMBEAU_VECTORS;
constexpr int kLeft = FLAMBEAU_LEFT;
constexpr int kRight = FLAMBEAU_RIGHT;

template <int kCount>
void product_of(std::int64_t terms, const float* weights, const std::int32_t* offsets,
                const float* image, float* out, std::int64_t pitch) {
  Vector sums[kRows][kCount] = {};
  for (std::int64_t term = 0; term < terms; ++term) {
    const float* columns = image + offsets[term];
    Vector values[kCount];
    for (int each = 0; each < kCount; ++each) values[each] = load(columns + each * kLanes);
    for (int row = 0; row < kRows; ++row) {
      const float weight = weights[term * kRows + row];
      for (int each = 0; each < kCount; ++each) sums[row][each] += weight * values[each];
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int each = 0; each < kCount; ++each) {
      store(out + row * pitch + each * kLanes, sums[row][each]);
    }
  }
}

void product(std::int64_t terms, const float* weights, const std::int32_t* offsets,
             const float* image, float* out, std::int64_t pitch, int count) {
  static_assert(kVectors >= 1 && kVectors <= 4, "one case for each count");
  switch (count) {
    case 1: return product_of<1>(terms, weights, offsets, image, out, pitch);
    case 2: return product_of<kVectors < 2 ? 1 : 2>(terms, weights, offsets, image, out, pitch);
    case 3: return product_of<kVectors < 3 ? 1 : 3>(terms, weights, offsets, image, out, pitch);
    default: return product_of<kVectors>(terms, weights, offsets, image, out, pitch);
  }
}

void gradient(std::int64_t samples, std::int64_t positions, const float* const* left,
              std::int64_t left_pitch, const float* const* right, std::int64_t right_pitch,
              float* sums) {
  Vector total[kLeft][kRight] = {};
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    for (std::int64_t position = 0; position < positions; position += kLanes) {
      Vector values[kRight];
      for (int j = 0; j < kRight; ++j) {
        values[j] = load(right[j] + sample * right_pitch + position);
      }
      for (int i = 0; i < kLeft; ++i) {
        const Vector value = load(left[i] + sample * left_pitch + position);
        for (int j = 0; j < kRight; ++j) total[i][j] += value * values[j];
      }
    }
  }
  for (int i = 0; i < kLeft; ++i) {
    for (int j = 0; j < kRight; ++j) {
      float sum = 0;
      for (int lane = 0; lane < kLanes; ++lane) sum += total[i][j][lane];
      sums[i * kRight + j] += sum;
    }
  }
}

}  // namespace

extern const Micro FLAMBEAU_MICRO;
const Micro FLAMBEAU_MICRO = {FLAMBEAU_NAME, kRows, kLanes,  kVectors, product,
                              kLeft,         kRight, gradient};

}  // namespace flambeau
