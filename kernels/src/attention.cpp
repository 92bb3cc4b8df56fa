// The results of attention, one block of queries after the other, after Dao et al., FlashAttention,
// https://arxiv.org/abs/2205.14135.

#include "attention.h"

#include <limits>

#include "memory.h"
#include "scores.h"
#include "transpose.h"

namespace flambeau {

void attend(const Attention& shape, const Inputs& inputs, float* results, const Sums& sums,
            const Pool& pool) {
  const MatrixLoops& loops = matrix_loops();
  const Blocks blocks(shape);
  const std::int64_t columns = blocks.columns;
  const std::int64_t spaces = shape.mask.is_there() ? 3 : 1;
  parallel(pool, shape.problems * blocks.count, [&](std::int64_t item) {
    const std::int64_t problem = item / blocks.count;
    const std::int64_t first = item % blocks.count * columns;
    const std::int64_t count = std::min(columns, shape.queries - first);
    const std::int64_t at = problem * shape.queries + first;
    const float* keys = inputs.keys + problem * shape.keys * shape.size;
    const float* values = inputs.values + problem * shape.keys * shape.value_size;

    // Vectors hold queries side by side in all of them.
    Memory memory((shape.size + shape.value_size + 3) * columns + spaces * blocks.size());
    float* queries = memory.data();
    float* found = queries + shape.size * columns;
    float* greatest = found + shape.value_size * columns;
    float* total = greatest + columns;
    float* factor = total + columns;
    float* scores = factor + columns;
    std::fill(queries, greatest, 0.0f);
    std::fill(greatest, total, -std::numeric_limits<float>::infinity());
    std::fill(total, factor, 0.0f);
    transpose(count, shape.size, inputs.queries + at * shape.size, shape.size, queries, columns);
    scale(shape.size * columns, shape.scale, queries);

    const std::int64_t end = last_key(shape, first, count);
    for (std::int64_t key = 0; key < end; key += blocks.keys) {
      const std::int64_t own = std::min(blocks.keys, end - key);
      loops.multiply({own, columns, shape.size, keys + key * shape.size, shape.size, 1, queries,
                      columns, scores, columns, false});
      apply_mask(shape, {problem, first, count, key, own}, columns, scores, scores + blocks.size());
      loops.weigh(own, columns, scores, greatest, total, factor);
      if (key > 0) {
        for (std::int64_t each = 0; each < shape.value_size * columns; each += columns) {
          for (std::int64_t query = 0; query < columns; ++query) {
            found[each + query] *= factor[query];
          }
        }
      }
      loops.multiply({shape.value_size, columns, own, values + key * shape.value_size, 1,
                      shape.value_size, scores, columns, found, columns, true});
    }

    std::copy_n(greatest, count, sums.greatest + at);
    std::copy_n(total, count, sums.total + at);
    for (std::int64_t query = 0; query < columns; ++query) {
      factor[query] = total[query] == 0.0f ? 0.0f : 1.0f / total[query];
    }
    for (std::int64_t each = 0; each < shape.value_size * columns; each += columns) {
      for (std::int64_t query = 0; query < columns; ++query) found[each + query] *= factor[query];
    }
    transpose(shape.value_size, count, found, columns, results + at * shape.value_size,
              shape.value_size);
  });
}

}  // namespace flambeau
