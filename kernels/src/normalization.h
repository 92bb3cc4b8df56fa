// Functions of the rows of a matrix, in single precision.

#pragma once

#include <cstdint>

#include "pool.h"
#include "share.h"

namespace flambeau {

// One of the functions of a row by itself.
using OfRow = void (*)(std::int64_t size, const float* from, float* to);
void map_rows(OfRow function, const Rows& rows, const float* from, float* to, const Pool& pool);

// One of their gradients.
using OfTwoRows = void (*)(std::int64_t size, const float* results, const float* cotangents,
                           float* to);
void map_two_rows(OfTwoRows function, const Rows& rows, const float* results,
                  const float* cotangents, float* to, const Pool& pool);

// The logarithm of the sum of each row's exponentials, in two parts: the greatest element, and the
// logarithm where that is subtracted.
void log_sums(const Rows& rows, const float* from, float* greatest, float* logarithms,
              const Pool& pool);

// What log_sums has been given and has found, an element of each row, and the cotangents of the
// negative logarithms of these elements' shares in the exponentials.
struct CrossEntropy {
  const float *from, *greatest, *logarithms;
  const std::int32_t* targets;  // no element if outside the row
  const float* cotangents;
};
// The gradient by the rows.
void cross_entropy_gradient(const Rows& rows, const CrossEntropy& given, float* to,
                            const Pool& pool);

// Each row with mean 0 and variance 1, scaled and shifted.
void standardize_rows(const Rows& rows, const float* from, const float* weight, const float* bias,
                      float epsilon, float* to, const Pool& pool);

// The gradients of the sum of results times cotangents.
struct Slopes {
  float* rows;
  float* weight;
  float* bias;
};
void standardize_rows_gradients(const Rows& rows, const float* from, const float* weight,
                                const float* cotangents, float epsilon, const Slopes& to,
                                const Pool& pool);

// Arrays (samples, channels, size), whose channels are divided into groups.
struct Groups {
  std::int64_t samples;
  std::int64_t channels;
  std::int64_t size;
  std::int64_t count;  // in each sample
};

// Each group of each sample with mean 0 and variance 1, scaled and shifted by channels.
void standardize_groups(const Groups& groups, const float* from, const float* weight,
                        const float* bias, float epsilon, float* to, const Pool& pool);
void standardize_groups_gradients(const Groups& groups, const float* from, const float* weight,
                                  const float* cotangents, float epsilon, const Slopes& to,
                                  const Pool& pool);

// Each channel of arrays (samples, channels, size) with mean 0 and variance 1 over all samples,
// scaled and shifted; `mean` and `variance` are what it had. Rows of `size` are not shorter than
// `kShortestRow`.
struct Channels {
  std::int64_t samples;
  std::int64_t count;
  std::int64_t size;
};
void standardize_channels(const Channels& channels, const float* from, const float* weight,
                          const float* bias, float epsilon, float* to, float* mean,
                          float* variance, const Pool& pool);
void standardize_channels_gradients(const Channels& channels, const float* from,
                                    const float* weight, const float* mean, const float* variance,
                                    const float* cotangents, float epsilon, const Slopes& to,
                                    const Pool& pool);

}  // namespace flambeau
