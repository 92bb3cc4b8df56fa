// Tasks with many samples: vectors hold samples side by side.
//
// Each position of an image is then whole vectors, one for each channel, so nothing is computed
// beyond the edges of images, and rows may be short and strides long.

#include <algorithm>
#include <map>
#include <utility>

#include "memory.h"
#include "micro.h"
#include "task.h"

namespace flambeau {
namespace {

// How many positions of results are computed before they are turned round.
constexpr std::int64_t kChunk = 64;

// Elements of a row of results that read the same taps, at the same distances.
struct Block {
  std::vector<std::int64_t> columns;  // of the target
  std::vector<std::int64_t> places;   // what the first tap reads
  std::vector<Meeting> taps;          // each with the distance from there
};

std::vector<Block> blocks_of(const std::vector<std::vector<Meeting>>& meetings, std::size_t most) {
  std::map<std::vector<std::pair<std::int64_t, std::int64_t>>, Block> open;
  std::vector<Block> found;
  for (std::size_t column = 0; column < meetings.size(); ++column) {
    const std::int64_t place = meetings[column].empty() ? 0 : meetings[column][0].place;
    std::vector<std::pair<std::int64_t, std::int64_t>> key;
    std::vector<Meeting> taps;
    for (const Meeting& each : meetings[column]) {
      key.emplace_back(each.tap, each.place - place);
      taps.push_back({each.tap, each.place - place});
    }
    Block& block = open[key];
    block.taps = std::move(taps);
    block.columns.push_back(static_cast<std::int64_t>(column));
    block.places.push_back(place);
    if (block.columns.size() == most) found.push_back(std::exchange(block, {}));
  }
  for (auto& each : open) {
    if (!each.second.columns.empty()) found.push_back(std::move(each.second));
  }
  return found;
}

class Interleaved {
 public:
  Interleaved(const Task& task, std::int64_t samples, const Pool& pool)
      : task_(task), samples_(samples), pool_(pool), weights_(task.groups),
        blocks_(blocks_of(task.meetings[2], loops_.vectors)) {
    parallel(pool, task.groups, [&](std::int64_t group) { weights_[group] = packed(group); });
    for (std::int64_t channel = 0; channel < task.channels; ++channel) {
      offsets_.push_back(static_cast<std::int32_t>(channel * loops_.lanes));
    }
    const std::int64_t lines = task.target[0] * task.target[1];
    const std::int64_t batches = ceil_div(samples, loops_.lanes);
    // Strips have as many lines as fit, but all threads have something to do.
    const std::int64_t fair = ceil_div(pool.threads, batches * task.groups);
    strip_ = ceil_div(lines, fair);
    while (strip_ > 1 && source_size(0, std::min(lines, strip_)) > kStrip) --strip_;
    std::int64_t strips = ceil_div(lines, strip_);
    // No thread has a strip more than the others, if a few more strips can do that.
    while (strips < lines && batches * task.groups * strips % pool.threads != 0) ++strips;
    strip_ = ceil_div(lines, strips);
    source_most_ = 0;
    for (std::int64_t first = 0; first < lines; first += strip_) {
      source_most_ = std::max(source_most_, source_size(first, std::min(lines, first + strip_)));
    }
    chunk_ = std::min(strip_, ceil_div(kChunk, task.target[2]));
    for (std::int64_t place = 0; place < source_most_; place += task.channels * loops_.lanes) {
      places_.push_back(static_cast<std::int32_t>(place));
    }
  }

  void run(const float* source, float* results) const {
    const std::int64_t lines = task_.target[0] * task_.target[1];
    const std::int64_t strips = ceil_div(lines, strip_);
    const std::int64_t batches = ceil_div(samples_, loops_.lanes);
    parallel(pool_, batches * task_.groups * strips, [&](std::int64_t item) {
      const std::int64_t first = item % strips * strip_;
      compute(item / strips / task_.groups * loops_.lanes, item / strips % task_.groups, first,
              std::min(lines, first + strip_), source, results);
    });
  }

 private:
  std::int64_t source_lines() const { return task_.plan.source[0] * task_.plan.source[1]; }

  // The lines of the source that these lines of the target read.
  std::pair<std::int64_t, std::int64_t> range_of(std::int64_t first, std::int64_t last) const {
    std::int64_t low = source_lines(), high = 0;
    for (std::int64_t line = first; line < last; ++line) {
      for (const Meeting& d : task_.meetings[0][line / task_.target[1]]) {
        for (const Meeting& h : task_.meetings[1][line % task_.target[1]]) {
          const std::int64_t place = d.place * task_.plan.source[1] + h.place;
          low = std::min(low, place);
          high = std::max(high, place + 1);
        }
      }
    }
    return {std::min(low, high), high};
  }
  std::int64_t source_size(std::int64_t first, std::int64_t last) const {
    const auto [low, high] = range_of(first, last);
    return (high - low) * task_.plan.source[2] * task_.channels * loops_.lanes;
  }

  // The filters of a group in blocks of rows, each with its taps, each with its channels.
  std::vector<float> packed(std::int64_t group) const {
    const Filters filters = task_.filters_of(group);
    const std::int64_t taps = product_of(task_.kernel), rows = loops_.rows;
    std::vector<float> found(round_up(filters.rows, rows) * taps * filters.channels);
    for (std::int64_t row = 0; row < filters.rows; ++row) {
      float* to = found.data() + row / rows * rows * taps * filters.channels + row % rows;
      for (std::int64_t channel = 0; channel < filters.channels; ++channel) {
        const float* from = filters.at(row, channel);
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          to[(tap * filters.channels + channel) * rows] = from[tap];
        }
      }
    }
    return found;
  }

  void compute(std::int64_t sample, std::int64_t group, std::int64_t first, std::int64_t last,
               const float* source, float* results) const {
    const auto [low, high] = range_of(first, last);
    const std::int64_t lanes = loops_.lanes, rows = loops_.rows;
    const std::int64_t source_width = task_.plan.source[2], target_width = task_.target[2];
    const std::int64_t source_size = product_of(task_.plan.source);
    const std::int64_t target_size = product_of(task_.target);
    const int count = static_cast<int>(std::min(lanes, samples_ - sample));
    Memory memory(source_most_ + rows * chunk_ * target_width * lanes);
    float* found = memory.data() + source_most_;

    const float* from = source + (sample * task_.groups + group) * task_.channels * source_size;
    for (std::int64_t channel = 0; channel < task_.channels; ++channel) {
      gather(from + channel * source_size + low * source_width, (high - low) * source_width, count,
             memory.data() + channel * lanes);
    }

    const std::int64_t terms = product_of(task_.kernel) * task_.channels;
    float* to = results + (sample * task_.groups + group) * task_.rows * target_size;
    for (std::int64_t begin = first; begin < last; begin += chunk_) {
      const std::int64_t end = std::min(last, begin + chunk_);
      const std::int64_t pitch = (end - begin) * target_width * lanes;
      for (std::int64_t row = 0; row < task_.rows; row += rows) {
        for (std::int64_t line = begin; line < end; ++line) {
          row_of(line, low, memory.data(), weights_[group].data() + row * terms,
                 found + (line - begin) * target_width * lanes, pitch);
        }
        const std::int64_t used = std::min(rows, task_.rows - row);
        for (std::int64_t each = 0; each < used; ++each) {
          scatter(found + each * pitch, (end - begin) * target_width, count,
                  to + (row + each) * target_size + begin * target_width);
        }
      }
    }
  }

  // Computes a block of channels of one row of results.
  void row_of(std::int64_t line, std::int64_t low, const float* source, const float* weights,
              float* found, std::int64_t pitch) const {
    const std::int64_t position = task_.channels * loops_.lanes;
    std::vector<Run> runs;
    for (const Block& block : blocks_) {
      runs.clear();
      for (const Meeting& d : task_.meetings[0][line / task_.target[1]]) {
        for (const Meeting& h : task_.meetings[1][line % task_.target[1]]) {
          const std::int64_t from = d.place * task_.plan.source[1] + h.place - low;
          const std::int64_t tap = (d.tap * task_.kernel[1] + h.tap) * task_.kernel[2];
          for (const Meeting& w : block.taps) {
            runs.push_back({(tap + w.tap) * task_.channels * loops_.rows,
                            (from * task_.plan.source[2] + w.place) * position});
          }
        }
      }
      const Terms terms{runs.data(), static_cast<std::int64_t>(runs.size()), offsets_.data(),
                        task_.channels};
      Column columns[kMostVectors];
      const int count = static_cast<int>(block.columns.size());
      for (int each = 0; each < count; ++each) {
        columns[each] = {source + block.places[each] * position,
                         found + block.columns[each] * loops_.lanes};
      }
      loops_.product(terms, weights, columns, pitch, count);
    }
  }

  // Copies positions of a channel with all samples side by side.
  void gather(const float* from, std::int64_t positions, int samples, float* to) const {
    const std::int64_t pitch = task_.groups * task_.channels * product_of(task_.plan.source);
    for (std::int64_t position = 0; position < positions; position += loops_.lanes) {
      const std::int64_t columns = std::min<std::int64_t>(loops_.lanes, positions - position);
      loops_.transpose(samples, static_cast<int>(columns), from + position, pitch, to,
                       places_.data() + position);
    }
  }

  // The reverse.
  void scatter(const float* from, std::int64_t positions, int samples, float* to) const {
    const std::int64_t pitch = task_.groups * task_.rows * product_of(task_.target);
    std::int32_t places[kMostLanes];
    for (int sample = 0; sample < samples; ++sample) {
      places[sample] = static_cast<std::int32_t>(sample * pitch);
    }
    for (std::int64_t position = 0; position < positions; position += loops_.lanes) {
      const int rows = static_cast<int>(std::min<std::int64_t>(loops_.lanes, positions - position));
      loops_.transpose(rows, samples, from + position * loops_.lanes, loops_.lanes, to + position,
                       places);
    }
  }

  const Micro& loops_ = micro();
  const Task& task_;
  std::int64_t samples_;
  const Pool& pool_;
  std::vector<std::vector<float>> weights_;  // of each group
  std::vector<Block> blocks_;                // of a row of results
  std::vector<std::int32_t> offsets_;        // of channels
  std::vector<std::int32_t> places_;         // of positions
  std::int64_t strip_, chunk_, source_most_;
};

}  // namespace

void run_interleaved(const Task& task, std::int64_t samples, const float* source, float* results,
                     const Pool& pool) {
  Interleaved(task, samples, pool).run(source, results);
}

}  // namespace flambeau
