// Attention in single precision, whose scores are computed block by block and never held.
//
//   result = softmax(scale * queries * keys^T + mask) * values
//
// for each of a number of problems. All arrays but the mask are dense. A query that sees no key has
// zeros as its result.

#pragma once

#include <cstdint>
#include <vector>

#include "pool.h"

namespace flambeau {

// Which keys a query sees, or what is added to its scores.
struct Mask {
  const bool* seen = nullptr;    // true where it sees the key, or
  const float* added = nullptr;  // what is added; both are null without a mask
  std::vector<std::int64_t> begins = {};  // of each problem, in the array
  std::int64_t query_step = 0;  // from query to query; 0 where all have the same
  std::int64_t key_step = 0;

  bool is_there() const { return seen != nullptr || added != nullptr; }
};

struct Attention {
  std::int64_t problems;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t size;        // of a query and of a key
  std::int64_t value_size;  // of a value and of a result
  bool is_causal;           // a query sees the keys up to its own position
  float scale;
  Mask mask;
};

// What is given: (problems, queries, size), (problems, keys, size), (problems, keys, value_size).
struct Inputs {
  const float* queries;
  const float* keys;
  const float* values;
};

// What the softmax of each query was computed with, (problems, queries) each: the greatest of its
// scores, and the sum of exp(score - greatest).
struct Sums {
  float* greatest;
  float* total;
};

// The results, (problems, queries, value_size), and their sums.
void attend(const Attention& shape, const Inputs& inputs, float* results, const Sums& sums,
            const Pool& pool);

// The gradients of the sum of results times cotangents, in arrays like the inputs.
struct Gradients {
  float* queries;
  float* keys;
  float* values;
};
void attend_gradients(const Attention& shape, const Inputs& inputs, const float* cotangents,
                      const float* results, const Sums& sums, const Gradients& gradients,
                      const Pool& pool);

}  // namespace flambeau
