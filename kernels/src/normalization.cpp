#include "normalization.h"

#include <algorithm>
#include <vector>

#include "rows.h"
#include "share.h"

namespace flambeau {

void map_rows(OfRow function, const Rows& rows, const float* from, float* to, const Pool& pool) {
  share(pool, rows, parts_of(pool, rows), [&](std::int64_t, std::int64_t row, std::int64_t last) {
    for (; row < last; ++row) function(rows.size, from + row * rows.size, to + row * rows.size);
  });
}

void map_two_rows(OfTwoRows function, const Rows& rows, const float* results,
                  const float* cotangents, float* to, const Pool& pool) {
  share(pool, rows, parts_of(pool, rows), [&](std::int64_t, std::int64_t row, std::int64_t last) {
    for (; row < last; ++row) {
      const std::int64_t at = row * rows.size;
      function(rows.size, results + at, cotangents + at, to + at);
    }
  });
}

void log_sums(const Rows& rows, const float* from, float* greatest, float* logarithms,
              const Pool& pool) {
  const RowLoops& loops = row_loops();
  share(pool, rows, parts_of(pool, rows), [&](std::int64_t, std::int64_t row, std::int64_t last) {
    for (; row < last; ++row) {
      loops.log_sum(rows.size, from + row * rows.size, greatest + row, logarithms + row);
    }
  });
}

void cross_entropy_gradient(const Rows& rows, const CrossEntropy& given, float* to,
                            const Pool& pool) {
  const RowLoops& loops = row_loops();
  share(pool, rows, parts_of(pool, rows), [&](std::int64_t, std::int64_t row, std::int64_t last) {
    for (; row < last; ++row) {
      const std::int64_t at = row * rows.size, target = given.targets[row];
      loops.weights(rows.size, given.from + at, given.greatest[row], given.logarithms[row],
                    given.cotangents[row], to + at);
      if (target >= 0 && target < rows.size) to[at + target] -= given.cotangents[row];
    }
  });
}

void standardize_rows(const Rows& rows, const float* from, const float* weight, const float* bias,
                      float epsilon, float* to, const Pool& pool) {
  const RowLoops& loops = row_loops();
  share(pool, rows, parts_of(pool, rows), [&](std::int64_t, std::int64_t row, std::int64_t last) {
    for (; row < last; ++row) {
      loops.standardize(rows.size, from + row * rows.size, weight, bias, epsilon,
                        to + row * rows.size);
    }
  });
}

void standardize_rows_gradients(const Rows& rows, const float* from, const float* weight,
                                const float* cotangents, float epsilon, const Slopes& to,
                                const Pool& pool) {
  const RowLoops& loops = row_loops();
  const std::int64_t parts = parts_of(pool, rows), size = rows.size;
  // Each part has sums of its own, which are added at the end.
  std::vector<float> others(2 * (parts - 1) * size);
  const auto weight_of = [&](std::int64_t part) {
    return part == 0 ? to.weight : others.data() + 2 * (part - 1) * size;
  };
  const auto bias_of = [&](std::int64_t part) {
    return part == 0 ? to.bias : weight_of(part) + size;
  };
  share(pool, rows, parts, [&](std::int64_t part, std::int64_t row, std::int64_t last) {
    std::fill_n(weight_of(part), size, 0.0f);
    std::fill_n(bias_of(part), size, 0.0f);
    for (; row < last; ++row) {
      const std::int64_t at = row * size;
      loops.standardize_gradient(size, from + at, weight, cotangents + at, epsilon, to.rows + at,
                                 weight_of(part), bias_of(part));
    }
  });
  for (std::int64_t part = 1; part < parts; ++part) {
    for (std::int64_t each = 0; each < size; ++each) {
      to.weight[each] += weight_of(part)[each];
      to.bias[each] += bias_of(part)[each];
    }
  }
}

namespace {

// Calls body(channel, at) for each group of each sample, with the place of its first channel among
// those of the sample and among those of all samples.
template <typename Body>
void share_groups(const Pool& pool, const Groups& groups, std::int64_t length, Body body) {
  const Rows rows{groups.samples * groups.count, length * groups.size};
  share(pool, rows, parts_of(pool, rows), [&](std::int64_t, std::int64_t row, std::int64_t last) {
    for (; row < last; ++row) body(row % groups.count * length, row * length);
  });
}

}  // namespace

void standardize_groups(const Groups& groups, const float* from, const float* weight,
                        const float* bias, float epsilon, float* to, const Pool& pool) {
  const RowLoops& loops = row_loops();
  const std::int64_t length = groups.channels / groups.count, size = groups.size;
  share_groups(pool, groups, length, [&](std::int64_t channel, std::int64_t at) {
    loops.standardize_group(length, size, from + at * size, weight + channel, bias + channel,
                            epsilon, to + at * size);
  });
}

void standardize_groups_gradients(const Groups& groups, const float* from, const float* weight,
                                  const float* cotangents, float epsilon, const Slopes& to,
                                  const Pool& pool) {
  const RowLoops& loops = row_loops();
  const std::int64_t length = groups.channels / groups.count, size = groups.size;
  // Each sample has sums of its own, which are added at the end.
  const std::int64_t count = groups.samples * groups.channels;
  std::vector<float> by_weight(count), by_bias(count);
  share_groups(pool, groups, length, [&](std::int64_t channel, std::int64_t at) {
    loops.standardize_group_gradient(length, size, from + at * size, weight + channel,
                                     cotangents + at * size, epsilon, to.rows + at * size,
                                     by_weight.data() + at, by_bias.data() + at);
  });
  std::fill_n(to.weight, groups.channels, 0.0f);
  std::fill_n(to.bias, groups.channels, 0.0f);
  for (std::int64_t each = 0; each < count; ++each) {
    to.weight[each % groups.channels] += by_weight[each];
    to.bias[each % groups.channels] += by_bias[each];
  }
}

}  // namespace flambeau
