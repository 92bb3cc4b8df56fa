// Normalization of channels over all samples.
//
// The rows of a channel often lie a power of two apart, and then few of them find room in a cache at
// the same time. So threads go over the samples in the order of memory, a few rows of each of their
// channels at a time.

#include <algorithm>
#include <cmath>
#include <vector>

#include "channels.h"
#include "normalization.h"
#include "share.h"

namespace flambeau {
namespace {

// How many numbers are summed in single precision. The sums of such parts are summed in double.
constexpr std::int64_t kPart = 4096;

// Calls body(first, last) for ranges of the channels, of which threads have one each.
template <typename Body>
void share_channels(const Pool& pool, const Channels& channels, Body body) {
  const Rows all{channels.count, channels.samples * channels.size};
  share(pool, all, parts_of(pool, all),
        [&](std::int64_t, std::int64_t first, std::int64_t last) { body(first, last); });
}

// Calls body(channel, each, at) for a few rows of each channel at a time, which begin at a place.
template <typename Body>
void for_each_part(const Channels& channels, std::int64_t first, std::int64_t last, Body body) {
  const std::int64_t pitch = channels.count * channels.size;
  const std::int64_t rows = std::max<std::int64_t>(kPart / channels.size, 1);
  for (std::int64_t sample = 0; sample < channels.samples; sample += rows) {
    const std::int64_t samples = std::min(rows, channels.samples - sample);
    // Where a row alone is longer, it is taken in parts too.
    for (std::int64_t begin = 0; begin < channels.size;) {
      const std::int64_t left = channels.size - begin;
      const std::int64_t size = left < kPart + kShortestRow ? left : kPart;
      for (std::int64_t each = first; each < last; ++each) {
        body(Channel{samples, size, pitch}, each, sample * pitch + each * channels.size + begin);
      }
      begin += size;
    }
  }
}

void add(Totals& to, const Totals& more) {
  to.first += more.first;
  to.second += more.second;
}

float scale_of(float variance, float epsilon) { return 1.0f / std::sqrt(variance + epsilon); }

// The moments of the channels from `first` on. Returns whether all pivots were near the means.
bool find_moments(const Channels& channels, const float* from, std::int64_t first,
                  const std::vector<float>& pivots, float* mean, float* variance) {
  const ChannelLoops& loops = channel_loops();
  const std::int64_t count = static_cast<std::int64_t>(pivots.size());
  const double length = static_cast<double>(channels.samples * channels.size);
  std::vector<Totals> totals(pivots.size(), Totals{});
  for_each_part(channels, first, first + count,
                [&](const Channel& part, std::int64_t each, std::int64_t at) {
                  add(totals[each - first], loops.deviations(part, from + at, pivots[each - first]));
                });
  bool are_near = true;
  for (std::int64_t each = 0; each < count; ++each) {
    const double distance = totals[each].first / length;
    const double found = totals[each].second / length - distance * distance;
    mean[first + each] = static_cast<float>(pivots[each] + distance);
    variance[first + each] = static_cast<float>(std::max(found, 0.0));
    // Fewer digits are left of a difference of large numbers.
    are_near = are_near && !(distance * distance > found);
  }
  return are_near;
}

}  // namespace

void standardize_channels(const Channels& channels, const float* from, const float* weight,
                          const float* bias, float epsilon, float* to, float* mean,
                          float* variance, const Pool& pool) {
  const ChannelLoops& loops = channel_loops();
  share_channels(pool, channels, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> pivots;
    const Channel one_row{1, std::min(channels.size, kPart), 0};
    for (std::int64_t each = first; each < last; ++each) {
      const Totals totals = loops.deviations(one_row, from + each * channels.size, 0.0f);
      pivots.push_back(static_cast<float>(totals.first / static_cast<double>(one_row.size)));
    }
    if (!find_moments(channels, from, first, pivots, mean, variance)) {
      std::copy(mean + first, mean + last, pivots.begin());
      find_moments(channels, from, first, pivots, mean, variance);
    }
    for_each_part(channels, first, last,
                  [&](const Channel& part, std::int64_t each, std::int64_t at) {
                    const float slope = weight[each] * scale_of(variance[each], epsilon);
                    loops.scale(part, from + at, mean[each], slope, bias[each], to + at);
                  });
  });
}

void standardize_channels_gradients(const Channels& channels, const float* from,
                                    const float* weight, const float* mean, const float* variance,
                                    const float* cotangents, float epsilon, const Slopes& to,
                                    const Pool& pool) {
  const ChannelLoops& loops = channel_loops();
  const double length = static_cast<double>(channels.samples * channels.size);
  share_channels(pool, channels, [&](std::int64_t first, std::int64_t last) {
    std::vector<Totals> totals(last - first, Totals{});
    for_each_part(channels, first, last,
                  [&](const Channel& part, std::int64_t each, std::int64_t at) {
                    add(totals[each - first],
                        loops.products(part, from + at, cotangents + at, mean[each]));
                  });
    std::vector<ChannelGradient> gradients;
    for (std::int64_t each = first; each < last; ++each) {
      const auto [sum, product] = totals[each - first];
      const float scale = scale_of(variance[each], epsilon), slope = weight[each] * scale;
      to.weight[each] = static_cast<float>(product * scale);
      to.bias[each] = static_cast<float>(sum);
      gradients.push_back({mean[each], slope, static_cast<float>(slope * sum / length),
                           static_cast<float>(slope * product / length * scale * scale)});
    }
    for_each_part(channels, first, last,
                  [&](const Channel& part, std::int64_t each, std::int64_t at) {
                    loops.gradient(part, from + at, cotangents + at, gradients[each - first],
                                   to.rows + at);
                  });
  });
}

}  // namespace flambeau
