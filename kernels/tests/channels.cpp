// Channels that all samples have beside their formulas in double precision.

#include "channels.h"

#include "check.h"
#include "normalization.h"

namespace {

void compare(const char* name, const flambeau::Channels& channels,
             const std::vector<double>& expected, const std::vector<float>& found) {
  // The error of a sum grows with the number of its terms, even where they cancel out.
  double scale = std::sqrt(double(channels.samples * channels.size));
  for (const double each : expected) scale = std::max(scale, std::abs(each));
  for (std::size_t each = 0; each < expected.size(); ++each) {
    if (std::abs(expected[each] - found[each]) <= 3e-5 * scale) continue;
    std::printf("%s differs at %zu: %g instead of %g, channels (%ld, %ld, %ld)\n", name, each,
                found[each], expected[each], long(channels.samples), long(channels.count),
                long(channels.size));
    std::exit(1);
  }
}

}  // namespace

void check_channels(const flambeau::Pool& pool) {
  flambeau::Channels channels{between(1, 5), between(1, 5),
                              between(flambeau::kShortestRow, 120)};
  // Some are longer than what is summed in single precision, for several threads.
  if (between(0, 9) == 0) channels.size = between(4000, 9000);
  const std::int64_t count = channels.samples * channels.count * channels.size;
  const auto cotangents = numbers(count);
  auto from = numbers(count);
  // The first sample may be far from the others.
  const float far = between(0, 3) == 0 ? 30 : 0;
  for (std::int64_t each = 0; each < count / channels.samples; ++each) from[each] += far;
  const auto weight = numbers(channels.count), bias = numbers(channels.count);
  const float epsilon = 0.125f;

  const auto channel_of = [&](std::int64_t each) { return each / channels.size % channels.count; };
  const double members = double(channels.samples * channels.size);
  using Doubles = std::vector<double>;
  Doubles mean(channels.count), variance(channels.count), scale(channels.count);
  Doubles by_weight(channels.count), by_bias(channels.count), standard(count), by_from(count);
  for (std::int64_t each = 0; each < count; ++each) mean[channel_of(each)] += from[each] / members;
  for (std::int64_t each = 0; each < count; ++each) {
    variance[channel_of(each)] += std::pow(from[each] - mean[channel_of(each)], 2) / members;
  }
  for (std::int64_t each = 0; each < channels.count; ++each) {
    scale[each] = 1 / std::sqrt(variance[each] + epsilon);
  }
  const auto normalized = [&](std::int64_t each) {
    return (from[each] - mean[channel_of(each)]) * scale[channel_of(each)];
  };
  for (std::int64_t each = 0; each < count; ++each) {
    const std::int64_t channel = channel_of(each);
    standard[each] = normalized(each) * weight[channel] + bias[channel];
    by_weight[channel] += normalized(each) * cotangents[each];
    by_bias[channel] += cotangents[each];
  }
  for (std::int64_t each = 0; each < count; ++each) {
    const std::int64_t channel = channel_of(each);
    by_from[each] = weight[channel] * scale[channel] *
                    (cotangents[each] - by_bias[channel] / members -
                     normalized(each) * by_weight[channel] / members);
  }

  // Every element has to be written.
  std::vector<float> found(count, NAN), to_mean(channels.count, NAN), to_variance = to_mean;
  flambeau::standardize_channels(channels, from.data(), weight.data(), bias.data(), epsilon,
                                 found.data(), to_mean.data(), to_variance.data(), pool);
  compare("a standardized channel", channels, standard, found);
  compare("the mean of a channel", channels, mean, to_mean);
  compare("the variance of a channel", channels, variance, to_variance);
  std::vector<float> to_weight(channels.count, NAN), to_bias = to_weight;
  found.assign(count, NAN);
  flambeau::standardize_channels_gradients(
      channels, from.data(), weight.data(), to_mean.data(), to_variance.data(), cotangents.data(),
      epsilon, {found.data(), to_weight.data(), to_bias.data()}, pool);
  compare("the gradient by channels", channels, by_from, found);
  compare("the gradient by the weight of channels", channels, by_weight, to_weight);
  compare("the gradient by the bias of channels", channels, by_bias, to_bias);
}
