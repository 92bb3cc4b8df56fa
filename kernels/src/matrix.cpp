// Compiled several times: FLAMBEAU_MATRIX names the result, and a block of sums fills the registers
// of the instruction set.

#include "matrix.h"

#include "vector.h"

namespace flambeau {
namespace {

constexpr int kRows = FLAMBEAU_ROWS;
constexpr int kVectors = FLAMBEAU_VECTORS;

// A block of the product. The last of its vectors has `last` lanes.
template <int kHeight, int kCount>
void block(const Factors& f, std::int64_t row, std::int64_t column, int last) {
  const float* left = f.left + row * f.left_row;
  const float* right = f.right + column;
  Vector sums[kHeight][kCount] = {};
  for (std::int64_t term = 0; term < f.terms; ++term) {
    Vector values[kCount];
    for (int each = 0; each < kCount; ++each) values[each] = load(right + each * kLanes);
    for (int i = 0; i < kHeight; ++i) {
      const float factor = left[i * f.left_row];
      for (int each = 0; each < kCount; ++each) sums[i][each] += factor * values[each];
    }
    left += f.left_term;
    right += f.right_row;
  }
  for (int i = 0; i < kHeight; ++i) {
    float* out = f.out + (row + i) * f.out_row + column;
    for (int each = 0; each < kCount; ++each, out += kLanes) {
      if (each < kCount - 1 || last == kLanes) {
        store(out, f.adds ? load(out) + sums[i][each] : sums[i][each]);
      } else {
        const Vector before = f.adds ? load_part(out, last) : Vector{};
        store_part(out, before + sums[i][each], last);
      }
    }
  }
}

template <int kHeight>
void blocks(const Factors& f, std::int64_t row, std::int64_t column, int count, int last) {
  for (; row + kHeight <= f.rows; row += kHeight) {
    switch (count) {
      case 1: block<kHeight, 1>(f, row, column, last); break;
      case 2: block<kHeight, 2>(f, row, column, last); break;
      default: block<kHeight, kVectors>(f, row, column, last);
    }
  }
  if constexpr (kHeight > 1) blocks<kHeight / 2>(f, row, column, count, last);
}

void multiply(const Factors& factors) {
  static_assert(kVectors == 3, "one case for each count");
  const std::int64_t vectors = (factors.columns + kLanes - 1) / kLanes;
  // Four vectors are two and two: a block of one loads a factor for each product.
  std::int64_t parts = (vectors + kVectors - 1) / kVectors;
  for (std::int64_t done = 0; parts > 0; --parts) {
    const std::int64_t count = (vectors - done + parts - 1) / parts;
    const std::int64_t left = factors.columns - (done + count - 1) * kLanes;
    blocks<kRows>(factors, 0, done * kLanes, static_cast<int>(count),
                  static_cast<int>(left < kLanes ? left : kLanes));
    done += count;
  }
}

void weigh(std::int64_t keys, std::int64_t columns, float* scores, float* greatest, float* total,
           float* factor) {
  for (std::int64_t column = 0; column < columns; column += kLanes) {
    float* own = scores + column;
    const Vector before = load(greatest + column);
    Vector most = before;
    for (std::int64_t key = 0; key < keys; ++key) {
      const Vector score = load(own + key * columns);
      most = score > most ? score : most;
    }
    // Where all is hidden, the weights are 0 as well.
    const Vector shift = most == -__builtin_inff() ? Vector{} : most;
    const Vector shrunk = exponential(before - shift);
    Vector sum = load(total + column) * shrunk;
    for (std::int64_t key = 0; key < keys; ++key) {
      const Vector weight = exponential(load(own + key * columns) - shift);
      store(own + key * columns, weight);
      sum += weight;
    }
    store(greatest + column, most);
    store(total + column, sum);
    store(factor + column, shrunk);
  }
}

void weigh_again(std::int64_t keys, std::int64_t columns, float* scores, float* slopes,
                 const float* shift, const float* factor, const float* mean) {
  for (std::int64_t column = 0; column < columns; column += kLanes) {
    const Vector from = load(shift + column), scale = load(factor + column);
    const Vector middle = load(mean + column);
    for (std::int64_t key = 0; key < keys; ++key) {
      const std::int64_t at = key * columns + column;
      const Vector weight = exponential(load(scores + at) - from) * scale;
      store(scores + at, weight);
      store(slopes + at, weight * (load(slopes + at) - middle));
    }
  }
}

}  // namespace

extern const MatrixLoops FLAMBEAU_MATRIX;
const MatrixLoops FLAMBEAU_MATRIX = {kLanes, multiply, weigh, weigh_again};

}  // namespace flambeau
