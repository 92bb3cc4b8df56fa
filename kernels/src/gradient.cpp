// Gradients of convolutions by filters.

#include <algorithm>
#include <cstring>
#include <vector>

#include "memory.h"
#include "micro.h"
#include "plan.h"

namespace flambeau {

namespace {

// Sums over shorter rows than this go over several samples at once.
constexpr std::int64_t kLongEnough = 1024;
// Rows that are hardly longer when they are filled up to whole vectors.
constexpr std::int64_t kManyPositions = 128;
// The copies of these samples have at most so many numbers.
constexpr std::int64_t kMost = 2 * 1024 * 1024;

// Sums along the positions: for few channels.
void by_positions(const Convolution& shape, const float* cotangents, const float* images,
                  float* filters, const Pool& pool) {
  const Micro& loops = micro();
  const Plan plan = plan_of_results(shape);
  const Pass& pass = plan.passes[0];
  const std::int64_t taps = product_of(shape.kernel), terms = shape.inputs * taps;
  const std::int64_t positions = round_up(plan.positions(pass), loops.lanes);
  const std::int64_t per_group = shape.outputs * terms, whole = shape.groups * per_group;
  const std::int64_t image_size = product_of(shape.image), result_size = product_of(shape.result);

  // A copy of cotangents has the rows of the images' copy, and zeros behind each of its own.
  Plan rows;
  rows.source = shape.result;
  rows.size = {shape.result[0], plan.size[1], plan.size[2]};
  rows.images.push_back(Image{{0, 0, 0}, {1, 1, 1}});

  const std::int64_t image_copy = shape.inputs * plan.channel_size() + loops.lanes;
  const std::int64_t row_size = round_up(rows.channel_size(), loops.lanes);
  const std::int64_t row_copy = shape.outputs * row_size;
  const std::int64_t together = std::min(shape.samples, ceil_div(kLongEnough, positions));

  // Each range of samples has sums of its own, which are added at the end.
  const std::int64_t ranges = std::max<std::int64_t>(
      1, std::min<std::int64_t>(ceil_div(shape.samples, together), ceil_div(pool.threads, shape.groups)));
  const std::int64_t row_blocks = ceil_div(shape.outputs, loops.left_rows);
  const std::int64_t parts = std::max<std::int64_t>(
      1, std::min<std::int64_t>(row_blocks, pool.threads / (ranges * shape.groups)));
  std::vector<float> sums(ranges > 1 ? (ranges - 1) * whole : 0);
  std::memset(filters, 0, whole * sizeof(float));

  parallel(pool, ranges * shape.groups * parts, [&](std::int64_t item) {
    const std::int64_t range = item / parts / shape.groups, group = item / parts % shape.groups;
    const std::int64_t part = item % parts;
    float* own = (range == 0 ? filters : sums.data() + (range - 1) * whole) + group * per_group;
    Memory memory(together * (image_copy + row_copy));
    float* copies = memory.data();
    float* row_copies = copies + together * image_copy;
    std::vector<float> block(loops.left_rows * loops.right_rows);
    std::vector<const float*> left(loops.left_rows), right(loops.right_rows);

    const std::int64_t first = shape.samples * range / ranges;
    const std::int64_t last = shape.samples * (range + 1) / ranges;
    for (std::int64_t begin = first; begin < last; begin += together) {
      const std::int64_t count = std::min(together, last - begin);
      for (std::int64_t sample = 0; sample < count; ++sample) {
        const std::int64_t at = (begin + sample) * shape.groups + group;
        float* copy = copies + sample * image_copy;
        for (std::int64_t each = 0; each < shape.inputs; ++each) {
          copy_channel(plan, images + (at * shape.inputs + each) * image_size,
                       copy + each * plan.channel_size());
        }
        std::memset(copy + image_copy - loops.lanes, 0, loops.lanes * sizeof(float));
        float* row = row_copies + sample * row_copy;
        for (std::int64_t each = 0; each < shape.outputs; ++each) {
          float* to = row + each * row_size;
          copy_channel(rows, cotangents + (at * shape.outputs + each) * result_size, to);
          std::fill(to + rows.channel_size(), to + row_size, 0.0f);
        }
      }
      for (std::int64_t rows_at = part; rows_at < row_blocks; rows_at += parts) {
        // The last block repeats its last row and column; what they sum to is not added.
        const std::int64_t output = rows_at * loops.left_rows;
        const std::int64_t outputs = std::min<std::int64_t>(loops.left_rows, shape.outputs - output);
        for (int i = 0; i < loops.left_rows; ++i) {
          left[i] = row_copies + (output + std::min<std::int64_t>(i, outputs - 1)) * row_size;
        }
        for (std::int64_t term = 0; term < terms; term += loops.right_rows) {
          const std::int64_t own_terms = std::min<std::int64_t>(loops.right_rows, terms - term);
          for (int j = 0; j < loops.right_rows; ++j) {
            const std::int64_t each = term + std::min<std::int64_t>(j, own_terms - 1);
            right[j] = copies + each / taps * plan.channel_size() + pass.shifts[each % taps];
          }
          std::fill(block.begin(), block.end(), 0.0f);
          loops.gradient(count, positions, left.data(), row_copy, right.data(), image_copy,
                         block.data());
          for (std::int64_t i = 0; i < outputs; ++i) {
            for (std::int64_t j = 0; j < own_terms; ++j) {
              own[(output + i) * terms + term + j] += block[i * loops.right_rows + j];
            }
          }
        }
      }
    }
  });
  for (std::int64_t range = 1; range < ranges; ++range) {
    const float* own = sums.data() + (range - 1) * whole;
    for (std::int64_t each = 0; each < whole; ++each) filters[each] += own[each];
  }
}

// How samples are divided: `ranges` of them have sums of their own, of which several threads may
// compute `parts`; `together` samples are summed over at once.
struct Division {
  std::int64_t together;
  std::int64_t ranges;
  std::int64_t parts;
};

Division division_of(const Convolution& shape, std::int64_t positions, std::int64_t size,
                     std::int64_t blocks, const Pool& pool) {
  Division found;
  found.together = std::max<std::int64_t>(
      1, std::min({shape.samples, ceil_div(kLongEnough, positions), kMost / size}));
  found.ranges = std::max<std::int64_t>(1, std::min(ceil_div(shape.samples, found.together),
                                                    ceil_div(pool.threads, shape.groups)));
  found.parts = std::max<std::int64_t>(
      1, std::min(blocks, pool.threads / (found.ranges * shape.groups)));
  return found;
}

// Vectors hold input channels side by side, and the terms of a sum are positions.
class ByChannels {
 public:
  ByChannels(const Convolution& shape, const Pool& pool)
      : shape_(shape), plan_(plan_of_results(shape)), pool_(pool) {
    const std::int64_t size = copy_size() + blocks_ * loops_.rows * count();
    division_ = division_of(shape, count(), size, blocks_, pool);
    for (std::int64_t sample = 0; sample < division_.together; ++sample) {
      for (const std::int64_t position : places_.positions) {
        offsets_.push_back(static_cast<std::int32_t>(sample * copy_size() + position * panel_));
      }
    }
  }

  void run(const float* cotangents, const float* images, float* filters) const {
    const std::int64_t taps = product_of(shape_.kernel);
    const std::int64_t per_group = shape_.outputs * taps * width_;
    const std::int64_t whole = shape_.groups * per_group;
    const auto [together, ranges, parts] = division_;
    std::vector<float> sums(ranges * whole);
    parallel(pool_, ranges * shape_.groups * parts, [&, parts = parts](std::int64_t item) {
      sum(item / parts / shape_.groups, item / parts % shape_.groups, item % parts, cotangents,
          images, sums.data() + item / parts * per_group);
    });
    parallel(pool_, shape_.groups * shape_.outputs, [&, ranges = ranges](std::int64_t output) {
      const float* from = sums.data() + output * taps * width_;
      float* to = filters + output * shape_.inputs * taps;
      for (std::int64_t input = 0; input < shape_.inputs; ++input) {
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          float total = 0;
          for (std::int64_t range = 0; range < ranges; ++range) {
            total += from[range * whole + tap * width_ + input];
          }
          *to++ = total;
        }
      }
    });
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(places_.positions.size()); }
  std::int64_t copy_size() const { return plan_.channel_size() * round_up(width_, panel_); }

  // Adds up part of the gradient of a group over a range of samples.
  void sum(std::int64_t range, std::int64_t group, std::int64_t part, const float* cotangents,
           const float* images, float* sums) const {
    const std::int64_t taps = product_of(shape_.kernel), rows = loops_.rows;
    const std::int64_t together = division_.together, row_size = blocks_ * rows * count();
    const std::int64_t bundle = loops_.lanes * plan_.channel_size();
    Memory memory(together * (copy_size() + row_size) + bundle + rows * panel_);
    float* copies = memory.data();
    float* row_copies = copies + together * copy_size();
    float* channels = row_copies + together * row_size;
    float* found = channels + bundle;

    const std::int64_t first = shape_.samples * range / division_.ranges;
    const std::int64_t last = shape_.samples * (range + 1) / division_.ranges;
    for (std::int64_t begin = first; begin < last; begin += together) {
      const std::int64_t samples = std::min(together, last - begin);
      const std::int64_t terms = samples * count();
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        const std::int64_t at = (begin + sample) * shape_.groups + group;
        copy_images(images + at * shape_.inputs * product_of(shape_.image), channels,
                    copies + sample * copy_size());
        copy_rows(cotangents + at * shape_.outputs * count(), sample * count(), terms, row_copies);
      }
      for (std::int64_t block = part; block < blocks_; block += division_.parts) {
        const std::int64_t outputs = std::min(rows, shape_.outputs - block * rows);
        for (std::int64_t column = 0; column < width_; column += panel_) {
          const std::int64_t columns = std::min(panel_, width_ - column);
          const float* panel = copies + column * plan_.channel_size();
          for (std::int64_t tap = 0; tap < taps; ++tap) {
            loops_.product(terms, row_copies + block * rows * terms, offsets_.data(),
                           panel + plan_.passes[0].shifts[tap] * panel_, found, panel_,
                           static_cast<int>(columns / loops_.lanes));
            for (std::int64_t row = 0; row < outputs; ++row) {
              float* to = sums + ((block * rows + row) * taps + tap) * width_ + column;
              for (std::int64_t each = 0; each < columns; ++each) to[each] += found[row * panel_ + each];
            }
          }
        }
      }
    }
  }

  // Copies the images of a sample in panels of channels, with one row for each position. Vectors
  // that have no channel are not read.
  void copy_images(const float* from, float* channels, float* to) const {
    const std::int64_t size = plan_.channel_size(), lanes = loops_.lanes;
    for (std::int64_t first = 0; first < width_; first += lanes) {
      const std::int64_t count = std::min(lanes, shape_.inputs - first);
      for (std::int64_t each = 0; each < count; ++each) {
        copy_channel(plan_, from + (first + each) * product_of(shape_.image), channels + each * size);
      }
      std::fill(channels + count * size, channels + lanes * size, 0.0f);
      float* into = to + first / panel_ * panel_ * size + first % panel_;
      for (std::int64_t position = 0; position < size; ++position, into += panel_) {
        for (std::int64_t each = 0; each < lanes; ++each) into[each] = channels[each * size + position];
      }
    }
  }

  // Copies the cotangents of a sample as blocks of rows, `terms` long, from term `begin` on.
  void copy_rows(const float* from, std::int64_t begin, std::int64_t terms, float* to) const {
    const std::int64_t rows = loops_.rows;
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int64_t used = std::min(rows, shape_.outputs - block * rows);
      const float* own = from + block * rows * count();
      float* into = to + (block * terms + begin) * rows;
      for (std::int64_t position = 0; position < count(); ++position, into += rows) {
        for (std::int64_t row = 0; row < used; ++row) into[row] = own[row * count() + position];
        for (std::int64_t row = used; row < rows; ++row) into[row] = 0;
      }
    }
  }

  const Micro& loops_ = micro();
  const Convolution& shape_;
  Plan plan_;
  const Pool& pool_;
  const std::int64_t panel_ = loops_.lanes * loops_.vectors;
  std::int64_t width_ = round_up(shape_.inputs, loops_.lanes);
  std::int64_t blocks_ = ceil_div(shape_.outputs, loops_.rows);
  Places places_ = places_of(plan_, plan_.passes[0], shape_.result);
  Division division_;
  std::vector<std::int32_t> offsets_;  // of all terms
};

}  // namespace

void convolve_filters(const Convolution& shape, const float* cotangents, const float* images,
                      float* filters, const Pool& pool) {
  // Whole vectors of channels, or nearly; single taps do not pay for turning the images round.
  const bool fills = 2 * round_up(shape.inputs, micro().lanes) <= 3 * shape.inputs;
  const bool is_single = product_of(shape.kernel) == 1;
  if (fills && !(is_single && product_of(shape.result) >= kManyPositions)) {
    ByChannels(shape, pool).run(cotangents, images, filters);
  } else {
    by_positions(shape, cotangents, images, filters, pool);
  }
}

}  // namespace flambeau
