// Functions of channels that all samples have, compiled once for each set of vector instructions.

#pragma once

#include <cstdint>

namespace flambeau {

// A channel has a row of numbers in each sample. From the row of one sample to that of the next are
// `pitch` numbers.
struct Channel {
  std::int64_t samples;
  std::int64_t size;  // of a row, at least `kShortestRow`
  std::int64_t pitch;
};

// As long as the longest vector.
constexpr std::int64_t kShortestRow = 16;

struct Totals {
  double first;
  double second;
};

// What deviations from the mean and cotangents are multiplied with for a gradient.
struct ChannelGradient {
  float mean;
  float slope;
  float shift;
  float tilt;
};

struct ChannelLoops {
  // The sums of `from - pivot` and of its squares.
  Totals (*deviations)(const Channel& channel, const float* from, float pivot);
  // The sums of cotangents, and of their products with `from - mean`.
  Totals (*products)(const Channel& channel, const float* from, const float* cotangents,
                     float mean);
  // to = (from - mean) * slope + shift
  void (*scale)(const Channel& channel, const float* from, float mean, float slope, float shift,
                float* to);
  // to = cotangents * slope - shift - (from - mean) * tilt
  void (*gradient)(const Channel& channel, const float* from, const float* cotangents,
                   const ChannelGradient& gradient, float* to);
};

// The loops for this processor.
const ChannelLoops& channel_loops();

}  // namespace flambeau
