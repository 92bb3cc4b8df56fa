// A convolution is a product of matrices whose second factor is never written out.
//
// An image is copied once, with its border of zeros. In the copy, position p of the result and
// position p + shift of the image belong together, with one shift for each tap of the filters:
//
//   result[o, p] = sum over c, t of filters[o, c, t] * copy[c, p + shift[t]]
//
// where p counts along rows of the copy, so it also stands at a few places behind each row, whose
// results nobody reads. All loops over p are therefore long and dense, however small the images.
//
// - With a stride, the copy has one image for each remainder of positions by the stride, so that
//   neighbouring results read neighbouring numbers.
// - The gradient by the images is the same product, of a copy of the cotangents and the filters with
//   the shifts reversed; with a stride, one product for each remainder.
// - The gradient by the filters sums over p instead of over c and t.

#include "convolution.h"

#include <cstring>
#include <limits>
#include <vector>

#include "memory.h"
#include "micro.h"

namespace flambeau {
namespace {

// How much of a copy is read again and again before the next part: about half of a core's cache.
constexpr std::int64_t kTile = 64 * 1024;
// Sums over shorter rows than this go over several samples at once.
constexpr std::int64_t kLongEnough = 1024;

std::int64_t product_of(const Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }
// Of a negative number too.
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return floor_div(a + b - 1, b); }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// Calls visit(index, place) for each index below the sizes, in the order of memory.
template <typename Visit>
void for_each(const Sizes& sizes, Visit visit) {
  std::int64_t index = 0;
  Sizes at;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < sizes[1]; ++at[1]) {
      for (at[2] = 0; at[2] < sizes[2]; ++at[2]) visit(index++, at);
    }
  }
}

// An image of a copy: its element a is element a * step + start of the source.
struct Image {
  Sizes start;
  Sizes step;
};

// The elements of one product, and where its results go: those at a to a * step + start.
struct Pass {
  Sizes count;
  Sizes start;
  Sizes step;
  std::vector<std::int64_t> taps;
  std::vector<std::int64_t> shifts;  // of each tap, in a channel of the copy
};

// How a copy is laid out, and what is computed from it.
struct Plan {
  Sizes source;
  Sizes size;  // of each image of the copy
  std::vector<Image> images;
  std::vector<Pass> passes;

  std::int64_t image_size() const { return product_of(size); }
  std::int64_t channel_size() const {
    return static_cast<std::int64_t>(images.size()) * image_size();
  }
  // The positions that a pass goes over, from its first result to its last.
  std::int64_t positions(const Pass& pass) const {
    return ((pass.count[0] - 1) * size[1] + pass.count[1] - 1) * size[2] + pass.count[2];
  }
  // Whether the copy would equal its source.
  bool is_plain() const {
    const Sizes none{0, 0, 0}, one{1, 1, 1};
    return images.size() == 1 && size == source && images[0].start == none && images[0].step == one;
  }
  // Whether the positions of a pass are those of its results, one after the other.
  bool is_dense(const Pass& pass, const Sizes& target) const {
    const bool same_rows = size[1] == target[1] && size[2] == target[2];
    return same_rows && pass.count == target && pass.step == Sizes{1, 1, 1};
  }
  std::int64_t shift_of(const Sizes& shift) const {
    return (shift[0] * size[1] + shift[1]) * size[2] + shift[2];
  }
};

// The results from a copy of the images.
Plan plan_of_results(const Convolution& shape) {
  Plan plan;
  plan.source = shape.image;
  Sizes remainders;
  for (int each = 0; each < 3; ++each) {
    const std::int64_t reach = (shape.kernel[each] - 1) * shape.dilation[each];
    remainders[each] = std::min(shape.stride[each], reach + 1);
    plan.size[each] = shape.result[each] + reach / shape.stride[each];
  }
  for_each(remainders, [&](std::int64_t, const Sizes& remainder) {
    Image image;
    for (int each = 0; each < 3; ++each) {
      image.start[each] = remainder[each] - shape.before[each];
      image.step[each] = shape.stride[each];
    }
    plan.images.push_back(image);
  });
  Pass pass{shape.result, {0, 0, 0}, {1, 1, 1}, {}, {}};
  for_each(shape.kernel, [&](std::int64_t tap, const Sizes& at) {
    std::int64_t image = 0;
    Sizes shift;
    for (int each = 0; each < 3; ++each) {
      const std::int64_t distance = at[each] * shape.dilation[each];
      image = image * remainders[each] + distance % shape.stride[each];
      shift[each] = distance / shape.stride[each];
    }
    pass.taps.push_back(tap);
    pass.shifts.push_back(image * plan.image_size() + plan.shift_of(shift));
  });
  plan.passes.push_back(pass);
  return plan;
}

// The gradient by the images from a copy of the cotangents.
//
// Element i of an image, with i + before = j * stride + remainder, has met the taps at the distance
// q * stride + remainder, for result j - q.
Plan plan_of_images(const Convolution& shape) {
  Plan plan;
  plan.source = shape.result;
  Sizes furthest, begin, end;
  for (int each = 0; each < 3; ++each) {
    const std::int64_t stride = shape.stride[each], before = shape.before[each];
    furthest[each] = (shape.kernel[each] - 1) * shape.dilation[each] / stride;
    // Bounds of j over all remainders.
    begin[each] = floor_div(before, stride);
    end[each] = floor_div(shape.image[each] - 1 + before, stride) + 1;
    plan.size[each] = end[each] - begin[each] + furthest[each];
  }
  Image image;
  for (int each = 0; each < 3; ++each) {
    image.start[each] = begin[each] - furthest[each];
    image.step[each] = 1;
  }
  plan.images.push_back(image);
  for_each(shape.stride, [&](std::int64_t, const Sizes& remainder) {
    Pass pass;
    Sizes first;
    for (int each = 0; each < 3; ++each) {
      const std::int64_t stride = shape.stride[each];
      const std::int64_t offset = remainder[each] - shape.before[each];
      // The first and the last j of an element in the image.
      first[each] = ceil_div(-offset, stride);
      pass.count[each] = floor_div(shape.image[each] - 1 - offset, stride) - first[each] + 1;
      pass.start[each] = first[each] * stride + offset;
      pass.step[each] = stride;
      if (pass.count[each] <= 0) return;
    }
    for_each(shape.kernel, [&](std::int64_t tap, const Sizes& at) {
      Sizes shift;
      for (int each = 0; each < 3; ++each) {
        const std::int64_t distance = at[each] * shape.dilation[each];
        if (distance % shape.stride[each] != remainder[each]) return;
        shift[each] = first[each] - begin[each] + furthest[each] - distance / shape.stride[each];
      }
      pass.taps.push_back(tap);
      pass.shifts.push_back(plan.shift_of(shift));
    });
    plan.passes.push_back(pass);
  });
  return plan;
}

// Copies one channel of the source; zeros where an image lies outside of it.
void copy_channel(const Plan& plan, const float* source, float* copy) {
  const auto [depth, height, width] = plan.source;
  for (const Image& image : plan.images) {
    const std::int64_t start = image.start[2], step = image.step[2];
    const std::int64_t row = plan.size[2];
    const std::int64_t begin =
        std::min(row, start >= 0 ? 0 : ceil_div(-start, step));
    const std::int64_t end =
        start >= width ? begin : std::clamp((width - 1 - start) / step + 1, begin, row);
    for (std::int64_t d = 0; d < plan.size[0]; ++d) {
      const std::int64_t from_d = d * image.step[0] + image.start[0];
      for (std::int64_t h = 0; h < plan.size[1]; ++h, copy += row) {
        const std::int64_t from_h = h * image.step[1] + image.start[1];
        if (from_d < 0 || from_d >= depth || from_h < 0 || from_h >= height || begin == end) {
          std::memset(copy, 0, row * sizeof(float));
          continue;
        }
        const float* from = source + (from_d * height + from_h) * width;
        std::memset(copy, 0, begin * sizeof(float));
        if (step == 1) {
          std::memcpy(copy + begin, from + begin + start, (end - begin) * sizeof(float));
        } else {
          for (std::int64_t w = begin; w < end; ++w) copy[w] = from[w * step + start];
        }
        std::memset(copy + end, 0, (row - end) * sizeof(float));
      }
    }
  }
}

// Stores the results at the positions from `begin` to `end`, which stand at `found`.
void store(const Plan& plan, const Pass& pass, const Sizes& target, std::int64_t begin,
           std::int64_t end, const float* found, float* to) {
  const std::int64_t row = plan.size[2], height = plan.size[1];
  for (std::int64_t line = begin / row; line * row < end; ++line) {
    const std::int64_t d = line / height, h = line % height;
    if (h >= pass.count[1]) continue;
    const std::int64_t first = std::max<std::int64_t>(begin - line * row, 0);
    const std::int64_t last = std::min(end - line * row, pass.count[2]);
    if (first >= last) continue;
    const float* from = found + line * row - begin;
    const std::int64_t step = pass.step[2];
    float* into = to + ((d * pass.step[0] + pass.start[0]) * target[1] + h * pass.step[1] +
                        pass.start[1]) * target[2] + pass.start[2];
    if (step == 1) {
      std::memcpy(into + first, from + first, (last - first) * sizeof(float));
    } else {
      for (std::int64_t w = first; w < last; ++w) into[w * step] = from[w];
    }
  }
}

// What a product reads of filters: `rows` and `terms` channels, with their steps in memory.
struct Filters {
  const float* data;
  std::int64_t rows;
  std::int64_t row_step;
  std::int64_t channels;
  std::int64_t channel_step;
};

// The filters of a pass in the order in which the innermost loop reads them, filled up with zeros
// to a whole number of blocks of rows.
std::vector<float> packed(const Filters& filters, const Pass& pass, std::int64_t taps, int rows) {
  const std::int64_t own = static_cast<std::int64_t>(pass.taps.size());
  const std::int64_t terms = filters.channels * own;
  std::vector<float> found(round_up(filters.rows, rows) * terms);
  for (std::int64_t row = 0; row < filters.rows; ++row) {
    float* to = found.data() + row / rows * rows * terms + row % rows;
    for (std::int64_t channel = 0; channel < filters.channels; ++channel) {
      const float* from =
          filters.data + row * filters.row_step + channel * filters.channel_step * taps;
      for (std::int64_t each = 0; each < own; ++each, to += rows) *to = from[pass.taps[each]];
    }
  }
  return found;
}

// All passes of a plan, for all samples and groups.
class Product {
 public:
  // channels, rows: channels of the source and of the target in each group
  // filters_of: the filters of a group
  Product(const Plan& plan, const Convolution& shape, std::int64_t channels, std::int64_t rows,
          const Sizes& target, const std::function<Filters(std::int64_t)>& filters_of,
          const Pool& pool)
      : plan_(plan), groups_(shape.groups), channels_(channels), rows_(rows), target_(target),
        pool_(pool), weights_(shape.groups * plan.passes.size()) {
    const std::int64_t passes = static_cast<std::int64_t>(plan.passes.size());
    parallel(pool, groups_ * passes, [&](std::int64_t item) {
      weights_[item] = packed(filters_of(item / passes), plan.passes[item % passes],
                              product_of(shape.kernel), loops_.rows);
    });
    for (const Pass& pass : plan.passes) {
      std::vector<std::int32_t> found;
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        for (const std::int64_t shift : pass.shifts) {
          found.push_back(static_cast<std::int32_t>(channel * plan.channel_size() + shift));
        }
      }
      offsets_.push_back(std::move(found));
    }
    const std::int64_t width = channels * static_cast<std::int64_t>(plan.images.size());
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
    const std::int64_t terms = static_cast<std::int64_t>(offsets_[at].size());
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
          const std::int64_t count =
              std::min<std::int64_t>(loops_.vectors, ceil_div(end - place, loops_.lanes));
          loops_.product(terms, weights + first * terms, offsets_[at].data(), copy + place,
                         fits ? to + first * target_size + place : found + place - begin,
                         fits ? target_size : tile_, static_cast<int>(count));
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

bool is_possible(const Convolution& shape) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / 4;
  for (const Plan& plan : {plan_of_results(shape), plan_of_images(shape)}) {
    if (std::max(shape.inputs, shape.outputs) * plan.channel_size() > most) return false;
  }
  return true;
}

void convolve(const Convolution& shape, const float* images, const float* filters, float* results,
              const Pool& pool) {
  const std::int64_t taps = product_of(shape.kernel);
  const auto filters_of = [&](std::int64_t group) {
    return Filters{filters + group * shape.outputs * shape.inputs * taps, shape.outputs,
                   shape.inputs * taps, shape.inputs, 1};
  };
  const Plan plan = plan_of_results(shape);
  Product(plan, shape, shape.inputs, shape.outputs, shape.result, filters_of, pool)
      .run(shape.samples, images, results);
}

void convolve_images(const Convolution& shape, const float* cotangents, const float* filters,
                     float* images, const Pool& pool) {
  const std::int64_t taps = product_of(shape.kernel);
  const auto filters_of = [&](std::int64_t group) {
    return Filters{filters + group * shape.outputs * shape.inputs * taps, shape.inputs, taps,
                   shape.outputs, shape.inputs};
  };
  // Each element belongs to one pass, also if no tap reaches it.
  const Plan plan = plan_of_images(shape);
  Product(plan, shape, shape.outputs, shape.inputs, shape.image, filters_of, pool)
      .run(shape.samples, cotangents, images);
}

void convolve_filters(const Convolution& shape, const float* cotangents, const float* images,
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

}  // namespace flambeau
