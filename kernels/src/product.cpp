// Tasks with long rows: vectors hold positions side by side, in the passes of a plan.

#include <algorithm>
#include <functional>
#include <vector>

#include "memory.h"
#include "micro.h"
#include "task.h"

namespace flambeau {
namespace {

// How much of a copy is read again and again before the next part: about half of a core's cache.
constexpr std::int64_t kTile = 64 * 1024;

// The filters of a pass in the order in which the innermost loop reads them, filled up with zeros
// to a whole number of blocks of rows.
std::vector<float> packed(const Filters& filters, const Pass& pass, int rows) {
  const std::int64_t own = static_cast<std::int64_t>(pass.taps.size());
  const std::int64_t terms = filters.channels * own;
  std::vector<float> found(round_up(filters.rows, rows) * terms);
  for (std::int64_t row = 0; row < filters.rows; ++row) {
    float* to = found.data() + row / rows * rows * terms + row % rows;
    for (std::int64_t channel = 0; channel < filters.channels; ++channel) {
      const float* from = filters.at(row, channel);
      for (std::int64_t each = 0; each < own; ++each, to += rows) *to = from[pass.taps[each]];
    }
  }
  return found;
}

// All passes of a plan, for all samples and groups.
class Product {
 public:
  Product(const Task& task, const Pool& pool)
      : plan_(task.plan), groups_(task.groups), channels_(task.channels), rows_(task.rows),
        target_(task.target), pool_(pool), weights_(task.groups * task.plan.passes.size()) {
    const std::int64_t passes = static_cast<std::int64_t>(plan_.passes.size());
    parallel(pool, groups_ * passes, [&](std::int64_t item) {
      weights_[item] =
          packed(task.filters_of(item / passes), plan_.passes[item % passes], loops_.rows);
    });
    for (const Pass& pass : plan_.passes) offsets_.push_back(offsets_of(plan_, pass, channels_));
    const std::int64_t width = channels_ * static_cast<std::int64_t>(plan_.images.size());
    tile_ = std::max(block_, kTile / width / block_ * block_);
  }

  void run(std::int64_t samples, const float* source, float* results) const {
    const std::int64_t items = samples * groups_;
    const std::int64_t source_size = channels_ * product_of(plan_.source);
    const std::int64_t target_size = rows_ * product_of(target_);
    // Where there are few samples, several threads compute rows of one.
    const std::int64_t blocks = ceil_div(rows_, loops_.rows);
    const std::int64_t parts =
        items >= 2 * pool_.threads ? 1 : std::min<std::int64_t>(blocks, pool_.threads);
    // The innermost loop reads a little more than there is.
    const bool is_plain = plan_.is_plain();
    const std::int64_t copy_size = channels_ * plan_.channel_size() + block_;
    parallel(pool_, items * parts, [&](std::int64_t each) {
      const std::int64_t item = each / parts;
      const float* from = source + item * source_size;
      Memory memory(copy_size + loops_.rows * tile_);
      if (!is_plain || (items - item - 1) * source_size < block_) {
        copy(from, memory.data(), copy_size);
        from = memory.data();
      }
      for (std::size_t pass = 0; pass < plan_.passes.size(); ++pass) {
        compute(pass, item % groups_, each % parts, parts, from, memory.data() + copy_size,
                results + item * target_size);
      }
    });
  }

 private:
  void copy(const float* from, float* to, std::int64_t size) const {
    const std::int64_t source_size = product_of(plan_.source);
    for (std::int64_t channel = 0; channel < channels_; ++channel) {
      copy_channel(plan_, from + channel * source_size, to + channel * plan_.channel_size());
    }
    std::fill(to + size - block_, to + size, 0.0f);
  }

  // One of `parts` of the blocks of rows of a pass.
  void compute(std::size_t at, std::int64_t group, std::int64_t part, std::int64_t parts,
               const float* copy, float* found, float* to) const {
    const Pass& pass = plan_.passes[at];
    const Run run{0, 0};
    const Terms terms{&run, 1, offsets_[at].data(), static_cast<std::int64_t>(offsets_[at].size())};
    const std::int64_t positions = plan_.positions(pass), target_size = product_of(target_);
    const float* weights = weights_[group * plan_.passes.size() + at].data();
    const bool has_gaps = !plan_.is_dense(pass, target_);
    for (std::int64_t begin = 0; begin < positions; begin += tile_) {
      const std::int64_t end = std::min(begin + tile_, positions);
      for (std::int64_t first = part * loops_.rows; first < rows_; first += parts * loops_.rows) {
        const std::int64_t last = std::min(rows_, first + loops_.rows);
        const bool is_whole = last - first == loops_.rows;
        // Whole blocks of results without gaps are written where they belong.
        std::int64_t stored = begin;
        for (std::int64_t place = begin; place < end; place += block_) {
          const bool fits = is_whole && !has_gaps && place + block_ <= end;
          const int count = static_cast<int>(
              std::min<std::int64_t>(loops_.vectors, ceil_div(end - place, loops_.lanes)));
          float* into = fits ? to + first * target_size + place : found + place - begin;
          Column columns[kMostVectors];
          for (int each = 0; each < count; ++each) {
            columns[each] = {copy + place + each * loops_.lanes, into + each * loops_.lanes};
          }
          loops_.product(terms, weights + first * terms.count, columns, fits ? target_size : tile_,
                         count);
          if (fits) stored = place + block_;
        }
        if (stored == end) continue;
        for (std::int64_t row = first; row < last; ++row) {
          store(plan_, pass, target_, stored, end, found + (row - first) * tile_ + stored - begin,
                to + row * target_size);
        }
      }
    }
  }

  const Micro& loops_ = micro();
  const std::int64_t block_ = loops_.lanes * loops_.vectors;
  const Plan& plan_;
  std::int64_t groups_, channels_, rows_;
  Sizes target_;
  const Pool& pool_;
  std::int64_t tile_;
  std::vector<std::vector<float>> weights_;       // of each group and pass
  std::vector<std::vector<std::int32_t>> offsets_;  // of each pass
};

}  // namespace

void run_by_positions(const Task& task, std::int64_t samples, const float* source, float* results,
                      const Pool& pool) {
  Product(task, pool).run(samples, source, results);
}

}  // namespace flambeau
