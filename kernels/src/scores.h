// The scores of a block of keys and queries: one row for each key, so that a softmax goes from row to
// row and its vectors hold queries side by side.

#pragma once

#include <algorithm>

#include "attention.h"
#include "matrix.h"
#include "plan.h"

namespace flambeau {

// A block of so many queries and keys fits in half of a core's cache.
constexpr std::int64_t kMostQueries = 192;
constexpr std::int64_t kMostKeys = 128;
// Of short causal sequences smaller blocks leave out more that is hidden.
constexpr std::int64_t kShort = 512;
constexpr std::int64_t kMostWhenShort = 48;

// How an attention is divided into blocks.
struct Blocks {
  explicit Blocks(const Attention& shape)
      : is_short(shape.is_causal && shape.queries <= kShort),
        columns(even(shape.queries, is_short ? kMostWhenShort : kMostQueries,
                     matrix_loops().lanes)),
        keys(even(shape.keys, is_short ? kMostWhenShort : kMostKeys, 8)),
        count(ceil_div(shape.queries, columns)) {}

  // Parts of about the same size, which is a multiple of `unit`.
  static std::int64_t even(std::int64_t size, std::int64_t most, std::int64_t unit) {
    return round_up(ceil_div(size, ceil_div(size, most)), unit);
  }

  bool is_short;
  std::int64_t columns;  // the queries of a block, side by side
  std::int64_t keys;
  std::int64_t count;  // of blocks of queries
  // The numbers of a block.
  std::int64_t size() const { return keys * columns; }
};

// Queries and keys that meet in a block.
struct Meeting {
  std::int64_t problem;
  std::int64_t query;  // the first one
  std::int64_t queries;
  std::int64_t key;  // the first one
  std::int64_t keys;
};

// Up to which key the queries of a block see anything.
inline std::int64_t last_key(const Attention& shape, std::int64_t query, std::int64_t queries) {
  return shape.is_causal ? std::min(shape.keys, query + queries) : shape.keys;
}

inline void scale(std::int64_t count, float factor, float* numbers) {
  for (std::int64_t each = 0; each < count; ++each) numbers[each] *= factor;
}

// Applies the mask to scores, (keys, columns). `space` has room for two blocks.
void apply_mask(const Attention& shape, const Meeting& at, std::int64_t columns, float* scores,
                float* space);

}  // namespace flambeau
