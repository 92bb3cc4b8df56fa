// The innermost loops, which are compiled once for each set of vector instructions.

#pragma once

#include <cstddef>
#include <cstdint>

namespace flambeau {

// The loops of one instruction set.
struct Micro {
  const char* name;

  // `product` computes this many rows at once, and this many columns for each of its vectors.
  int rows;
  int lanes;
  int vectors;
  // out[row * pitch + column] = sum over term of
  //     weights[term * rows + row] * image[offsets[term] + column],
  // for `count` vectors of columns, at most `vectors`.
  void (*product)(std::int64_t terms, const float* weights, const std::int32_t* offsets,
                  const float* image, float* out, std::int64_t pitch, int count);

  // `gradient` computes this many rows and columns at once.
  int left_rows;
  int right_rows;
  // sums[i * right_rows + j] += sum over sample, position of
  //     left[i][sample * left_pitch + position] * right[j][sample * right_pitch + position].
  // `positions` is a multiple of `lanes`.
  void (*gradient)(std::int64_t samples, std::int64_t positions, const float* const* left,
                   std::int64_t left_pitch, const float* const* right, std::int64_t right_pitch,
                   float* sums);
};

// The loops for this processor.
const Micro& micro();

}  // namespace flambeau
