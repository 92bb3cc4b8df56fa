#include "scores.h"

#include <limits>

#include "transpose.h"

namespace flambeau {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

void hide_later_keys(const Meeting& at, std::int64_t columns, float* scores) {
  for (std::int64_t key = 0; key < at.keys; ++key) {
    const std::int64_t hidden = std::clamp<std::int64_t>(at.key + key - at.query, 0, at.queries);
    std::fill_n(scores + key * columns, hidden, kHidden);
  }
}

// Calls change(score, masked) for each score, with the number that `read` gives for its mask.
template <typename Read, typename Change>
void with_mask(const Mask& mask, const Meeting& at, std::int64_t columns, float* scores,
               float* space, Read read, Change change) {
  const std::int64_t begin =
      mask.begins[at.problem] + at.query * mask.query_step + at.key * mask.key_step;
  if (mask.query_step == 0) {
    for (std::int64_t key = 0; key < at.keys; ++key) {
      const float masked = read(begin + key * mask.key_step);
      float* row = scores + key * columns;
      for (std::int64_t query = 0; query < at.queries; ++query) change(row[query], masked);
    }
    return;
  }
  float* turned = space + at.queries * at.keys;
  for (std::int64_t query = 0; query < at.queries; ++query) {
    const std::int64_t from = begin + query * mask.query_step;
    float* row = space + query * at.keys;
    if (mask.key_step == 1) {
      for (std::int64_t key = 0; key < at.keys; ++key) row[key] = read(from + key);
    } else {
      std::fill_n(row, at.keys, read(from));
    }
  }
  transpose(at.queries, at.keys, space, at.keys, turned, at.queries);
  for (std::int64_t key = 0; key < at.keys; ++key) {
    float* row = scores + key * columns;
    const float* masked = turned + key * at.queries;
    for (std::int64_t query = 0; query < at.queries; ++query) change(row[query], masked[query]);
  }
}

}  // namespace

void apply_mask(const Attention& shape, const Meeting& at, std::int64_t columns, float* scores,
                float* space) {
  const Mask& mask = shape.mask;
  if (shape.is_causal) hide_later_keys(at, columns, scores);
  if (mask.added != nullptr) {
    with_mask(mask, at, columns, scores, space, [&](std::int64_t from) { return mask.added[from]; },
              [](float& score, float masked) { score += masked; });
  } else if (mask.seen != nullptr) {
    with_mask(mask, at, columns, scores, space,
              [&](std::int64_t from) { return mask.seen[from] ? 0.0f : kHidden; },
              [](float& score, float masked) { score = masked < 0.0f ? kHidden : score; });
  }
}

}  // namespace flambeau
