// Gradients of convolutions by filters.

#include <algorithm>
#include <cstring>
#include <vector>

#include "memory.h"
#include "micro.h"
#include "plan.h"
#include "transpose.h"

namespace flambeau {

namespace {

// Sums over shorter rows than this go over several samples at once.
constexpr std::int64_t kLongEnough = 1024;
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
      : shape_(shape), pool_(pool), size_(extent_of(shape)) {
    for_each(shape.image, [&](std::int64_t, const Sizes& at) {
      bool is_read = true;
      Sizes place;
      for (int each = 0; each < 3; ++each) {
        place[each] = at[each] + shape.before[each];
        is_read = is_read && place[each] >= 0 && place[each] < size_[each];
      }
      // What no tap reads goes behind the copy.
      const std::int64_t position = is_read ? index_of(place) : product_of(size_);
      places_.push_back(static_cast<std::int32_t>(position * width_));
    });
    for_each(shape.kernel, [&](std::int64_t, const Sizes& at) {
      taps_.push_back(index_of({at[0] * shape.dilation[0], at[1] * shape.dilation[1],
                                at[2] * shape.dilation[2]}) * width_);
    });
    division_ = division_of(shape, count(), copy_size() + blocks_ * loops_.rows * count(), blocks_,
                            pool);
    for (std::int64_t sample = 0; sample < division_.together; ++sample) {
      for_each(shape.result, [&](std::int64_t, const Sizes& at) {
        const std::int64_t position = index_of(
            {at[0] * shape.stride[0], at[1] * shape.stride[1], at[2] * shape.stride[2]});
        offsets_.push_back(static_cast<std::int32_t>(sample * copy_size() + position * width_));
      });
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
  std::int64_t count() const { return product_of(shape_.result); }
  std::int64_t copy_size() const { return (product_of(size_) + 1) * width_; }
  std::int64_t index_of(const Sizes& at) const {
    return (at[0] * size_[1] + at[1]) * size_[2] + at[2];
  }

  // Adds up part of the gradient of a group over a range of samples.
  void sum(std::int64_t range, std::int64_t group, std::int64_t part, const float* cotangents,
           const float* images, float* sums) const {
    const std::int64_t taps = product_of(shape_.kernel), rows = loops_.rows;
    const std::int64_t together = division_.together, row_size = blocks_ * rows * count();
    Memory memory(together * (copy_size() + row_size) + rows * panel_);
    float* copies = memory.data();
    float* row_copies = copies + together * copy_size();
    float* found = row_copies + together * row_size;
    std::fill(copies, row_copies, 0.0f);  // the borders stay so

    const std::int64_t first = shape_.samples * range / division_.ranges;
    const std::int64_t last = shape_.samples * (range + 1) / division_.ranges;
    for (std::int64_t begin = first; begin < last; begin += together) {
      const std::int64_t samples = std::min(together, last - begin);
      const std::int64_t terms = samples * count();
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        const std::int64_t at = (begin + sample) * shape_.groups + group;
        copy_images(images + at * shape_.inputs * product_of(shape_.image),
                    copies + sample * copy_size());
        copy_rows(cotangents + at * shape_.outputs * count(), sample * count(), terms, row_copies);
      }
      const Run run{0, 0};
      for (std::int64_t block = part; block < blocks_; block += division_.parts) {
        const std::int64_t outputs = std::min(rows, shape_.outputs - block * rows);
        // The vectors of all taps, one after the other.
        for (std::int64_t first = 0; first < taps * vectors_; first += loops_.vectors) {
          const std::int64_t count = std::min<std::int64_t>(loops_.vectors, taps * vectors_ - first);
          Column columns[kMostVectors];
          for (std::int64_t each = first; each < first + count; ++each) {
            columns[each - first] = {
                copies + taps_[each / vectors_] + each % vectors_ * loops_.lanes,
                found + (each - first) * loops_.lanes};
          }
          loops_.product({&run, 1, offsets_.data(), terms}, row_copies + block * rows * terms,
                         columns, panel_, static_cast<int>(count));
          for (std::int64_t row = 0; row < outputs; ++row) {
            float* to = sums + (block * rows + row) * taps * width_ + first * loops_.lanes;
            for (std::int64_t each = 0; each < count * loops_.lanes; ++each) {
              to[each] += found[row * panel_ + each];
            }
          }
        }
      }
    }
  }

  // Copies the images of a sample with the channels of each position side by side.
  void copy_images(const float* from, float* to) const {
    const std::int64_t size = product_of(shape_.image), lanes = loops_.lanes;
    for (std::int64_t channel = 0; channel < shape_.inputs; channel += lanes) {
      const int rows = static_cast<int>(std::min(lanes, shape_.inputs - channel));
      for (std::int64_t position = 0; position < size; position += lanes) {
        const int columns = static_cast<int>(std::min(lanes, size - position));
        loops_.transpose(rows, columns, from + channel * size + position, size, to + channel,
                         places_.data() + position);
      }
    }
  }

  // Copies the cotangents of a sample as blocks of rows, `terms` long, from term `begin` on.
  void copy_rows(const float* from, std::int64_t begin, std::int64_t terms, float* to) const {
    const std::int64_t rows = loops_.rows;
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int64_t used = std::min(rows, shape_.outputs - block * rows);
      float* into = to + (block * terms + begin) * rows;
      if (used < rows) std::fill(into, into + count() * rows, 0.0f);
      transpose(used, count(), from + block * rows * count(), count(), into, rows);
    }
  }

  const Micro& loops_ = micro();
  const Convolution& shape_;
  const std::int64_t panel_ = loops_.lanes * loops_.vectors;
  std::int64_t vectors_ = ceil_div(shape_.inputs, loops_.lanes);  // of each position
  std::int64_t width_ = vectors_ * loops_.lanes;
  std::int64_t blocks_ = ceil_div(shape_.outputs, loops_.rows);
  const Pool& pool_;
  Sizes size_;                        // of a copy, with its border of zeros
  std::vector<std::int32_t> places_;  // of the positions of an image in its copy
  std::vector<std::int64_t> taps_;    // where each begins in a copy
  Division division_;
  std::vector<std::int32_t> offsets_;  // of all terms
};

}  // namespace

void convolve_filters(const Convolution& shape, const float* cotangents, const float* images,
                      float* filters, const Pool& pool) {
  // Whole vectors of channels, or nearly.
  if (2 * round_up(shape.inputs, micro().lanes) <= 3 * shape.inputs) {
    ByChannels(shape, pool).run(cotangents, images, filters);
  } else {
    by_positions(shape, cotangents, images, filters, pool);
  }
}

}  // namespace flambeau
