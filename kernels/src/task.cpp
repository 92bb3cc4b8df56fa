// Results of convolutions and gradients by images: which way is taken.

#include "task.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "micro.h"

namespace flambeau {
namespace {

// How a result i and element j meet: i * stride + tap * dilation - before = j.
template <typename Meet>
void for_each_meeting(const Convolution& shape, Meet meet) {
  for (int each = 0; each < 3; ++each) {
    for (std::int64_t result = 0; result < shape.result[each]; ++result) {
      for (std::int64_t tap = 0; tap < shape.kernel[each]; ++tap) {
        const std::int64_t element =
            result * shape.stride[each] + tap * shape.dilation[each] - shape.before[each];
        if (element >= 0 && element < shape.image[each]) meet(each, result, tap, element);
      }
    }
  }
}

Meetings meetings_of_results(const Convolution& shape) {
  Meetings found;
  for (int each = 0; each < 3; ++each) found[each].resize(shape.result[each]);
  for_each_meeting(shape, [&](int each, std::int64_t result, std::int64_t tap,
                              std::int64_t element) {
    found[each][result].push_back({tap, element});
  });
  return found;
}

Meetings meetings_of_images(const Convolution& shape) {
  Meetings found;
  for (int each = 0; each < 3; ++each) found[each].resize(shape.image[each]);
  for_each_meeting(shape, [&](int each, std::int64_t result, std::int64_t tap,
                              std::int64_t element) {
    found[each][element].push_back({tap, result});
  });
  return found;
}

// How long each way takes for a sample, in products of vectors.

double cost_by_positions(const Task& task) {
  // A vector that is copied takes as long as this many products, and twice as long with gaps.
  constexpr double kCopied = 8;
  const Micro& loops = micro();
  const Plan& plan = task.plan;
  double cost = plan.is_plain() ? 0 : kCopied * task.channels * plan.channel_size() / loops.lanes;
  for (const Pass& pass : plan.passes) {
    const double vectors = ceil_div(plan.positions(pass), loops.lanes);
    cost += vectors * round_up(task.rows, loops.rows) * task.channels * pass.taps.size();
    if (!plan.is_dense(pass, task.target)) {
      cost += (pass.step[2] > 1 ? 2 : 1) * kCopied * vectors * task.rows;
    }
  }
  return cost;
}

double cost_by_filters(const Task& task) {
  double cost = 0;
  for (const Pass& pass : task.plan.passes) {
    // Bringing the positions side by side takes about as long as two vectors.
    const double vectors = ceil_div(task.rows, micro().lanes) + 2;
    cost += vectors * product_of(pass.count) * task.channels * pass.taps.size();
  }
  return cost;
}

double cost_interleaved(const Task& task, std::int64_t samples) {
  // A vector that is turned round takes as long as this many products.
  constexpr double kTurned = 12;
  const Micro& loops = micro();
  const double infinity = std::numeric_limits<double>::infinity();
  double meetings = 1;
  Sizes reach;  // from the first to the last element that one of the target reads
  for (int each = 0; each < 3; ++each) {
    std::size_t all = 0;
    reach[each] = 0;
    for (const auto& own : task.meetings[each]) {
      all += own.size();
      if (own.empty()) continue;
      reach[each] = std::max(reach[each], std::abs(own.back().place - own.front().place));
    }
    meetings *= all;
  }
  const double line = double(task.plan.source[2]) * task.channels * loops.lanes;
  const double more = reach[0] * task.plan.source[1] + reach[1];
  const double distance = double(loops.lanes) * task.groups * task.rows * product_of(task.target);
  // Places are 32-bit numbers.
  constexpr double kFurthest = std::numeric_limits<std::int32_t>::max();
  if (line * (more + 1) > 8 * kStrip || distance > kFurthest) return infinity;
  double cost = meetings * task.channels * round_up(task.rows, loops.rows);
  // Where a line does not stay in the cache, products take longer.
  if (line * (more + 1) > kStrip) cost *= 1.2;
  // Strips read some lines that others have read as well.
  const double strip = std::max(1.0, kStrip / line - more);
  const double read = task.channels * product_of(task.plan.source) * (strip + more) / strip;
  cost += kTurned * (read + task.rows * product_of(task.target));
  return cost * ceil_div(samples, loops.lanes) / samples;
}

void run(const Task& task, std::int64_t samples, const float* source, float* results,
         const Pool& pool) {
  const double by_positions = cost_by_positions(task), by_filters = cost_by_filters(task);
  if (cost_interleaved(task, samples) < std::min(by_positions, by_filters)) {
    run_interleaved(task, samples, source, results, pool);
  } else if (by_filters < by_positions) {
    run_by_filters(task, samples, source, results, pool);
  } else {
    run_by_positions(task, samples, source, results, pool);
  }
}

}  // namespace

std::vector<std::int32_t> offsets_of(const Plan& plan, const Pass& pass, std::int64_t channels) {
  std::vector<std::int32_t> found;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (const std::int64_t shift : pass.shifts) {
      found.push_back(static_cast<std::int32_t>(channel * plan.channel_size() + shift));
    }
  }
  return found;
}

void convolve(const Convolution& shape, const float* images, const float* filters, float* results,
              const Pool& pool) {
  const std::int64_t taps = product_of(shape.kernel);
  const auto filters_of = [&](std::int64_t group) {
    return Filters{filters + group * shape.outputs * shape.inputs * taps, shape.outputs,
                   shape.inputs * taps, shape.inputs, taps};
  };
  run({plan_of_results(shape), meetings_of_results(shape), shape.kernel, shape.groups,
       shape.inputs, shape.outputs, shape.result, filters_of},
      shape.samples, images, results, pool);
}

void convolve_images(const Convolution& shape, const float* cotangents, const float* filters,
                     float* images, const Pool& pool) {
  const std::int64_t taps = product_of(shape.kernel);
  const auto filters_of = [&](std::int64_t group) {
    return Filters{filters + group * shape.outputs * shape.inputs * taps, shape.inputs, taps,
                   shape.outputs, shape.inputs * taps};
  };
  // Each element belongs to one pass, also if no tap reaches it.
  run({plan_of_images(shape), meetings_of_images(shape), shape.kernel, shape.groups,
       shape.outputs, shape.inputs, shape.image, filters_of},
      shape.samples, cotangents, images, pool);
}

}  // namespace flambeau
