// Convolutions over up to three dimensions and their gradients, in single precision.
//
// All arrays are dense, with samples first, then channels, then the spatial dimensions. With fewer
// than three of these, the first ones have size 1.

#pragma once

#include <array>
#include <cstdint>

#include "pool.h"

namespace flambeau {

using Sizes = std::array<std::int64_t, 3>;

// How filters go over images.
//
//   result[n, o, i] = sum over c, t of
//       image[n, c, i * stride + t * dilation - before] * filters[o, c, t]
//
// where an image is 0 outside of its bounds, and group g has the channels c from g * inputs on and
// the channels o from g * outputs on.
struct Convolution {
  std::int64_t samples;
  std::int64_t groups;
  std::int64_t inputs;   // channels of the images in each group
  std::int64_t outputs;  // channels of the results in each group
  Sizes image;
  Sizes kernel;
  Sizes result;
  Sizes stride;
  Sizes before;  // zeros before each dimension; negative numbers crop
  Sizes dilation;
};

// Whether the intermediate arrays of a convolution can be addressed.
bool is_possible(const Convolution& shape);

// The results.
void convolve(const Convolution& shape, const float* images, const float* filters, float* results,
              const Pool& pool);

// The gradient by the images of the sum of results times cotangents.
void convolve_images(const Convolution& shape, const float* cotangents, const float* filters,
                     float* images, const Pool& pool);

// The gradient by the filters of the sum of results times cotangents.
void convolve_filters(const Convolution& shape, const float* cotangents, const float* images,
                      float* filters, const Pool& pool);

}  // namespace flambeau
