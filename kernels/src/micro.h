// The innermost loops, which are compiled once for each set of vector instructions.

#pragma once

#include <cstddef>
#include <cstdint>

namespace flambeau {

constexpr int kMostVectors = 4, kMostLanes = 16;

// Terms of a sum: in each run, the same number of them. Term t of a run reads its weights
// t * rows behind those of the run, and its column offsets[t] behind that of the run.
struct Run {
  std::int64_t weights;
  std::int64_t column;
};
struct Terms {
  const Run* runs;
  std::int64_t run_count;
  const std::int32_t* offsets;
  std::int64_t count;  // of each run
};

// A vector of columns: where it is read, and where its first row of sums goes.
struct Column {
  const float* from;
  float* to;
};

// The loops of one instruction set.
struct Micro {
  const char* name;

  // `product` computes this many rows at once, and this many columns for each of its vectors.
  int rows;
  int lanes;
  int vectors;
  // columns[each].to[row * pitch + lane] =
  //     sum over terms of weights[row] * columns[each].from[lane],
  // for `count` columns, at most `vectors`. The terms say where weights and columns are read.
  void (*product)(const Terms& terms, const float* weights, const Column* columns,
                  std::int64_t pitch, int count);

  // to[places[column] + row] = from[row * pitch + column], for at most `lanes` rows and columns.
  void (*transpose)(int rows, int columns, const float* from, std::int64_t pitch, float* to,
                    const std::int32_t* places);

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
