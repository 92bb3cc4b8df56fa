// Compiled several times: FLAMBEAU_UPDATE_LOOPS names the result. The compiler makes vectors of these
// loops: no element depends on another one, although results may be where the old values are.

#include "updates.h"

namespace flambeau {
namespace {

void adam(std::int64_t first, std::int64_t last, const AdamNumbers& given,
          const AdamArrays& arrays) {
  const AdamNumbers n = given;
  const AdamArrays a = arrays;
  const float sign = n.maximize ? -1.0f : 1.0f;
  const bool grows = n.decay != 0 && !n.decoupled, decays = n.decay != 0 && n.decoupled;
#pragma GCC ivdep
  for (std::int64_t i = first; i < last; ++i) {
    const float param = a.param[i];
    float grad = sign * a.grad[i];
    if (grows) grad += n.decay * param;
    const float average = n.rest1 * grad + n.beta1 * a.average[i];
    const float square = n.rest2 * grad * grad + n.beta2 * a.square[i];
    float update = average * n.scale1 / (__builtin_sqrtf(square * n.scale2) + n.epsilon);
    if (decays) update += n.decay * param;
    a.new_average[i] = average;
    a.new_square[i] = square;
    a.new_param[i] = param - n.rate * update;
  }
}

template <bool kHasBuffer>
void sgd_with(std::int64_t first, std::int64_t last, const SgdNumbers n, const SgdArrays a) {
  const float sign = n.maximize ? -1.0f : 1.0f;
#pragma GCC ivdep
  for (std::int64_t i = first; i < last; ++i) {
    const float param = a.param[i];
    float grad = sign * a.grad[i];
    if (n.decay != 0) grad += n.decay * param;
    if constexpr (kHasBuffer) {
      const float buffer = grad + n.momentum * a.buffer[i];
      a.new_buffer[i] = buffer;
      grad = n.nesterov ? grad + n.momentum * buffer : buffer;
    }
    a.new_param[i] = param - n.rate * grad;
  }
}

void sgd(std::int64_t first, std::int64_t last, const SgdNumbers& numbers,
         const SgdArrays& arrays) {
  (arrays.buffer == nullptr ? sgd_with<false> : sgd_with<true>)(first, last, numbers, arrays);
}

float sum_of_squares(std::int64_t first, std::int64_t last, const float* from) {
  // Several sums side by side, since each addition waits for the one before.
  constexpr int kSums = 4 * FLAMBEAU_LANES;
  float sums[kSums] = {};
  std::int64_t i = first;
  for (; i + kSums <= last; i += kSums) {
    for (int each = 0; each < kSums; ++each) sums[each] += from[i + each] * from[i + each];
  }
  float total = 0;
  for (; i < last; ++i) total += from[i] * from[i];
  for (const float each : sums) total += each;
  return total;
}

void scale(std::int64_t first, std::int64_t last, float factor, const float* from, float* to) {
#pragma GCC ivdep
  for (std::int64_t i = first; i < last; ++i) to[i] = factor * from[i];
}

}  // namespace

extern const UpdateLoops FLAMBEAU_UPDATE_LOOPS;
const UpdateLoops FLAMBEAU_UPDATE_LOOPS = {adam, sgd, sum_of_squares, scale};

}  // namespace flambeau
