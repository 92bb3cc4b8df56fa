// Functions of rows beside their formulas in double precision.

#include "rows.h"

#include <limits>

#include "check.h"
#include "normalization.h"

namespace {

using Doubles = std::vector<double>;

// The error of a sum grows with the number of its terms, even where they cancel out.
void compare(const char* name, const flambeau::Rows& rows, const Doubles& expected,
             const std::vector<float>& found, std::int64_t terms = 1) {
  double scale = std::sqrt(double(terms));
  for (const double each : expected) {
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  }
  for (std::size_t each = 0; each < expected.size(); ++each) {
    if (expected[each] == found[each]) continue;
    if (std::abs(expected[each] - found[each]) <= 1e-5 * scale) continue;
    std::printf("%s differs at %zu: %g instead of %g, %ld rows of %ld\n", name, each, found[each],
                expected[each], long(rows.count), long(rows.size));
    std::exit(1);
  }
}

// Groups of channels beside the formula, in arrays (samples, channels, size).
void check_groups(const flambeau::Pool& pool) {
  flambeau::Groups groups{between(1, 4), 0, between(1, 90), between(1, 4)};
  // Some channels are longer than what is summed in single precision, for several threads.
  if (between(0, 9) == 0) groups.size = between(4000, 9000);
  const std::int64_t length = between(1, 4), size = groups.size;
  groups.channels = groups.count * length;
  const std::int64_t count = groups.samples * groups.channels * size;
  const auto weight = numbers(groups.channels), bias = numbers(groups.channels);
  const auto from = numbers(count), cotangents = numbers(count);
  const float epsilon = 0.125f;

  Doubles standard(count), by_from(count), by_weight(groups.channels), by_bias(groups.channels);
  const double members = double(length * size);
  for (std::int64_t begin = 0; begin < count; begin += length * size) {
    const auto channel = [&](std::int64_t each) { return each / size % groups.channels; };
    const std::int64_t end = begin + length * size;
    double mean = 0, variance = 0, by_mean = 0, by_deviation = 0;
    for (std::int64_t each = begin; each < end; ++each) mean += from[each] / members;
    for (std::int64_t each = begin; each < end; ++each) {
      variance += std::pow(from[each] - mean, 2) / members;
    }
    const double scale = 1 / std::sqrt(variance + epsilon);
    for (std::int64_t each = begin; each < end; ++each) {
      const double normalized = (from[each] - mean) * scale;
      const double slope = double(cotangents[each]) * weight[channel(each)];
      standard[each] = normalized * weight[channel(each)] + bias[channel(each)];
      by_weight[channel(each)] += normalized * cotangents[each];
      by_bias[channel(each)] += cotangents[each];
      by_mean += slope / members;
      by_deviation += slope * normalized / members;
    }
    for (std::int64_t each = begin; each < end; ++each) {
      const double normalized = (from[each] - mean) * scale;
      const double slope = double(cotangents[each]) * weight[channel(each)];
      by_from[each] = (slope - by_mean - normalized * by_deviation) * scale;
    }
  }
  const flambeau::Rows rows{count / (length * size), length * size};
  std::vector<float> found(count, NAN), to_weight(groups.channels, NAN), to_bias = to_weight;
  flambeau::standardize_groups(groups, from.data(), weight.data(), bias.data(), epsilon,
                               found.data(), pool);
  compare("a standardized group", rows, standard, found);
  found.assign(count, NAN);
  flambeau::standardize_groups_gradients(groups, from.data(), weight.data(), cotangents.data(),
                                         epsilon, {found.data(), to_weight.data(), to_bias.data()},
                                         pool);
  compare("the gradient by standardized groups", rows, by_from, found);
  const std::int64_t terms = groups.samples * size;
  compare("the gradient by the weight of groups", rows, by_weight, to_weight, terms);
  compare("the gradient by the bias of groups", rows, by_bias, to_bias, terms);
}

}  // namespace

void check_rows(const flambeau::Pool& pool) {
  check_groups(pool);
  const flambeau::RowLoops& loops = flambeau::row_loops();
  // Some have enough numbers for several threads.
  flambeau::Rows rows{between(1, 9), between(1, 70)};
  if (between(0, 4) == 0) rows = {between(30, 60), between(1000, 1100)};
  const std::int64_t count = rows.count * rows.size;
  const auto weight = numbers(rows.size), bias = numbers(rows.size), cotangents = numbers(count);
  auto from = numbers(count);
  const float epsilon = 0.125f;

  Doubles standard(count), by_rows(count), by_weight(rows.size), by_bias(rows.size);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t at = row * rows.size;
    double mean = 0, variance = 0, by_mean = 0, by_deviation = 0;
    for (std::int64_t each = 0; each < rows.size; ++each) mean += from[at + each] / double(rows.size);
    for (std::int64_t each = 0; each < rows.size; ++each) {
      variance += std::pow(from[at + each] - mean, 2) / double(rows.size);
    }
    const double scale = 1 / std::sqrt(variance + epsilon);
    for (std::int64_t each = 0; each < rows.size; ++each) {
      const double normalized = (from[at + each] - mean) * scale;
      const double slope = double(cotangents[at + each]) * weight[each];
      standard[at + each] = normalized * weight[each] + bias[each];
      by_weight[each] += normalized * cotangents[at + each];
      by_bias[each] += cotangents[at + each];
      by_mean += slope / double(rows.size);
      by_deviation += slope * normalized / double(rows.size);
    }
    for (std::int64_t each = 0; each < rows.size; ++each) {
      const double normalized = (from[at + each] - mean) * scale;
      const double slope = double(cotangents[at + each]) * weight[each];
      by_rows[at + each] = (slope - by_mean - normalized * by_deviation) * scale;
    }
  }
  // Every element has to be written.
  std::vector<float> found(count, NAN), to_weight(rows.size, NAN), to_bias(rows.size, NAN);
  flambeau::standardize_rows(rows, from.data(), weight.data(), bias.data(), epsilon, found.data(),
                             pool);
  compare("a standardized row", rows, standard, found);
  found.assign(count, NAN);
  flambeau::standardize_rows_gradients(rows, from.data(), weight.data(), cotangents.data(), epsilon,
                                       {found.data(), to_weight.data(), to_bias.data()}, pool);
  compare("the gradient by standardized rows", rows, by_rows, found);
  compare("the gradient by their weight", rows, by_weight, to_weight);
  compare("the gradient by their bias", rows, by_bias, to_bias);

  Doubles sums(count), by_sums(count);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t begin = row * rows.size, end = begin + rows.size;
    double sum = 0;
    for (std::int64_t each = begin; each < end; ++each) sums[each] = sum += from[each];
    sum = 0;
    for (std::int64_t each = end; each-- > begin;) by_sums[each] = sum += from[each];
  }
  found.assign(count, NAN);
  flambeau::map_rows(loops.running_sum, rows, from.data(), found.data(), pool);
  compare("a running sum", rows, sums, found);
  found.assign(count, NAN);
  flambeau::map_rows(loops.running_sum_gradient, rows, from.data(), found.data(), pool);
  compare("the gradient of a running sum", rows, by_sums, found);

  // Some elements do not count; the first of a row does, and elements are so large that their
  // exponentials overflow.
  for (std::int64_t each = 0; each < count; ++each) {
    from[each] = from[each] * 8 + 90;
    if (each % rows.size > 0 && between(0, 9) == 0) from[each] = -std::numeric_limits<float>::infinity();
  }
  Doubles weights(count), logarithms(count), by_softmax(count), by_logarithm(count);
  Doubles sums_of_rows(rows.count), by_loss(count);
  std::vector<std::int32_t> targets(rows.count);
  // Some are no element of the row.
  for (auto& each : targets) each = static_cast<std::int32_t>(between(-1, rows.size));
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t at = row * rows.size;
    double total = 0, mean = 0, sum = 0;
    for (std::int64_t each = at; each < at + rows.size; ++each) total += std::exp(from[each] - 90.0);
    for (std::int64_t each = at; each < at + rows.size; ++each) {
      weights[each] = std::exp(from[each] - 90.0) / total;
      logarithms[each] = from[each] - 90.0 - std::log(total);
      mean += weights[each] * cotangents[each];
      sum += cotangents[each];
    }
    sums_of_rows[row] = 90 + std::log(total);
    for (std::int64_t each = at; each < at + rows.size; ++each) {
      const double target = each == at + targets[row] && targets[row] < rows.size ? 1 : 0;
      by_loss[each] = (weights[each] - target) * cotangents[row];
      by_softmax[each] = weights[each] * (cotangents[each] - mean);
      by_logarithm[each] = cotangents[each] - weights[each] * sum;
    }
  }
  std::vector<float> results(count, NAN);
  flambeau::map_rows(loops.softmax, rows, from.data(), results.data(), pool);
  compare("softmax", rows, weights, results);
  found.assign(count, NAN);
  flambeau::map_two_rows(loops.softmax_gradient, rows, results.data(), cotangents.data(),
                         found.data(), pool);
  compare("the gradient of softmax", rows, by_softmax, found);
  results.assign(count, NAN);
  flambeau::map_rows(loops.log_softmax, rows, from.data(), results.data(), pool);
  compare("log_softmax", rows, logarithms, results);
  found.assign(count, NAN);
  flambeau::map_two_rows(loops.log_softmax_gradient, rows, results.data(), cotangents.data(),
                         found.data(), pool);
  compare("the gradient of log_softmax", rows, by_logarithm, found);

  std::vector<float> greatest(rows.count, NAN), smaller(rows.count, NAN), both;
  flambeau::log_sums(rows, from.data(), greatest.data(), smaller.data(), pool);
  for (std::int64_t row = 0; row < rows.count; ++row) both.push_back(greatest[row] + smaller[row]);
  compare("the logarithm of a sum", rows, sums_of_rows, both);
  found.assign(count, NAN);
  flambeau::cross_entropy_gradient(rows,
                                   {from.data(), greatest.data(), smaller.data(), targets.data(),
                                    cotangents.data()},
                                   found.data(), pool);
  compare("the gradient of cross entropy", rows, by_loss, found);
}
