// Compiled several times: FLAMBEAU_MICRO names the result, and the shape of a block is chosen so
// that its sums fill the registers of the instruction set.

#include "micro.h"

#include <utility>

#include "vector.h"

namespace flambeau {
namespace {

constexpr int kRows = FLAMBEAU_ROWS;
constexpr int kVectors = FLAMBEAU_VECTORS;
constexpr int kLeft = FLAMBEAU_LEFT;
constexpr int kRight = FLAMBEAU_RIGHT;

template <int kCount>
void product_of(const Terms& terms, const float* weights, const Column* columns,
                std::int64_t pitch) {
  Vector sums[kRows][kCount] = {};
  for (const Run* run = terms.runs; run != terms.runs + terms.run_count; ++run) {
    const float* own = weights + run->weights;
    const float* from[kCount];
    for (int each = 0; each < kCount; ++each) from[each] = columns[each].from + run->column;
    for (std::int64_t term = 0; term < terms.count; ++term, own += kRows) {
      Vector values[kCount];
      const std::int32_t offset = terms.offsets[term];
      for (int each = 0; each < kCount; ++each) values[each] = load(from[each] + offset);
      for (int row = 0; row < kRows; ++row) {
        for (int each = 0; each < kCount; ++each) sums[row][each] += own[row] * values[each];
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int each = 0; each < kCount; ++each) {
      store(columns[each].to + row * pitch, sums[row][each]);
    }
  }
}

void product(const Terms& terms, const float* weights, const Column* columns, std::int64_t pitch,
             int count) {
  static_assert(kVectors >= 1 && kVectors <= kMostVectors && kLanes <= kMostLanes, "");
  switch (count) {
    case 1: return product_of<1>(terms, weights, columns, pitch);
    case 2: return product_of<kVectors < 2 ? 1 : 2>(terms, weights, columns, pitch);
    case 3: return product_of<kVectors < 3 ? 1 : 3>(terms, weights, columns, pitch);
    default: return product_of<kVectors>(terms, weights, columns, pitch);
  }
}

// The numbers of two vectors in turn, of their first or their second halves.
template <std::size_t... kAt>
void zip(const Vector& a, const Vector& b, Vector& low, Vector& high, std::index_sequence<kAt...>) {
  low = __builtin_shufflevector(a, b, (kAt / 2 + kAt % 2 * kLanes)...);
  high = __builtin_shufflevector(a, b, (kLanes / 2 + kAt / 2 + kAt % 2 * kLanes)...);
}

// Zipping the first half of the rows with the second one turns the bits of row and column by one
// place, so as many times as there are bits turn the matrix round.
void turn(Vector (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int size = 1; size < kLanes; size *= 2) {
    Vector zipped[kLanes];
    for (int row = 0; row < kLanes / 2; ++row) {
      zip(rows[row], rows[row + kLanes / 2], zipped[2 * row], zipped[2 * row + 1],
          std::make_index_sequence<kLanes>());
    }
    for (int row = 0; row < kLanes; ++row) rows[row] = zipped[row];
  }
}

void transpose(int rows, int columns, const float* from, std::int64_t pitch, float* to,
               const std::int32_t* places) {
  Vector own[kLanes];
  if (rows == kLanes && columns == kLanes) {
    for (int row = 0; row < kLanes; ++row) own[row] = load(from + row * pitch);
    turn(own);
    for (int column = 0; column < kLanes; ++column) store(to + places[column], own[column]);
  } else {
    for (int row = 0; row < kLanes; ++row) {
      own[row] = row < rows ? load_part(from + row * pitch, columns) : Vector{};
    }
    turn(own);
    for (int column = 0; column < columns; ++column) {
      store_part(to + places[column], own[column], rows);
    }
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
const Micro FLAMBEAU_MICRO = {FLAMBEAU_NAME, kRows, kLanes, kVectors, product,
                              transpose,       kLeft,   kRight, gradient};

}  // namespace flambeau
