// Steps of optimizers and the clipping of gradients, over many arrays in one pass.

#pragma once

#include <cstdint>
#include <vector>

#include "pool.h"

namespace flambeau {

// What a step of Adam multiplies with, for parameters that have made equally many steps.
struct AdamNumbers {
  float rate, epsilon, decay;
  float beta1, rest1, beta2, rest2;  // the rests are 1 - beta
  float scale1, scale2;              // 1 / (1 - beta^steps)
  bool decoupled;                    // whether the weights decay, instead of the gradient growing
  bool maximize;
};

struct SgdNumbers {
  float rate, momentum, decay;
  bool nesterov, maximize;
};

// The arrays of one parameter. Results may be where the old values are.
struct AdamArrays {
  const float *param, *grad, *average, *square;
  float *new_param, *new_average, *new_square;
};

struct SgdArrays {
  const float *param, *grad, *buffer;  // no buffer, no momentum
  float *new_param, *new_buffer;
};

// Loops over a part of an array, compiled once for each set of vector instructions.
struct UpdateLoops {
  void (*adam)(std::int64_t first, std::int64_t last, const AdamNumbers&, const AdamArrays&);
  void (*sgd)(std::int64_t first, std::int64_t last, const SgdNumbers&, const SgdArrays&);
  float (*sum_of_squares)(std::int64_t first, std::int64_t last, const float* from);
  void (*scale)(std::int64_t first, std::int64_t last, float factor, const float* from, float* to);
};

// The loops for this processor.
const UpdateLoops& update_loops();

using Sizes = std::vector<std::int64_t>;

// One step for arrays of these sizes.
void adam(const Sizes& sizes, const std::vector<AdamNumbers>& numbers,
          const std::vector<AdamArrays>& arrays, const Pool& pool);
void sgd(const Sizes& sizes, const SgdNumbers& numbers, const std::vector<SgdArrays>& arrays,
         const Pool& pool);

// The norm of all arrays as one vector; the same for any number of threads.
float norm(const Sizes& sizes, const std::vector<const float*>& from, const Pool& pool);

void scale(const Sizes& sizes, float factor, const std::vector<const float*>& from,
           const std::vector<float*>& to, const Pool& pool);

}  // namespace flambeau
