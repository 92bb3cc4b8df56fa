// Max pooling, in single precision.

#pragma once

#include <cstdint>

#include "pool.h"

namespace flambeau {

// Windows over the three dimensions of each plane: depth, height and width.
struct Pooling {
  std::int64_t planes;  // samples times channels
  std::int64_t image[3];
  std::int64_t result[3];
  std::int64_t kernel[3];
  std::int64_t stride[3];
  std::int64_t before[3];  // elements of padding
  std::int64_t dilation[3];

  std::int64_t pixels() const { return image[0] * image[1] * image[2]; }
  std::int64_t windows() const { return result[0] * result[1] * result[2]; }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// Whether each window has a tap in the image, and taps have numbers of 32 bits.
bool is_possible(const Pooling& shape);

// The greatest element of each window, and the number of the first tap that has it. Of several NaN
// it is the last, as in PyTorch.
void max_pool(const Pooling& shape, const float* images, float* maxima, std::int32_t* taps,
              const Pool& pool);

// The gradient by the images: each cotangent is added where the maximum was.
void max_pool_gradient(const Pooling& shape, const float* cotangents, const std::int32_t* taps,
                       float* images, const Pool& pool);

// A row of windows. Tap `t` of row `r` of all these windows stands from `rows[r] + shifts[t]` on.
struct WindowRow {
  std::int64_t count;  // of windows
  std::int64_t height, width;  // of a window
  const float* const* rows;
  const std::int32_t* numbers;  // of the first tap of each row of a window
  const std::int64_t* shifts;
  const std::int32_t* first;  // of each window, its first tap in the image, in any row
};

// Loops that are compiled once for each set of vector instructions.
struct MaximumLoops {
  // Rows are read in vectors of so many numbers, of which the last may reach behind the windows.
  std::int64_t lanes;

  // to[i] = from[i * stride]
  void (*take_each)(std::int64_t count, std::int64_t stride, const float* from, float* to);

  void (*maxima)(const WindowRow& row, float* maxima, std::int32_t* taps);
};

// The loops for this processor.
const MaximumLoops& maximum_loops();

}  // namespace flambeau
