// Products of small matrices and what attention computes between them, compiled once for each set
// of vector instructions.

#pragma once

#include <cstdint>

namespace flambeau {

// out[i][j] = sum over t of left[i * left_row + t * left_term] * right[t * right_row + j],
// or that much more where it adds.
//
// `right` can be read up to a whole number of vectors behind each row's begin; only `columns` of
// `out` are read and written.
struct Factors {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t terms;
  const float* left;
  std::int64_t left_row;
  std::int64_t left_term;
  const float* right;
  std::int64_t right_row;
  float* out;
  std::int64_t out_row;
  bool adds;
};

struct MatrixLoops {
  int lanes;

  void (*multiply)(const Factors& factors);

  // One more block of keys in the softmax over keys, of which each of the columns has its own: its
  // scores become exp(score - greatest). What was summed before has to be multiplied by `factor`.
  // `columns` is a multiple of `lanes`, as below.
  void (*weigh)(std::int64_t keys, std::int64_t columns, float* scores, float* greatest,
                float* total, float* factor);

  // The scores become weights w = exp(score - shift) * factor, and the slopes of the weights those
  // of the scores, w * (slope - mean).
  void (*weigh_again)(std::int64_t keys, std::int64_t columns, float* scores, float* slopes,
                      const float* shift, const float* factor, const float* mean);
};

// The loops for this processor.
const MatrixLoops& matrix_loops();

}  // namespace flambeau
