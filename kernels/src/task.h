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

// A tap, and the element of the source that it reads.
struct Meeting {
  std::int64_t tap;
  std::int64_t place;
};
// In each dimension, those of each element of the target.
using Meetings = std::array<std::vector<std::vector<Meeting>>, 3>;

struct Task {
  Plan plan;
  Meetings meetings;
  Sizes kernel;
  std::int64_t groups;
  std::int64_t channels;  // of the source, in each group
  std::int64_t rows;      // channels of the target, in each group
  Sizes target;
  std::function<Filters(std::int64_t)> filters_of;
};

// Where the terms of a pass begin in the copy of a sample.
std::vector<std::int32_t> offsets_of(const Plan& plan, const Pass& pass, std::int64_t channels);

// How many numbers of the source lie side by side at once: most of a core's cache.
constexpr std::int64_t kStrip = 192 * 1024;

// Computes a task with vectors of positions, of samples, or of filters.
void run_by_positions(const Task& task, std::int64_t samples, const float* source, float* results,
                      const Pool& pool);
void run_interleaved(const Task& task, std::int64_t samples, const float* source, float* results,
                     const Pool& pool);
void run_by_filters(const Task& task, std::int64_t samples, const float* source, float* results,
                    const Pool& pool);

}  // namespace flambeau
