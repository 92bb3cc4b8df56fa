// The gradients of attention. The weights of a block are computed once more, from its sums.

#include "attention.h"

#include <limits>
#include <vector>

#include "memory.h"
#include "scores.h"
#include "transpose.h"

namespace flambeau {
namespace {

// Copies rows to others, which are longer; what lies behind is 0.
void widen(std::int64_t rows, std::int64_t columns, const float* from, float* to,
           std::int64_t to_row) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(from + row * columns, columns, to + row * to_row);
    std::fill(to + row * to_row + columns, to + (row + 1) * to_row, 0.0f);
  }
}

class Backward {
 public:
  Backward(const Attention& shape, const Inputs& inputs, const float* cotangents,
           const float* results, const Sums& sums)
      : shape_(shape), inputs_(inputs), cotangents_(cotangents), results_(results), sums_(sums) {}

  // The numbers that `block` works with.
  std::int64_t space() const {
    return (2 * shape_.size + shape_.value_size + 3) * columns_ +
           columns_ * (wide(shape_.size) + wide(shape_.value_size)) +
           (shape_.mask.is_there() ? 4 : 2) * blocks_.size();
  }

  // Writes the gradients of one block of queries, and adds to those of the problem's keys and values.
  void block(std::int64_t problem, std::int64_t first, float* space, float* by_queries,
             float* by_keys, float* by_values) const {
    const std::int64_t count = std::min(columns_, shape_.queries - first);
    const std::int64_t at = problem * shape_.queries + first;
    const std::int64_t size = shape_.size, value_size = shape_.value_size;
    const float* keys = inputs_.keys + problem * shape_.keys * size;
    const float* values = inputs_.values + problem * shape_.keys * value_size;
    const float* own_queries = inputs_.queries + at * size;
    const float* own_cotangents = cotangents_ + at * value_size;

    // Vectors hold queries side by side in these, and features in the next two.
    float* queries = space;
    float* cotangents = queries + size * columns_;
    float* found = cotangents + value_size * columns_;
    float* shift = found + size * columns_;
    float* factor = shift + columns_;
    float* mean = factor + columns_;
    float* wide_queries = mean + columns_;
    float* wide_cotangents = wide_queries + columns_ * wide(size);
    float* scores = wide_cotangents + columns_ * wide(value_size);
    float* slopes = scores + blocks_.size();
    std::fill(queries, wide_queries, 0.0f);
    transpose(count, size, own_queries, size, queries, columns_);
    transpose(count, value_size, own_cotangents, value_size, cotangents, columns_);
    widen(count, size, own_queries, wide_queries, wide(size));
    widen(count, value_size, own_cotangents, wide_cotangents, wide(value_size));
    scale(size * columns_, shape_.scale, queries);
    scale(count * wide(size), shape_.scale, wide_queries);
    for (std::int64_t query = 0; query < count; ++query) {
      const float greatest = sums_.greatest[at + query], total = sums_.total[at + query];
      shift[query] = greatest == -std::numeric_limits<float>::infinity() ? 0.0f : greatest;
      factor[query] = total == 0.0f ? 0.0f : 1.0f / total;
      // The mean of the weights' slopes.
      for (std::int64_t each = 0; each < value_size; ++each) {
        mean[query] += own_cotangents[query * value_size + each] *
                       results_[(at + query) * value_size + each];
      }
    }

    const std::int64_t end = last_key(shape_, first, count);
    for (std::int64_t key = 0; key < end; key += blocks_.keys) {
      const std::int64_t own = std::min(blocks_.keys, end - key);
      const float* own_keys = keys + key * size;
      loops_.multiply({own, columns_, size, own_keys, size, 1, queries, columns_, scores, columns_,
                       false});
      apply_mask(shape_, {problem, first, count, key, own}, columns_, scores,
                 slopes + blocks_.size());
      loops_.multiply({own, columns_, value_size, values + key * value_size, value_size, 1,
                       cotangents, columns_, slopes, columns_, false});
      loops_.weigh_again(own, columns_, scores, slopes, shift, factor, mean);
      loops_.multiply({own, value_size, count, scores, columns_, 1, wide_cotangents,
                       wide(value_size), by_values + key * value_size, value_size, true});
      loops_.multiply({own, size, count, slopes, columns_, 1, wide_queries, wide(size),
                       by_keys + key * size, size, true});
      loops_.multiply({size, columns_, own, own_keys, 1, size, slopes, columns_, found, columns_,
                       true});
    }
    scale(size * columns_, shape_.scale, found);
    transpose(size, count, found, columns_, by_queries + at * size, size);
  }

 private:
  std::int64_t wide(std::int64_t features) const { return round_up(features, loops_.lanes); }

  const MatrixLoops& loops_ = matrix_loops();
  const Attention& shape_;
  const Blocks blocks_{shape_};
  const std::int64_t columns_ = blocks_.columns;
  const Inputs& inputs_;
  const float* cotangents_;
  const float* results_;
  const Sums& sums_;
};

}  // namespace

void attend_gradients(const Attention& shape, const Inputs& inputs, const float* cotangents,
                      const float* results, const Sums& sums, const Gradients& gradients,
                      const Pool& pool) {
  const Backward backward(shape, inputs, cotangents, results, sums);
  const Blocks blocks(shape);
  const std::int64_t by_keys = shape.keys * shape.size, by_values = shape.keys * shape.value_size;
  // Where there are fewer problems than threads, several share one: each has sums of its own for the
  // keys and values, which are added at the end.
  const std::int64_t parts =
      std::min(blocks.count, ceil_div(pool.threads, shape.problems));
  std::vector<float> others(shape.problems * (parts - 1) * (by_keys + by_values));
  const auto keys_of = [&](std::int64_t problem, std::int64_t part) {
    return part == 0 ? gradients.keys + problem * by_keys
                     : others.data() + (problem * (parts - 1) + part - 1) * (by_keys + by_values);
  };
  const auto values_of = [&](std::int64_t problem, std::int64_t part) {
    return part == 0 ? gradients.values + problem * by_values : keys_of(problem, part) + by_keys;
  };
  parallel(pool, shape.problems * parts, [&](std::int64_t item) {
    const std::int64_t problem = item / parts, part = item % parts;
    std::fill_n(keys_of(problem, part), by_keys, 0.0f);
    std::fill_n(values_of(problem, part), by_values, 0.0f);
    Memory memory(backward.space());
    for (std::int64_t each = part; each < blocks.count; each += parts) {
      backward.block(problem, each * blocks.columns, memory.data(), gradients.queries,
                     keys_of(problem, part), values_of(problem, part));
    }
  });
  for (std::int64_t problem = 0; problem < shape.problems; ++problem) {
    for (std::int64_t part = 1; part < parts; ++part) {
      const float* keys = keys_of(problem, part);
      const float* values = values_of(problem, part);
      for (std::int64_t each = 0; each < by_keys; ++each) {
        gradients.keys[problem * by_keys + each] += keys[each];
      }
      for (std::int64_t each = 0; each < by_values; ++each) {
        gradients.values[problem * by_values + each] += values[each];
      }
    }
  }
}

}  // namespace flambeau
