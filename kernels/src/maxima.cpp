#include "maxima.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "memory.h"
#include "share.h"

namespace flambeau {
namespace {

// The taps of one window along a dimension that lie in the image, from `first` to before `last`.
struct Inside {
  std::int64_t first, last;
};

Inside inside(const Pooling& shape, int dimension, std::int64_t window) {
  const std::int64_t dilation = shape.dilation[dimension];
  const std::int64_t begin = window * shape.stride[dimension] - shape.before[dimension];
  const std::int64_t end = shape.image[dimension];
  return {begin >= 0 ? 0 : (dilation - 1 - begin) / dilation,
          begin >= end ? 0 : std::min(shape.kernel[dimension], (end - 1 - begin) / dilation + 1)};
}

// How rows of an image are copied, so that vectors hold the same tap of neighbouring windows and need
// not ask where the image ends: the elements of one remainder by the stride side by side, and
// around them what is less than every element.
class Layout {
 public:
  Layout(const Pooling& shape, const MaximumLoops& loops) : loops_(loops), stride_(shape.stride[2]) {
    const std::int64_t windows = (shape.result[2] + loops.lanes - 1) / loops.lanes * loops.lanes;
    const std::int64_t reach = (shape.kernel[2] - 1) * shape.dilation[2] / stride_;
    const std::int64_t cells = windows + reach;
    for (std::int64_t tap = 0; tap < shape.kernel[2]; ++tap) {
      const std::int64_t step = tap * shape.dilation[2];
      const std::int64_t begin = strand(step % stride_, cells, shape);
      shifts.push_back(begin + step / stride_);
    }
    for (std::int64_t window = 0; window < windows; ++window) {
      const bool exists = window < shape.result[2];
      first.push_back(exists ? static_cast<std::int32_t>(inside(shape, 2, window).first) : 0);
    }
    size = static_cast<std::int64_t>(strands_.size()) * cells;
  }

  // Copies a row; what is around it is there.
  void copy(const float* row, float* to) const {
    for (const Strand& each : strands_) {
      loops_.take_each(each.count, stride_, row + each.from, to + each.to);
    }
  }

  std::int64_t size;                 // of a copied row
  std::vector<std::int64_t> shifts;  // where each tap of the first window stands in it
  std::vector<std::int32_t> first;   // for each window, its first tap in the image

 private:
  // The elements of one remainder.
  struct Strand {
    std::int64_t remainder;
    std::int64_t count;
    std::int64_t from, to;  // where the first of them stands in the image's row, and in the copy
  };

  // Where the elements of this remainder stand in the copy.
  std::int64_t strand(std::int64_t remainder, std::int64_t cells, const Pooling& shape) {
    for (std::size_t each = 0; each < strands_.size(); ++each) {
      if (strands_[each].remainder == remainder) return static_cast<std::int64_t>(each) * cells;
    }
    // Cell c has the element c * stride + start of the image.
    const std::int64_t begin = static_cast<std::int64_t>(strands_.size()) * cells;
    const std::int64_t start = remainder - shape.before[2];
    const std::int64_t first = start >= 0 ? 0 : (stride_ - 1 - start) / stride_;
    const std::int64_t last = std::min(cells, (shape.image[2] - start + stride_ - 1) / stride_);
    strands_.push_back({remainder, std::max<std::int64_t>(last - first, 0), first * stride_ + start,
                        begin + first});
    return begin;
  }

  const MaximumLoops& loops_;
  const std::int64_t stride_;
  std::vector<Strand> strands_;
};

// The maxima of one plane, whose rows have been copied.
void maxima_of(const Pooling& shape, const Layout& layout, const float* copy, float* maxima,
               std::int32_t* taps) {
  std::vector<const float*> rows;
  std::vector<std::int32_t> numbers;
  for (std::int64_t deep = 0; deep < shape.result[0]; ++deep) {
    const Inside depth = inside(shape, 0, deep);
    for (std::int64_t high = 0; high < shape.result[1]; ++high) {
      const Inside height = inside(shape, 1, high);
      rows.clear(), numbers.clear();
      for (std::int64_t i = depth.first; i < depth.last; ++i) {
        const std::int64_t z = deep * shape.stride[0] - shape.before[0] + i * shape.dilation[0];
        for (std::int64_t j = height.first; j < height.last; ++j) {
          const std::int64_t y = high * shape.stride[1] - shape.before[1] + j * shape.dilation[1];
          rows.push_back(copy + (z * shape.image[1] + y) * layout.size);
          numbers.push_back(static_cast<std::int32_t>((i * shape.kernel[1] + j) * shape.kernel[2]));
        }
      }
      maximum_loops().maxima({shape.result[2], static_cast<std::int64_t>(rows.size()),
                              shape.kernel[2], rows.data(), numbers.data(), layout.shifts.data(),
                              layout.first.data()},
                             maxima, taps);
      maxima += shape.result[2], taps += shape.result[2];
    }
  }
}

}  // namespace

bool is_possible(const Pooling& shape) {
  double taps = 1;
  for (int each = 0; each < 3; ++each) {
    taps *= static_cast<double>(shape.kernel[each]);
    for (std::int64_t window = 0; window < shape.result[each]; ++window) {
      const Inside found = inside(shape, each, window);
      if (found.first >= found.last) return false;
    }
  }
  return taps <= std::numeric_limits<std::int32_t>::max();
}

void max_pool(const Pooling& shape, const float* images, float* maxima, std::int32_t* taps,
              const Pool& pool) {
  const Layout layout(shape, maximum_loops());
  const std::int64_t lines = shape.image[0] * shape.image[1], windows = shape.windows();
  const Rows planes{shape.planes, shape.pixels()};
  share(pool, planes, parts_of(pool, planes),
        [&](std::int64_t, std::int64_t plane, std::int64_t last) {
          const Memory memory(lines * layout.size);
          std::fill_n(memory.data(), lines * layout.size, -std::numeric_limits<float>::infinity());
          for (; plane < last; ++plane) {
            const float* const image = images + plane * planes.size;
            for (std::int64_t line = 0; line < lines; ++line) {
              layout.copy(image + line * shape.image[2], memory.data() + line * layout.size);
            }
            maxima_of(shape, layout, memory.data(), maxima + plane * windows, taps + plane * windows);
          }
        });
}

void max_pool_gradient(const Pooling& shape, const float* cotangents, const std::int32_t* taps,
                       float* images, const Pool& pool) {
  const auto place = [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    return (z * shape.image[1] + y) * shape.image[2] + x;
  };
  // How far each tap is from the first of its window.
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 0; i < shape.kernel[0]; ++i) {
    for (std::int64_t j = 0; j < shape.kernel[1]; ++j) {
      for (std::int64_t k = 0; k < shape.kernel[2]; ++k) {
        steps.push_back(place(i * shape.dilation[0], j * shape.dilation[1], k * shape.dilation[2]));
      }
    }
  }
  const std::int64_t windows = shape.windows();
  const Rows planes{shape.planes, shape.pixels()};
  const auto add = [&](const float* from, const std::int32_t* tap, float* image) {
    std::fill_n(image, planes.size, 0.0f);
    for (std::int64_t deep = 0; deep < shape.result[0]; ++deep) {
      for (std::int64_t high = 0; high < shape.result[1]; ++high) {
        std::int64_t begin = place(deep * shape.stride[0] - shape.before[0],
                                   high * shape.stride[1] - shape.before[1], -shape.before[2]);
        for (std::int64_t wide = 0; wide < shape.result[2]; ++wide, begin += shape.stride[2]) {
          const std::size_t number = static_cast<std::uint32_t>(*tap++);
          const float cotangent = *from++;
          // Nothing else is in what `max_pool` has given.
          if (number >= steps.size()) continue;
          const std::uint64_t at = static_cast<std::uint64_t>(begin + steps[number]);
          if (at < static_cast<std::uint64_t>(planes.size)) image[at] += cotangent;
        }
      }
    }
  };
  share(pool, planes, parts_of(pool, planes),
        [&](std::int64_t, std::int64_t plane, std::int64_t last) {
          for (; plane < last; ++plane) {
            add(cotangents + plane * windows, taps + plane * windows, images + plane * planes.size);
          }
        });
}

}  // namespace flambeau
