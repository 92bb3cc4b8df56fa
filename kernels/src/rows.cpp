// Compiled several times: FLAMBEAU_ROW_LOOPS names the result. A row is read several times, and stays
// in the cache meanwhile.

#include "rows.h"

#include "vector.h"

namespace flambeau {
namespace {

// Calls visit(at, count) for each vector of a row, of which the last may have fewer lanes.
template <typename Visit>
inline void sweep(std::int64_t size, Visit visit, std::int64_t at = 0) {
  for (; at + kLanes <= size; at += kLanes) visit(at, kLanes);
  if (at < size) visit(at, static_cast<int>(size - at));
}

// The value without what lies behind the row.
inline Vector only(Vector value, int count) {
  for (int lane = count; lane < kLanes; ++lane) value[lane] = 0.0f;
  return value;
}

// The sum of term(at, count) over the vectors of a row. Several sums at once need not wait for each
// other.
template <typename Term>
inline float total_of(std::int64_t size, Term term) {
  constexpr int kSums = 4;
  Vector sums[kSums] = {};
  std::int64_t at = 0;
  for (; at + kSums * kLanes <= size; at += kSums * kLanes) {
    for (int each = 0; each < kSums; ++each) sums[each] += term(at + each * kLanes, kLanes);
  }
  sweep(size, [&](std::int64_t rest, int count) { sums[0] += term(rest, count); }, at);
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

float greatest_of(std::int64_t size, const float* from) {
  Vector found = Vector{} + from[0];
  sweep(size, [&](std::int64_t at, int count) {
    Vector value = read(from + at, count);
    for (int lane = count; lane < kLanes; ++lane) value[lane] = from[0];
    found = value > found ? value : found;
  });
  float greatest = found[0];
  for (int lane = 1; lane < kLanes; ++lane) {
    greatest = found[lane] > greatest ? found[lane] : greatest;
  }
  return greatest;
}

void softmax(std::int64_t size, const float* from, float* to) {
  const float greatest = greatest_of(size, from);
  const float factor = 1.0f / total_of(size, [&](std::int64_t at, int count) {
    const Vector power = exponential(read(from + at, count) - greatest);
    write(to + at, power, count);
    return only(power, count);
  });
  sweep(size, [&](std::int64_t at, int count) {
    write(to + at, read(to + at, count) * factor, count);
  });
}

void log_sum(std::int64_t size, const float* from, float* greatest, float* logarithm) {
  const float most = *greatest = greatest_of(size, from);
  *logarithm = __builtin_logf(total_of(size, [&](std::int64_t at, int count) {
    return only(exponential(read(from + at, count) - most), count);
  }));
}

void weights(std::int64_t size, const float* from, float greatest, float logarithm, float factor,
             float* to) {
  sweep(size, [&](std::int64_t at, int count) {
    write(to + at, exponential(read(from + at, count) - greatest - logarithm) * factor, count);
  });
}

void log_softmax(std::int64_t size, const float* from, float* to) {
  float greatest, logarithm;
  log_sum(size, from, &greatest, &logarithm);
  sweep(size, [&](std::int64_t at, int count) {
    write(to + at, read(from + at, count) - greatest - logarithm, count);
  });
}

void softmax_gradient(std::int64_t size, const float* results, const float* cotangents, float* to) {
  const float mean = total_of(size, [&](std::int64_t at, int count) {
    return read(results + at, count) * read(cotangents + at, count);
  });
  sweep(size, [&](std::int64_t at, int count) {
    write(to + at, read(results + at, count) * (read(cotangents + at, count) - mean), count);
  });
}

void log_softmax_gradient(std::int64_t size, const float* results, const float* cotangents,
                          float* to) {
  const float total =
      total_of(size, [&](std::int64_t at, int count) { return read(cotangents + at, count); });
  sweep(size, [&](std::int64_t at, int count) {
    const Vector weight = exponential(read(results + at, count));
    write(to + at, read(cotangents + at, count) - weight * total, count);
  });
}

// Where the numbers of a row are read from its end, so are the results.
template <bool kFromEnd>
void running_sum(std::int64_t size, const float* from, float* to) {
  // Each sum waits for the one before, so several parts of the row are summed side by side.
  constexpr int kParts = 8;
  const std::int64_t length = size / kParts;
  const auto place = [&](std::int64_t each) { return kFromEnd ? size - 1 - each : each; };
  double sums[kParts], before = 0;
  for (int part = 0; part < kParts; ++part) {
    sums[part] = before;
    const float* begin = from + (kFromEnd ? size - (part + 1) * length : part * length);
    before += total_of(length, [&](std::int64_t at, int count) { return read(begin + at, count); });
  }
  for (std::int64_t each = 0; each < length; ++each) {
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t at = place(part * length + each);
      sums[part] += from[at];
      to[at] = static_cast<float>(sums[part]);
    }
  }
  for (std::int64_t each = kParts * length; each < size; ++each) {
    before += from[place(each)];
    to[place(each)] = static_cast<float>(before);
  }
}

struct Moments {
  float mean;
  float scale;  // what brings the deviation to 1
};

Moments moments_of(std::int64_t size, const float* from, float epsilon) {
  const float length = static_cast<float>(size);
  const float mean =
      total_of(size, [&](std::int64_t at, int count) { return read(from + at, count); }) / length;
  const float variance = total_of(size, [&](std::int64_t at, int count) {
    const Vector centered = only(read(from + at, count) - mean, count);
    return centered * centered;
  }) / length;
  return {mean, 1.0f / __builtin_sqrtf(variance + epsilon)};
}

void standardize(std::int64_t size, const float* from, const float* weight, const float* bias,
                 float epsilon, float* to) {
  const Moments moments = moments_of(size, from, epsilon);
  sweep(size, [&](std::int64_t at, int count) {
    const Vector normalized = (read(from + at, count) - moments.mean) * moments.scale;
    write(to + at, normalized * read(weight + at, count) + read(bias + at, count), count);
  });
}

void standardize_gradient(std::int64_t size, const float* from, const float* weight,
                          const float* cotangents, float epsilon, float* to, float* by_weight,
                          float* by_bias) {
  const Moments moments = moments_of(size, from, epsilon);
  Vector by_mean = {}, by_deviation = {};
  sweep(size, [&](std::int64_t at, int count) {
    const Vector normalized = (read(from + at, count) - moments.mean) * moments.scale;
    const Vector cotangent = read(cotangents + at, count);
    // Cotangents behind the row are 0.
    const Vector slope = cotangent * read(weight + at, count);
    by_mean += slope;
    by_deviation += only(slope * normalized, count);
    write(by_weight + at, read(by_weight + at, count) + cotangent * normalized, count);
    write(by_bias + at, read(by_bias + at, count) + cotangent, count);
  });
  const float shift = sum_of(by_mean) / static_cast<float>(size);
  const float tilt = sum_of(by_deviation) / static_cast<float>(size);
  sweep(size, [&](std::int64_t at, int count) {
    const Vector normalized = (read(from + at, count) - moments.mean) * moments.scale;
    const Vector slope = read(cotangents + at, count) * read(weight + at, count);
    write(to + at, (slope - shift - normalized * tilt) * moments.scale, count);
  });
}

// Groups may be long: parts are summed in single precision, and their sums in double.
constexpr std::int64_t kPart = 4096;

template <typename Term>
inline double long_total_of(std::int64_t size, Term term) {
  double total = 0;
  for (std::int64_t begin = 0; begin < size; begin += kPart) {
    total += total_of(size - begin < kPart ? size - begin : kPart,
                      [&](std::int64_t at, int count) { return term(begin + at, count); });
  }
  return total;
}

float mean_of(std::int64_t size, const float* from) {
  const double total =
      long_total_of(size, [&](std::int64_t at, int count) { return read(from + at, count); });
  return static_cast<float>(total / static_cast<double>(size));
}

// From the sum of the squared deviations.
float scale_of(std::int64_t size, double squares, float epsilon) {
  const float variance = static_cast<float>(squares / static_cast<double>(size));
  return 1.0f / __builtin_sqrtf(variance + epsilon);
}

void standardize_group(std::int64_t channels, std::int64_t size, const float* from,
                       const float* weight, const float* bias, float epsilon, float* to) {
  const float mean = mean_of(channels * size, from);
  const double squares = long_total_of(channels * size, [&](std::int64_t at, int count) {
    const Vector centered = only(read(from + at, count) - mean, count);
    return centered * centered;
  });
  const float scale = scale_of(channels * size, squares, epsilon);
  for (std::int64_t channel = 0; channel < channels; ++channel, from += size, to += size) {
    const float slope = scale * weight[channel], shift = bias[channel];
    sweep(size, [&](std::int64_t at, int count) {
      write(to + at, (read(from + at, count) - mean) * slope + shift, count);
    });
  }
}

// Sums over a channel.
struct ChannelSums {
  double squares;   // of the deviations from the mean
  double products;  // of the deviations and the cotangents
  double cotangents;
};

// All in one pass. As in `total_of`, several of each at once.
ChannelSums sums_of(std::int64_t size, const float* from, const float* cotangents, float mean) {
  constexpr int kSums = 4;
  ChannelSums found = {};
  for (; size > 0; size -= kPart, from += kPart, cotangents += kPart) {
    Vector squares[kSums] = {}, products[kSums] = {}, plain[kSums] = {};
    const auto add = [&](int each, std::int64_t at, int count) {
      const Vector deviation = only(read(from + at, count) - mean, count);
      const Vector cotangent = read(cotangents + at, count);
      squares[each] += deviation * deviation;
      products[each] += deviation * cotangent;
      plain[each] += cotangent;
    };
    const auto total = [](const Vector* sums) {
      return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    };
    const std::int64_t part = size < kPart ? size : kPart;
    std::int64_t at = 0;
    for (; at + kSums * kLanes <= part; at += kSums * kLanes) {
      for (int each = 0; each < kSums; ++each) add(each, at + each * kLanes, kLanes);
    }
    sweep(part, [&](std::int64_t rest, int count) { add(0, rest, count); }, at);
    found.squares += total(squares);
    found.products += total(products);
    found.cotangents += total(plain);
  }
  return found;
}

void standardize_group_gradient(std::int64_t channels, std::int64_t size, const float* from,
                                const float* weight, const float* cotangents, float epsilon,
                                float* to, float* by_weight, float* by_bias) {
  const std::int64_t length = channels * size;
  const float mean = mean_of(length, from);
  double squares = 0, by_mean = 0, by_deviation = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const std::int64_t at = channel * size;
    const ChannelSums sums = sums_of(size, from + at, cotangents + at, mean);
    squares += sums.squares;
    by_mean += weight[channel] * sums.cotangents;
    by_deviation += weight[channel] * sums.products;
    by_weight[channel] = static_cast<float>(sums.products);
    by_bias[channel] = static_cast<float>(sums.cotangents);
  }
  const float scale = scale_of(length, squares, epsilon);
  const double part = scale / static_cast<double>(length);
  const float shift = static_cast<float>(by_mean * part);
  const float tilt = static_cast<float>(by_deviation * part * scale * scale);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const float slope = weight[channel] * scale;
    by_weight[channel] *= scale;
    sweep(size, [&](std::int64_t at, int count) {
      const Vector deviation = read(from + at, count) - mean;
      write(to + at, read(cotangents + at, count) * slope - shift - deviation * tilt, count);
    });
    from += size, cotangents += size, to += size;
  }
}

}  // namespace

extern const RowLoops FLAMBEAU_ROW_LOOPS;
const RowLoops FLAMBEAU_ROW_LOOPS = {softmax,
                                     log_softmax,
                                     log_sum,
                                     weights,
                                     softmax_gradient,
                                     log_softmax_gradient,
                                     running_sum<false>,
                                     running_sum<true>,
                                     standardize,
                                     standardize_gradient,
                                     standardize_group,
                                     standardize_group_gradient};

}  // namespace flambeau
