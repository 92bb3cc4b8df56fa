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
// - Where samples are many, vectors hold these side by side (interleaved.cpp), and where images are
//   so small that much would be computed behind the rows, filters (short.cpp).
// - The gradient by the filters sums over p instead of over c and t (gradient.cpp).

#pragma once

#include <cstdint>
#include <vector>

#include "convolution.h"

namespace flambeau {

inline std::int64_t product_of(const Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }
// Of a negative number too.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return floor_div(a + b - 1, b); }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

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

// The positions of a pass's results in the copy, and their places in the target.
struct Places {
  std::vector<std::int64_t> positions;
  std::vector<std::int64_t> targets;
};
Places places_of(const Plan& plan, const Pass& pass, const Sizes& target);

// The elements of an image from the first to the last that a tap reads, with zeros around it.
Sizes extent_of(const Convolution& shape);

// The results from a copy of the images.
Plan plan_of_results(const Convolution& shape);

// The gradient by the images from a copy of the cotangents.
Plan plan_of_images(const Convolution& shape);

// Copies one channel of the source; zeros where an image lies outside of it.
void copy_channel(const Plan& plan, const float* source, float* copy);

// Stores the results at the positions from `begin` to `end`, which stand at `found`.
void store(const Plan& plan, const Pass& pass, const Sizes& target, std::int64_t begin,
           std::int64_t end, const float* found, float* to);

}  // namespace flambeau
