// Functions of whole rows, compiled once for each set of vector instructions.

#pragma once

#include <cstdint>

namespace flambeau {

struct RowLoops {
  // to = exp(from) / sum(exp(from)), and its logarithm.
  void (*softmax)(std::int64_t size, const float* from, float* to);
  void (*log_softmax)(std::int64_t size, const float* from, float* to);

  // Gives max(from) and log(sum(exp(from - max(from)))).
  void (*log_sum)(std::int64_t size, const float* from, float* greatest, float* logarithm);
  // to = exp(from - greatest - logarithm) * factor
  void (*weights)(std::int64_t size, const float* from, float greatest, float logarithm,
                  float factor, float* to);

  // The gradients of the sum of results times cotangents.
  void (*softmax_gradient)(std::int64_t size, const float* results, const float* cotangents,
                           float* to);
  void (*log_softmax_gradient)(std::int64_t size, const float* results, const float* cotangents,
                               float* to);

  // to[i] = sum of from[j] over j <= i, and its gradient, over j >= i.
  void (*running_sum)(std::int64_t size, const float* from, float* to);
  void (*running_sum_gradient)(std::int64_t size, const float* from, float* to);

  // to = (from - mean(from)) / sqrt(variance(from) + epsilon) * weight + bias
  void (*standardize)(std::int64_t size, const float* from, const float* weight, const float* bias,
                      float epsilon, float* to);
  // Its gradient by `from`; those by weight and bias are added.
  void (*standardize_gradient)(std::int64_t size, const float* from, const float* weight,
                               const float* cotangents, float epsilon, float* to, float* by_weight,
                               float* by_bias);

  // The same of a group of channels, which lie one after the other and have a weight and a bias
  // each. The gradients by these are of this group alone.
  void (*standardize_group)(std::int64_t channels, std::int64_t size, const float* from,
                            const float* weight, const float* bias, float epsilon, float* to);
  void (*standardize_group_gradient)(std::int64_t channels, std::int64_t size, const float* from,
                                     const float* weight, const float* cotangents, float epsilon,
                                     float* to, float* by_weight, float* by_bias);
};

// The loops for this processor.
const RowLoops& row_loops();

}  // namespace flambeau
