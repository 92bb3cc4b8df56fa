// Compiled several times: FLAMBEAU_CHANNEL_LOOPS names the result.

#include "channels.h"

#include "vector.h"

namespace flambeau {
namespace {

static_assert(kLanes <= kShortestRow, "a row has at least one whole vector");

// Which lanes of the last vector of a row are not in the one before. It begins there if the row is
// not as long as several whole vectors; `left` numbers are behind these.
inline Signed new_lanes(std::int64_t left) {
  Signed found;
  for (int lane = 0; lane < kLanes; ++lane) found[lane] = lane < kLanes - left ? 0 : -1;
  return found;
}

// The sums over a channel of the two quantities that add(sums, at) adds for the vector at a place.
template <typename Add>
inline Totals totals_of(const Channel& channel, Add add) {
  constexpr int kWays = 4;  // several sums need not wait for each other
  Vector sums[kWays][2] = {};
  const std::int64_t left = channel.size % kLanes;
  const Signed is_new = new_lanes(left);
  for (std::int64_t sample = 0; sample < channel.samples; ++sample) {
    const std::int64_t end = sample * channel.pitch + channel.size;
    std::int64_t at = end - channel.size;
    for (; at + kWays * kLanes <= end; at += kWays * kLanes) {
      for (int way = 0; way < kWays; ++way) add(sums[way], at + way * kLanes);
    }
    for (; at + kLanes <= end; at += kLanes) add(sums[0], at);
    if (left > 0) {
      Vector rest[2] = {};
      add(rest, end - kLanes);
      for (int each = 0; each < 2; ++each) sums[1][each] += is_new ? rest[each] : Vector{};
    }
  }
  const auto total = [&](int each) {
    return sum_of((sums[0][each] + sums[1][each]) + (sums[2][each] + sums[3][each]));
  };
  return {total(0), total(1)};
}

Totals deviations(const Channel& channel, const float* from, float pivot) {
  return totals_of(channel, [&](Vector* sums, std::int64_t at) {
    const Vector deviation = load(from + at) - pivot;
    sums[0] += deviation;
    sums[1] += deviation * deviation;
  });
}

Totals products(const Channel& channel, const float* from, const float* cotangents, float mean) {
  return totals_of(channel, [&](Vector* sums, std::int64_t at) {
    const Vector cotangent = load(cotangents + at);
    sums[0] += cotangent;
    sums[1] += cotangent * (load(from + at) - mean);
  });
}

// Calls visit(at) for the vectors of a channel, some of whose numbers are in two of them.
template <typename Visit>
inline void sweep(const Channel& channel, Visit visit) {
  for (std::int64_t sample = 0; sample < channel.samples; ++sample) {
    const std::int64_t end = sample * channel.pitch + channel.size;
    std::int64_t at = end - channel.size;
    for (; at + kLanes <= end; at += kLanes) visit(at);
    if (at < end) visit(end - kLanes);
  }
}

void scale(const Channel& channel, const float* from, float mean, float slope, float shift,
           float* to) {
  sweep(channel, [&](std::int64_t at) { store(to + at, (load(from + at) - mean) * slope + shift); });
}

void gradient(const Channel& channel, const float* from, const float* cotangents,
              const ChannelGradient& gradient, float* to) {
  sweep(channel, [&](std::int64_t at) {
    const Vector deviation = load(from + at) - gradient.mean;
    store(to + at, load(cotangents + at) * gradient.slope - gradient.shift -
                       deviation * gradient.tilt);
  });
}

}  // namespace

extern const ChannelLoops FLAMBEAU_CHANNEL_LOOPS;
const ChannelLoops FLAMBEAU_CHANNEL_LOOPS = {deviations, products, scale, gradient};

}  // namespace flambeau
