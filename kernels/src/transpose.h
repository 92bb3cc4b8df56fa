// Turning small matrices round.

#pragma once

#include <cstdint>
#include <cstring>

namespace flambeau {

// to[column * to_row + row] = from[row * from_row + column]
inline void transpose(std::int64_t rows, std::int64_t columns, const float* from,
                      std::int64_t from_row, float* to, std::int64_t to_row) {
  typedef float Four __attribute__((vector_size(16)));
  const std::int64_t whole_rows = rows - rows % 4, whole_columns = columns - columns % 4;
  for (std::int64_t row = 0; row < whole_rows; row += 4) {
    for (std::int64_t column = 0; column < whole_columns; column += 4) {
      Four a, b, c, d;
      const float* source = from + row * from_row + column;
      std::memcpy(&a, source, 16);
      std::memcpy(&b, source + from_row, 16);
      std::memcpy(&c, source + 2 * from_row, 16);
      std::memcpy(&d, source + 3 * from_row, 16);
      const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
      b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
      c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
      d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
      float* target = to + column * to_row + row;
      std::memcpy(target, &a, 16);
      std::memcpy(target + to_row, &b, 16);
      std::memcpy(target + 2 * to_row, &c, 16);
      std::memcpy(target + 3 * to_row, &d, 16);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = row < whole_rows ? whole_columns : 0;
    for (std::int64_t column = begin; column < columns; ++column) {
      to[column * to_row + row] = from[row * from_row + column];
    }
  }
}

}  // namespace flambeau
