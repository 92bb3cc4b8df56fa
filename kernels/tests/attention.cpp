// Attention beside its formula in double precision.

#include "attention.h"

#include <limits>
#include <memory>
#include <string>

#include "check.h"

namespace {

using flambeau::Attention;
using flambeau::Pool;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// A mask and its array.
struct Masked {
  std::unique_ptr<bool[]> seen;
  std::vector<float> added;
  Attention shape;
};

Masked any_problem() {
  Masked found;
  Attention& shape = found.shape;
  shape.problems = between(1, 3);
  // One block of queries or keys, and several.
  shape.queries = between(0, 3) == 0 ? between(193, 420) : between(1, 50);
  shape.keys = between(0, 3) == 0 ? between(129, 300) : between(1, 50);
  shape.size = between(1, 40);
  shape.value_size = between(1, 40);
  shape.is_causal = between(0, 2) == 0;
  shape.scale = static_cast<float>(between(1, 8)) / 4;
  const std::int64_t kind = between(0, 2);
  if (kind == 0) return found;
  const bool each_query = between(0, 1), each_key = between(0, 1), each_problem = between(0, 1);
  const std::int64_t keys = each_key ? shape.keys : 1;
  const std::int64_t size = keys * (each_query ? shape.queries : 1);
  const std::int64_t count = size * (each_problem ? shape.problems : 1);
  shape.mask.key_step = each_key ? 1 : 0;
  shape.mask.query_step = each_query ? keys : 0;
  for (std::int64_t problem = 0; problem < shape.problems; ++problem) {
    shape.mask.begins.push_back(each_problem ? problem * size : 0);
  }
  if (kind == 1) {
    found.seen.reset(new bool[count]);
    for (std::int64_t each = 0; each < count; ++each) found.seen[each] = between(0, 2) > 0;
    shape.mask.seen = found.seen.get();
  } else {
    found.added = numbers(count);
    for (float& each : found.added) {
      if (each == -3) each = -std::numeric_limits<float>::infinity();
    }
    shape.mask.added = found.added.data();
  }
  return found;
}

double masked(const Attention& shape, std::int64_t problem, std::int64_t query, std::int64_t key,
              double score) {
  if (shape.is_causal && key > query) return kHidden;
  const flambeau::Mask& mask = shape.mask;
  if (!mask.is_there()) return score;
  const std::int64_t at = mask.begins[problem] + query * mask.query_step + key * mask.key_step;
  if (mask.added != nullptr) return score + mask.added[at];
  return mask.seen[at] ? score : kHidden;
}

void compare(const char* name, const Attention& shape, const std::vector<double>& expected,
             const std::vector<float>& found) {
  double scale = 1;
  for (const double each : expected) scale = std::max(scale, std::abs(each));
  for (std::size_t each = 0; each < expected.size(); ++each) {
    if (std::abs(expected[each] - found[each]) <= 2e-5 * scale) continue;
    std::printf("%s of attention differs at %zu: %g instead of %g\n", name, each, found[each],
                expected[each]);
    std::printf("problems %ld queries %ld keys %ld sizes %ld and %ld causal %d mask %d steps %ld %ld\n",
                long(shape.problems), long(shape.queries), long(shape.keys), long(shape.size),
                long(shape.value_size), shape.is_causal, shape.mask.is_there(),
                long(shape.mask.query_step), long(shape.mask.key_step));
    std::exit(1);
  }
}

std::vector<float> small_numbers(std::int64_t count) {
  std::vector<float> found = numbers(count);
  for (float& each : found) each /= 4;
  return found;
}

}  // namespace

void check_attention(const Pool& pool) {
  const Masked problem = any_problem();
  const Attention& shape = problem.shape;
  const std::int64_t size = shape.size, value_size = shape.value_size;
  const std::int64_t rows = shape.problems * shape.queries, others = shape.problems * shape.keys;
  const auto queries = small_numbers(rows * size), keys = small_numbers(others * size);
  const auto values = numbers(others * value_size), cotangents = numbers(rows * value_size);

  std::vector<double> results(rows * value_size), by_queries(rows * size), by_keys(others * size),
      by_values(others * value_size), weights(shape.keys), slopes(shape.keys);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row / shape.queries, first = at * shape.keys;
    double greatest = kHidden, total = 0, mean = 0;
    for (std::int64_t key = 0; key < shape.keys; ++key) {
      double score = 0;
      for (std::int64_t e = 0; e < size; ++e) {
        score += queries[row * size + e] * keys[(first + key) * size + e];
      }
      weights[key] = masked(shape, at, row % shape.queries, key, shape.scale * score);
      greatest = std::max(greatest, weights[key]);
    }
    for (double& each : weights) {
      each = greatest == kHidden ? 0 : std::exp(each - greatest);
      total += each;
    }
    for (std::int64_t key = 0; key < shape.keys; ++key) {
      weights[key] = total == 0 ? 0 : weights[key] / total;
      slopes[key] = 0;
      for (std::int64_t e = 0; e < value_size; ++e) {
        const double cotangent = cotangents[row * value_size + e];
        const double value = values[(first + key) * value_size + e];
        results[row * value_size + e] += weights[key] * value;
        by_values[(first + key) * value_size + e] += weights[key] * cotangent;
        slopes[key] += cotangent * value;
      }
      mean += weights[key] * slopes[key];
    }
    for (std::int64_t key = 0; key < shape.keys; ++key) {
      const double slope = shape.scale * weights[key] * (slopes[key] - mean);
      for (std::int64_t e = 0; e < size; ++e) {
        by_queries[row * size + e] += slope * keys[(first + key) * size + e];
        by_keys[(first + key) * size + e] += slope * queries[row * size + e];
      }
    }
  }

  // Every element has to be written.
  std::vector<float> found(results.size(), NAN), greatest(rows, NAN), total(rows, NAN);
  const flambeau::Inputs inputs{queries.data(), keys.data(), values.data()};
  const flambeau::Sums sums{greatest.data(), total.data()};
  flambeau::attend(shape, inputs, found.data(), sums, pool);
  compare("the result", shape, results, found);
  std::vector<float> to_queries(queries.size(), NAN), to_keys(keys.size(), NAN),
      to_values(values.size(), NAN);
  flambeau::attend_gradients(shape, inputs, cotangents.data(), found.data(), sums,
                             {to_queries.data(), to_keys.data(), to_values.data()}, pool);
  compare("the gradient by queries", shape, by_queries, to_queries);
  compare("the gradient by keys", shape, by_keys, to_keys);
  compare("the gradient by values", shape, by_values, to_values);
}
