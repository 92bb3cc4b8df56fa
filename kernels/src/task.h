// What is computed for all samples and groups: the results, or the gradient by the images.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan.h"

namespace flambeau {

// What a task reads of one group's filters: how they lie in memory.
struct Filters {
  const float* data;
  std::int64_t rows;
  std::int64_t row_step;
  std::int64_t channels;
  std::int64_t channel_step;

  // The taps of one row and channel.
  const float* at(std::int64_t row, std::int64_t channel) const {
    return data + row * row_step + channel * channel_step;
  }
};

struct Task {
  Plan plan;
  std::int64_t groups;
  std::int64_t channels;  // of the source, in each group
  std::int64_t rows;      // channels of the target, in each group
  Sizes target;
  std::function<Filters(std::int64_t)> filters_of;
};

// Where the terms of a pass begin in the copy of a sample.
std::vector<std::int32_t> offsets_of(const Plan& plan, const Pass& pass, std::int64_t channels);

// Computes a task whose images are small.
void run_short(const Task& task, std::int64_t samples, const float* source, float* results,
               const Pool& pool);

}  // namespace flambeau
