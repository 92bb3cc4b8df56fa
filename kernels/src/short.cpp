// Tasks with small images: vectors hold filters side by side, and a block has several positions.
//
// The positions of several samples are put one after the other, so none is computed in vain.

#include <algorithm>

#include "memory.h"
#include "micro.h"
#include "task.h"

namespace flambeau {
namespace {

// How many numbers are brought side by side at once.
constexpr std::int64_t kMost = 1024 * 1024;

// The filters of a pass in panels of `width` of them, each with one row for each term. The last
// panel is filled up with zeros.
std::vector<float> panels(const Filters& filters, const Pass& pass, std::int64_t width) {
  const std::int64_t own = static_cast<std::int64_t>(pass.taps.size());
  std::vector<float> found(filters.channels * own * round_up(filters.rows, width));
  float* to = found.data();
  for (std::int64_t first = 0; first < filters.rows; first += width) {
    const std::int64_t count = std::min(width, filters.rows - first);
    for (std::int64_t channel = 0; channel < filters.channels; ++channel) {
      const float* from = filters.at(first, channel);
      for (std::int64_t each = 0; each < own; ++each, to += width) {
        for (std::int64_t row = 0; row < count; ++row) {
          to[row] = from[row * filters.row_step + pass.taps[each]];
        }
      }
    }
  }
  return found;
}

// One pass of a task.
class Short {
 public:
  Short(const Task& task, const Pass& pass, const Pool& pool)
      : task_(task), offsets_(offsets_of(task.plan, pass, task.channels)),
        places_(places_of(task.plan, pass, task.target)), filters_(task.groups) {
    parallel(pool, task.groups, [&](std::int64_t group) {
      filters_[group] = panels(task.filters_of(group), pass, width_);
    });
    for (std::int64_t term = 0; term < terms(); ++term) {
      rows_.push_back(static_cast<std::int32_t>(term * width_));
    }
  }

  std::int64_t terms() const { return static_cast<std::int64_t>(offsets_.size()); }
  std::int64_t count() const { return static_cast<std::int64_t>(places_.positions.size()); }
  // How many numbers `bring` writes for so many samples.
  std::int64_t size(std::int64_t samples) const {
    return round_up(samples * count(), loops_.rows) * terms();
  }

  // Brings what the positions of a sample read side by side.
  void bring(std::int64_t sample, const float* copy, float* to) const {
    const std::int64_t rows = loops_.rows;
    std::vector<std::int64_t> into;
    for (std::int64_t index = sample * count(); index < (sample + 1) * count(); ++index) {
      into.push_back(index / rows * rows * terms() + index % rows);
    }
    for (std::int64_t term = 0; term < terms(); ++term, to += rows) {
      const float* from = copy + offsets_[term];
      for (std::size_t each = 0; each < into.size(); ++each) {
        to[into[each]] = from[places_.positions[each]];
      }
    }
  }

  // Computes one of `parts` of the filters for samples whose results begin at `to`.
  void compute(std::int64_t group, std::int64_t samples, std::int64_t part, std::int64_t parts,
               const float* brought, float* found, float* to) const {
    const std::int64_t all = samples * count(), block = loops_.rows * terms();
    const std::int64_t target_size = product_of(task_.target);
    const std::int64_t sample_size = task_.groups * task_.rows * target_size;
    for (std::int64_t column = part * width_; column < task_.rows; column += parts * width_) {
      const std::int64_t columns = std::min(width_, task_.rows - column);
      const int vectors = static_cast<int>(ceil_div(columns, loops_.lanes));
      const Run run{0, 0};
      Column panel[kMostVectors];
      for (int each = 0; each < vectors; ++each) {
        panel[each] = {filters_[group].data() + column * terms() + each * loops_.lanes,
                       found + each * loops_.lanes};
      }
      for (std::int64_t first = 0; first < all; first += loops_.rows) {
        loops_.product({&run, 1, rows_.data(), terms()}, brought + first / loops_.rows * block,
                       panel, width_, vectors);
        const std::int64_t last = std::min<std::int64_t>(all, first + loops_.rows);
        for (std::int64_t index = first; index < last; ++index) {
          float* result = to + index / count() * sample_size + column * target_size +
                          places_.targets[index % count()];
          const float* from = found + (index - first) * width_;
          for (std::int64_t each = 0; each < columns; ++each) result[each * target_size] = from[each];
        }
      }
    }
  }

 private:
  const Micro& loops_ = micro();
  const std::int64_t width_ = loops_.lanes * loops_.vectors;
  const Task& task_;
  std::vector<std::int32_t> offsets_;
  Places places_;
  std::vector<std::vector<float>> filters_;  // of each group
  std::vector<std::int32_t> rows_;           // where the terms begin in a panel
};

}  // namespace

void run_by_filters(const Task& task, std::int64_t samples, const float* source, float* results,
                    const Pool& pool) {
  const Micro& loops = micro();
  std::vector<Short> passes;
  std::int64_t largest = 1;
  for (const Pass& pass : task.plan.passes) {
    if (product_of(pass.count) == 0) continue;
    passes.emplace_back(task, pass, pool);
    largest = std::max(largest, passes.back().size(1));
  }
  const std::int64_t fair = ceil_div(samples * task.groups, pool.threads);
  const std::int64_t together =
      std::max<std::int64_t>(1, std::min({samples, fair, kMost / largest}));
  const std::int64_t ranges = ceil_div(samples, together), items = ranges * task.groups;
  const std::int64_t chunk = loops.lanes * loops.vectors;
  const std::int64_t parts =
      items >= pool.threads ? 1 : std::min<std::int64_t>(ceil_div(task.rows, chunk), pool.threads);

  const std::int64_t source_size = product_of(task.plan.source);
  const std::int64_t copy_size = task.channels * task.plan.channel_size();
  std::int64_t brought_size = 0;
  for (const Short& pass : passes) brought_size = std::max(brought_size, pass.size(together));

  parallel(pool, items * parts, [&](std::int64_t item) {
    const std::int64_t group = item / parts % task.groups;
    const std::int64_t first = item / parts / task.groups * together;
    const std::int64_t count = std::min(together, samples - first);
    Memory memory(together * copy_size + brought_size + loops.rows * chunk);
    float* brought = memory.data() + together * copy_size;
    for (std::int64_t sample = 0; sample < count; ++sample) {
      const std::int64_t at = ((first + sample) * task.groups + group) * task.channels;
      for (std::int64_t channel = 0; channel < task.channels; ++channel) {
        copy_channel(task.plan, source + (at + channel) * source_size,
                     memory.data() + sample * copy_size + channel * task.plan.channel_size());
      }
    }
    for (const Short& pass : passes) {
      // The last block may have fewer positions.
      const std::int64_t used = pass.size(count), block = loops.rows * pass.terms();
      std::fill(brought + std::max<std::int64_t>(0, used - block), brought + used, 0.0f);
      for (std::int64_t sample = 0; sample < count; ++sample) {
        pass.bring(sample, memory.data() + sample * copy_size, brought);
      }
      pass.compute(group, count, item % parts, parts, brought, brought + brought_size,
                   results + (first * task.groups + group) * task.rows * product_of(task.target));
    }
  });
}

}  // namespace flambeau
